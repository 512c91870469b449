"""What a server sends to its client: questions and log messages, passed on to the right client."""

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
#: Seconds to wait for other clients' requests to end before a question is refused.
_PATIENCE = 30.0

R = TypeVar("R", bound=BaseModel)


@dataclass(eq=False, slots=True)
class Front:
    """What is done with messages of servers that belong to no request.

    Attributes:
        logged: awaited with a server's name and a log message.
        updated: awaited with a server's name and the address of a resource that has changed.
        only_client: the one client there is, if it can be asked at any time; None otherwise.
    """

    logged: Callable[[str, types.LoggingMessageNotificationParams], Awaitable[None]] | None = None
    updated: Callable[[str, str], Awaitable[None]] | None = None
    only_client: Caller | None = None


class ServerRequests:
    """The questions and log messages of one server.

    Args:
        server: its name.
        front: takes what belongs to no request.

    Attributes:
        turns: the requests that the server works on.
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
        """Sends a request so that what the server says meanwhile reaches the client that asks.

        Args:
            request: as the server understands it.
            result_type: of the answer.
            caller: the client's request; None for one that no client made.
            key: key of the operation; requests with the same key behave in the same way.
        """

        async def send(client: Client, patience: Patience) -> R:
            if caller is None:
                return await client.session.send_request(
                    request, result_type, progress_callback=patience.with_progress(None)
                )
            caller.patience = patience
            await self.lower_level(client, caller.wished_level)
            async with AsyncExitStack() as turn:
                # The server does not work on the request yet, so its limit of time does not run.
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
        """Have the server send log messages from a level on, if it does not do so already.

        A server of the newer protocol gets the level with each request instead.

        Args:
            client: the connection.
            level: None for no wish.
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
        """The server says that a resource has changed."""
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
        """Ask the client whose request the server works on."""
        self.turns.note()
        if self.turns.is_idle and self._front.only_client is None:
            return _refused("no client's request is in work, so nobody can be asked")
        caller = self._front.only_client
        if not self.turns.is_idle:
            caller = await self.turns.certain_speaker(_PATIENCE)
        if caller is None:
            _LOG.warning("server %r: a question of it belongs to no one client", self._server)
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
            # Another client must not see it. The next time, these tools run one after another.
            self.turns.note()
            _LOG.info("server %r: a log message belongs to no one client", self._server)
        elif self._front.logged is not None:
            await self._front.logged(self._server, params)


def named(question: Question, server: str) -> Question:
    """The question, with the name of the server that asks in the text that a user reads."""
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
