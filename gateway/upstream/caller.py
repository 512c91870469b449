"""A client's request in work at a server.

It receives the server's messages and questions, within a time limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import inf
from types import TracebackType
from typing import Any, Protocol, Self, get_args

import anyio
import mcp.types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.message import ServerMessageMetadata
from mcp.types import LOG_LEVEL_META_KEY
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

Context = ServerRequestContext[Any, Any]
Question = types.CreateMessageRequest | types.ListRootsRequest | types.ElicitRequest
Answer = (
    types.CreateMessageResult
    | types.CreateMessageResultWithTools
    | types.ListRootsResult
    | types.ElicitResult
)
#: Levels of log messages, least severe first.
LEVELS: tuple[types.LoggingLevel, ...] = get_args(types.LoggingLevel)
#: Level from which on a client gets the messages of its own calls, unless it sets another.
_USUAL_LEVEL: types.LoggingLevel = "info"
#: Messages of one request that wait to be sent; further ones are dropped.
_MOST_WAITING = 1_000


class CallingClient(Protocol):
    """The part of a client's session that is used here."""

    @property
    def id(self) -> str:
        """Id of the session."""

    @property
    def log_level(self) -> types.LoggingLevel | None:
        """Level from which on the client asked for log messages."""

    @property
    def profile(self) -> object:
        """Its permission."""


class Asks(Protocol):
    """Asks a client that cannot get requests: questions are in the answers to its own requests."""

    async def ask(self, question: Question) -> Answer | types.ErrorData:
        """The client's answer."""


class Caller:
    """A client's request that a server works on.

    Args:
        context: context of the request.
        client: the session that it belongs to.

    Attributes:
        held: asks a client of the newer protocol, which gets no requests; None for other clients.
        patience: time limit of the request at the server. It pauses during questions.
    """

    def __init__(self, context: Context, client: CallingClient) -> None:
        self.context = context
        self.client = client
        self.held: Asks | None = None
        self.patience: Patience | None = None
        self._in_order = anyio.Lock()

    @property
    def is_modern(self) -> bool:
        """Whether the client has the protocol 2026-07-28 and gets questions in answers only."""
        return self.context.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def wished_level(self) -> types.LoggingLevel | None:
        """Level from which on the client asked for log messages; None if it did not."""
        if self.is_modern:
            level = (self.context.meta or {}).get(LOG_LEVEL_META_KEY)
            return level if level in LEVELS else None
        return self.client.log_level

    async def ask(self, question: Question) -> Answer | types.ErrorData:
        """Ask the client a server's question.

        Args:
            question: the server's question.
        """
        if problem := unsupported(question, self.context.session.client_capabilities):
            return types.ErrorData(code=types.INVALID_REQUEST, message=problem)
        if self.patience is None:
            return await self._asked(question)
        with self.patience.paused():
            return await self._asked(question)

    async def _asked(self, question: Question) -> Answer | types.ErrorData:
        if self.held is not None:
            return await self.held.ask(question)
        related = ServerMessageMetadata(related_request_id=self.context.request_id)
        try:
            return await self.context.session.send_request(
                question, _answer_type(question), metadata=related
            )
        except MCPError as error:
            return error.error
        except ValidationError:
            message = "the client's answer does not fit the question"
            return types.ErrorData(code=types.INTERNAL_ERROR, message=message)

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        """Pass a log message of the server on, unless it is below the client's level."""
        level = self.wished_level
        if level is None:
            if self.is_modern:
                return
            level = _USUAL_LEVEL
        if LEVELS.index(params.level) >= LEVELS.index(level):
            await self._send(types.LoggingMessageNotification(params=params))

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass progress on, if the client asked for it."""
        async with self._in_order:
            try:
                await self.context.session.report_progress(progress, total, message)
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                return

    async def settle(self) -> None:
        """Wait until all messages so far are sent."""
        async with self._in_order:
            return

    async def _send(self, notification: types.ServerNotification) -> None:
        if self._in_order.statistics().tasks_waiting >= _MOST_WAITING:
            # The server sends faster than the client reads.
            return
        async with self._in_order:
            try:
                await self.context.session.send_notification(
                    notification, related_request_id=self.context.request_id
                )
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                # The client is gone, and nobody can get its messages.
                return


def unsupported(question: Question, able: types.ClientCapabilities | None) -> str | None:
    """Why a client cannot be asked a question; None if it can.

    Args:
        question: a server's question.
        able: capabilities that the client declared; None for none.
    """
    able = able or types.ClientCapabilities()
    if isinstance(question, types.ElicitRequest):
        asks = "input from the user (elicitation)"
        supported = able.elicitation is not None
        if able.elicitation is not None and question.params.mode == "url":
            asks = "the user to open an address (elicitation by URL)"
            supported = able.elicitation.url is not None
    elif isinstance(question, types.CreateMessageRequest):
        asks = "a completion by the client's model (sampling)"
        supported = able.sampling is not None
    else:
        asks, supported = "the client's folders (roots)", able.roots is not None
    if supported:
        return None
    return f"the server asks for {asks}, which this client does not support"


def forwarded_meta(meta: Mapping[str, Any] | None, caller: Caller) -> Any:
    """The `_meta` of a request for the server, without the keys of the client's connection.

    Args:
        meta: `_meta` of the client's request.
        caller: the request.
    """
    kept: dict[str, Any] = {
        key: value
        for key, value in (meta or {}).items()
        if key not in ("progressToken", "progress_token")
        and not key.startswith("io.modelcontextprotocol/")
    }
    if caller.wished_level is not None:
        kept[LOG_LEVEL_META_KEY] = caller.wished_level
    return kept or None


def _answer_type(question: Question) -> Any:
    if isinstance(question, types.ElicitRequest):
        return types.ElicitResult
    if isinstance(question, types.ListRootsRequest):
        return types.ListRootsResult
    wants_tools = question.params.tools is not None or question.params.tool_choice is not None
    return types.CreateMessageResultWithTools if wants_tools else types.CreateMessageResult


#: A request may take at most this many times its limit, even with progress reports.
_MOST = 20


class Patience:
    """A time limit that restarts with each progress report.

    Args:
        seconds: seconds without progress. The whole request may take 20 times as long.

    Raises:
        TimeoutError: at the end of the block, if time ran out in it.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._scope = anyio.CancelScope()
        self._most = 0.0
        self._pauses, self._paused_at = 0, 0.0

    def extend(self) -> None:
        """Restart the time limit."""
        if not self._pauses:
            self._scope.deadline = min(anyio.current_time() + self._seconds, self._most)

    def with_progress(self, told: ProgressFnT | None) -> ProgressFnT:
        """A progress callback that restarts the time limit.

        Args:
            told: also called with the progress.
        """

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            self.extend()
            if told is not None:
                await told(progress, total, message)

        return heard

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the time limit during the block, in which the server waits for an answer."""
        if not self._pauses:
            self._paused_at = anyio.current_time()
            self._scope.deadline = inf
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                self._most += anyio.current_time() - self._paused_at
                self.extend()

    def __enter__(self) -> Self:
        self._most = anyio.current_time() + _MOST * self._seconds
        self.extend()
        self._scope.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        swallowed = self._scope.__exit__(kind, error, traceback)
        if self._scope.cancelled_caught:
            raise TimeoutError
        return swallowed
