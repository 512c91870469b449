"""Passes a server's questions and log messages on to the right client."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

import mcp.types as types
from mcp import Client, MCPError
from mcp.client import ClientRequestContext
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, TypeAdapter

from .caller import LEVELS, Answer, Caller, Question
from .patience import Patience
from .turns import Turns

_LOG = logging.getLogger("shortlist.gateway")
#: Seconds to wait for the end of other clients' requests before a question is refused.
_PATIENCE = 30.0

R = TypeVar("R", bound=BaseModel)


@dataclass(eq=False, slots=True)
class Front:
    """Receives server messages that belong to no request.

    Attributes:
        logged: called with a server's name and a log message.
        updated: called with a server's name and the address of a changed resource.
        only_client: the only client, if it can be asked at any time; None otherwise.
    """

    logged: Callable[[str, types.LoggingMessageNotificationParams], Awaitable[None]] | None = None
    updated: Callable[[str, str], Awaitable[None]] | None = None
    only_client: Caller | None = None


class ServerRequests:
    """The questions and log messages of one server.

    Args:
        server: name of the server.
        front: receives messages that belong to no request.

    Attributes:
        turns: running requests of the server.
    """

    def __init__(self, server: str, front: Front) -> None:
        self.turns = Turns()
        self._front = front
        self._server = server
        self._level: int | None = None

    def callbacks(self) -> dict[str, Any]:
        """Arguments of the `Client` that talks to the server."""
        self._level = None
        return {
            "elicitation_callback": self._elicit,
            "sampling_callback": self._sample,
            "list_roots_callback": self._roots,
            "logging_callback": self._logged,
        }

    def sending(
        self,
        request: types.ClientRequest,
        result_type: TypeAdapter[R],
        caller: Caller | None,
        *,
        key: str,
    ) -> Callable[[Client, Patience], Awaitable[R]]:
        """Send a request. The server's messages during the request reach the client.

        Args:
            request: the request for the server.
            result_type: type of the answer.
            caller: the client's request; None for a request of the gateway itself.
            key: key of the operation. Requests with the same key are assumed to behave alike.
        """

        async def send(client: Client, patience: Patience) -> R:
            if caller is None:
                return await client.session.send_request(
                    request, result_type, progress_callback=patience.with_progress(None)
                )
            caller.patience = patience
            await self.lower_level(client, caller.wished_level)
            async with AsyncExitStack() as turn:
                # The server does not work on the request yet, so its time limit does not run.
                with patience.paused():
                    await turn.enter_async_context(self.turns.turn(caller, key))
                answer = await client.session.send_request(
                    request,
                    result_type,
                    progress_callback=patience.with_progress(caller.progress),
                )
            await caller.settle()
            return answer

        return send

    async def lower_level(self, client: Client, level: types.LoggingLevel | None) -> None:
        """Ask the server for log messages from a level on, if it does not send them already.

        A server of the newer protocol gets the level with each request instead.

        Args:
            client: the connection.
            level: least severe level; None changes nothing.
        """
        if level is None or client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return
        asked = LEVELS.index(level)
        if self._level is not None and self._level <= asked:
            return
        if client.server_capabilities.logging is None:
            return
        self._level = asked
        request = types.SetLevelRequest(params=types.SetLevelRequestParams(level=level))
        try:
            await client.session.send_request(request, types.EmptyResult)
        except MCPError as error:
            _LOG.warning("server %r: logging/setLevel: %s", self._server, error)

    async def resource_updated(self, uri: str) -> None:
        """Handle a server's message that a resource has changed."""
        if self._front.updated is not None:
            await self._front.updated(self._server, uri)

    async def _elicit(
        self,
        context: ClientRequestContext,  # noqa: ARG002
        params: types.ElicitRequestParams,
    ) -> types.ElicitResult | types.ErrorData:
        answer = await self._ask(types.ElicitRequest(params=params))
        if isinstance(answer, types.ElicitResult | types.ErrorData):
            return answer
        return _mismatch(answer)

    async def _sample(
        self,
        context: ClientRequestContext,  # noqa: ARG002
        params: types.CreateMessageRequestParams,
    ) -> types.CreateMessageResult | types.CreateMessageResultWithTools | types.ErrorData:
        answer = await self._ask(types.CreateMessageRequest(params=params))
        if isinstance(answer, types.ElicitResult | types.ListRootsResult):
            return _mismatch(answer)
        return answer

    async def _roots(
        self,
        context: ClientRequestContext,  # noqa: ARG002
    ) -> types.ListRootsResult | types.ErrorData:
        answer = await self._ask(types.ListRootsRequest())
        if isinstance(answer, types.ListRootsResult | types.ErrorData):
            return answer
        return _mismatch(answer)

    async def _ask(self, question: Question) -> Answer | types.ErrorData:
        """Ask the client of the running request."""
        self.turns.note()
        if self.turns.is_idle and self._front.only_client is None:
            return _refused("no client's request is in work, so nobody can be asked")
        caller = self._front.only_client
        if not self.turns.is_idle:
            caller = await self.turns.certain_speaker(_PATIENCE)
        if caller is None:
            _LOG.warning("server %r: refused a question that fits several clients", self._server)
            return _refused(
                "several clients' requests are in work, and the server does not say which one "
                "the question belongs to; call again"
            )
        self.turns.note()
        return await caller.ask(named(question, self._server))

    async def _logged(self, params: types.LoggingMessageNotificationParams) -> None:
        caller = self.turns.speaker()
        if caller is not None:
            if caller.wished_level is not None:
                self.turns.note()
            await caller.log(params)
        elif not self.turns.is_idle:
            # No other client may see it. From now on, these tools run one after another.
            self.turns.note()
            _LOG.info("server %r: dropped a log message that fits several clients", self._server)
        elif self._front.logged is not None:
            await self._front.logged(self._server, params)


def named(question: Question, server: str) -> Question:
    """The question with the server's name at the beginning of its text."""
    if not isinstance(question, types.ElicitRequest):
        return question
    params = question.params
    message = f"[{server}] {params.message}"
    return types.ElicitRequest(params=params.model_copy(update={"message": message}))


def _refused(why: str) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message=f"the gateway cannot ask: {why}")


def _mismatch(answer: object) -> types.ErrorData:
    return types.ErrorData(
        code=types.INTERNAL_ERROR,
        message=f"the client answered another question ({type(answer).__name__})",
    )
