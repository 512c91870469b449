"""A client's call of a server: who asks, what is asked, and when it ends.

Every request that a server gets for a client is a `Call`: of a tool, a resource, a prompt, a
completion, a task or a vote. `ServerMessages.send_call` checks it once more and sends it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from math import inf
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar, get_args

import anyio
import mcp.types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.shared.message import ServerMessageMetadata
from mcp.types import LOG_LEVEL_META_KEY
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, TypeAdapter, ValidationError

from .shown_questions import ServerQuestion, unreadable_reason

RequestContext = ServerRequestContext[Any, Any]
ClientAnswer = (
    types.CreateMessageResult
    | types.CreateMessageResultWithTools
    | types.ListRootsResult
    | types.ElicitResult
)
#: Levels of log messages, least severe first.
LOG_LEVELS: tuple[types.LoggingLevel, ...] = get_args(types.LoggingLevel)
#: Level from which on a client gets the messages of its own calls, unless it sets another.
_DEFAULT_LOG_LEVEL: types.LoggingLevel = "info"
#: Messages of one request that wait to be sent; further ones are dropped.
_MAX_QUEUED_MESSAGES = 1_000


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


class QuestionChannel(Protocol):
    """Asks a client that cannot get requests: questions are in the answers to its own requests."""

    async def ask(self, question: ServerQuestion) -> ClientAnswer | types.ErrorData:
        """The client's answer."""


class Caller:
    """The sender of a client's request. It gets the messages and questions of servers.

    Args:
        context: context of the request.
        client: the session that it belongs to.

    Attributes:
        question_channel: asks a client of the newer protocol, which gets no requests; None for
            other clients.
        time_limit: time limit of the request at the server. It pauses during questions.
    """

    def __init__(self, context: RequestContext, client: CallingClient) -> None:
        self.context = context
        self.client = client
        self.question_channel: QuestionChannel | None = None
        self.time_limit: TimeLimit | None = None
        self._send_lock = anyio.Lock()

    @property
    def is_modern(self) -> bool:
        """Whether the client has the protocol 2026-07-28 and gets questions in answers only."""
        return self.context.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def requested_log_level(self) -> types.LoggingLevel | None:
        """Level from which on the client asked for log messages; None if it did not."""
        if self.is_modern:
            level = (self.context.meta or {}).get(LOG_LEVEL_META_KEY)
            return level if level in LOG_LEVELS else None
        return self.client.log_level

    async def ask(self, question: ServerQuestion) -> ClientAnswer | types.ErrorData:
        """Ask the client a question.

        Args:
            question: the question, as the client shows it.
        """
        if problem := unsupported_reason(question, self.context.session.client_capabilities):
            return types.ErrorData(code=types.INVALID_REQUEST, message=problem)
        if self.time_limit is None:
            return await self._send_question(question)
        with self.time_limit.paused():
            return await self._send_question(question)

    async def _send_question(self, question: ServerQuestion) -> ClientAnswer | types.ErrorData:
        if self.question_channel is not None:
            return await self.question_channel.ask(question)
        metadata = ServerMessageMetadata(related_request_id=self.context.request_id)
        try:
            return await self.context.session.send_request(
                question, _answer_type(question), metadata=metadata
            )
        except MCPError as error:
            return error.error
        except ValidationError:
            message = "the client's answer does not fit the question"
            return types.ErrorData(code=types.INTERNAL_ERROR, message=message)

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        """Pass a log message of the server on, unless it is below the client's level."""
        level = self.requested_log_level
        if level is None:
            if self.is_modern:
                return
            level = _DEFAULT_LOG_LEVEL
        if LOG_LEVELS.index(params.level) >= LOG_LEVELS.index(level):
            notification = types.LoggingMessageNotification(params=params)
            await self._send(
                partial(
                    self.context.session.send_notification,
                    notification,
                    related_request_id=self.context.request_id,
                )
            )

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass progress on, if the client asked for it."""
        await self._send(partial(self.context.session.report_progress, progress, total, message))

    async def wait_until_sent(self) -> None:
        """Wait until all messages so far are sent."""
        async with self._send_lock:
            return

    async def _send(self, send: Callable[[], Awaitable[None]]) -> None:
        """Send a message in order; drop it if the server sends faster than the client reads."""
        if self._send_lock.statistics().tasks_waiting >= _MAX_QUEUED_MESSAGES:
            return
        # A client that is gone gets no messages.
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async with self._send_lock:
                await send()


Answer = TypeVar("Answer", bound=BaseModel)


class Call(ABC, Generic[Answer]):
    """One request of a client to one server, from its arrival until its answer.

    Args:
        caller: who asks, and how the client is asked back.
        server: name of the server; empty until the call's name is resolved.

    Attributes:
        caller, server: the arguments.
        answer_type: reads the server's answer, which can also be a question to the client.
        operation: what the server is asked for, without arguments, such as the id of a tool.
        subject: the operation with its arguments. A client that repeats a request with its answers
            must ask for the same one.
        timeout_s: seconds without progress until it ends; the server's own limit when None.
        takes_task: whether a task of the server may be the answer. Otherwise its result is awaited.
        reads_only: whether it changes nothing. Then it is sent again once if the connection is
            lost.
        was_sent: whether the server got it.
    """

    answer_type: TypeAdapter[Any]

    def __init__(self, caller: Caller, server: str = "") -> None:
        self.caller = caller
        self.server = server
        self.operation = self.subject = ""
        self.timeout_s: float | None = None
        self.reads_only = self.takes_task = False
        self.was_sent = False

    @property
    def may_have_had_effect(self) -> bool:
        """Whether a call without an answer may have changed something: nobody knows."""
        return self.was_sent and not self.reads_only

    @abstractmethod
    def check_before_sending(self) -> None:
        """Check again that it may be sent, as of now.

        It is called before each sending, after all waiting.

        Raises:
            ShortlistError: it may not be sent any more.
        """

    @abstractmethod
    def request(
        self, answers: types.InputResponses | None, state: str | None
    ) -> types.Request[Any, Any]:
        """The request for the server. It is called directly after `check_before_sending`.

        Args:
            answers: the client's answers to the questions in the server's last result.
            state: the server's state from that result.
        """


class CheckedRequest(Call[Answer]):
    """A request for anything but a call of a tool: the same request each time it is sent.

    Of a resource, a prompt, a completion, a task or a vote.

    Args:
        caller: who asks, and how the client is asked back.
        server: name of the server.
        request: the request for the server, without the client's answers.
        check: raises an error if the client may not have the answer any more.
        answer_type: reads the server's answer.
        reads_only: whether it changes nothing.
    """

    def __init__(
        self,
        caller: Caller,
        server: str,
        request: types.Request[Any, Any],
        check: Callable[[], None],
        answer_type: TypeAdapter[Any],
        *,
        reads_only: bool = True,
    ) -> None:
        super().__init__(caller, server)
        self.answer_type = answer_type
        self.operation = request.method
        arguments = request.params.model_dump(mode="json", exclude={"meta"})
        self.subject = f"{self.operation} {json.dumps(arguments, sort_keys=True)}"
        self.reads_only = reads_only
        self._request = request
        self._check = check

    def check_before_sending(self) -> None:
        """Check again that the client may have the answer."""
        self._check()

    def request(
        self, answers: types.InputResponses | None, state: str | None
    ) -> types.Request[Any, Any]:
        """The request for the server, with the client's answers if there are any."""
        if answers is None and state is None:
            return self._request
        changes = {"input_responses": answers, "request_state": state}
        params = self._request.params.model_copy(update=changes)
        return self._request.model_copy(update={"params": params})


def unsupported_reason(
    question: ServerQuestion, capabilities: types.ClientCapabilities | None
) -> str | None:
    """Why a client cannot be asked a question; None if it can.

    Args:
        question: a question with its server's name.
        capabilities: capabilities that the client declared; None for none.
    """
    capabilities = capabilities or types.ClientCapabilities()
    if isinstance(question, types.ElicitRequest):
        request = "input from the user (elicitation)"
        supported = capabilities.elicitation is not None
        if capabilities.elicitation is not None and question.params.mode == "url":
            request = "the user to open an address (elicitation by URL)"
            supported = capabilities.elicitation.url is not None
    elif isinstance(question, types.CreateMessageRequest):
        request = "a completion by the client's model (sampling)"
        supported = capabilities.sampling is not None
    else:
        request, supported = "the client's folders (roots)", capabilities.roots is not None
    if supported and isinstance(question, types.ElicitRequest):
        return unreadable_reason(question.params)
    if supported:
        return None
    return f"the server asks for {request}, which this client does not support"


def forwarded_meta(meta: Mapping[str, Any] | None, caller: Caller) -> Any:
    """The `_meta` of a request for the server, without the keys of the client's connection.

    Args:
        meta: `_meta` of the client's request.
        caller: the request.
    """
    forwarded: dict[str, Any] = {
        key: value
        for key, value in (meta or {}).items()
        if key not in ("progressToken", "progress_token")
        and not key.startswith("io.modelcontextprotocol/")
    }
    if caller.requested_log_level is not None:
        forwarded[LOG_LEVEL_META_KEY] = caller.requested_log_level
    return forwarded or None


def _answer_type(question: ServerQuestion) -> Any:
    if isinstance(question, types.ElicitRequest):
        return types.ElicitResult
    if isinstance(question, types.ListRootsRequest):
        return types.ListRootsResult
    wants_tools = question.params.tools is not None or question.params.tool_choice is not None
    return types.CreateMessageResultWithTools if wants_tools else types.CreateMessageResult


#: A request may take at most this many times its limit, even with progress reports.
_MAX_LIMIT_FACTOR = 20


class TimeLimit:
    """A time limit that restarts with each progress report.

    Args:
        seconds: seconds without progress. The whole request may take 20 times as long.

    Raises:
        TimeoutError: at the end of the block, if time ran out in it.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._scope = anyio.CancelScope()
        self._last_deadline = 0.0
        self._running_pauses, self._pause_start = 0, 0.0

    def extend(self) -> None:
        """Restart the time limit."""
        if not self._running_pauses:
            self._scope.deadline = min(anyio.current_time() + self._seconds, self._last_deadline)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the time limit during the block, in which the server waits for an answer."""
        if not self._running_pauses:
            self._pause_start = anyio.current_time()
            self._scope.deadline = inf
        self._running_pauses += 1
        try:
            yield
        finally:
            self._running_pauses -= 1
            if not self._running_pauses:
                self._last_deadline += anyio.current_time() - self._pause_start
                self.extend()

    def __enter__(self) -> Self:
        self._last_deadline = anyio.current_time() + _MAX_LIMIT_FACTOR * self._seconds
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
