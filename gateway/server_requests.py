"""Passes a server's questions and log messages on to the right client."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import mcp.types as types
from mcp import Client, MCPError
from mcp.client import ClientRequestContext
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, TypeAdapter

from .caller import LEVELS, Answer, Caller, Question
from .patience import Patience
from .question_causes import Cause, calling, cause_of_message

_LOG = logging.getLogger("shortlist.gateway")

R = TypeVar("R", bound=BaseModel)


@dataclass(eq=False, slots=True)
class Front:
    """Receives server messages that belong to no request.

    Attributes:
        logged: called with a server's name, a log message, and the id of the only client that may
            get it; None for all clients.
        updated: called with a server's name and the address of a changed resource.
        only_client: the only client, if it can be asked at any time; None otherwise.
    """

    logged: (
        Callable[[str, types.LoggingMessageNotificationParams, str | None], Awaitable[None]] | None
    ) = None
    updated: Callable[[str, str], Awaitable[None]] | None = None
    only_client: Caller | None = None


class ServerRequests:
    """The questions and log messages of one server.

    Args:
        server: name of the server.
        front: receives messages that belong to no request.
    """

    def __init__(self, server: str, front: Front) -> None:
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

    async def send(
        self,
        client: Client,
        patience: Patience,
        request: types.ClientRequest,
        result_type: TypeAdapter[R],
        caller: Caller | None,
    ) -> R:
        """Send a request. The server's messages during the request reach the client.

        Args:
            client: the connection.
            patience: time limit of the request.
            request: the request for the server.
            result_type: type of the answer.
            caller: the client's request; None for a request of the gateway itself.
        """
        if caller is None:
            return await client.session.send_request(
                request, result_type, progress_callback=patience.with_progress(None)
            )
        caller.patience = patience
        await self.lower_level(client, caller.wished_level)
        with calling(caller):
            answer = await client.session.send_request(
                request, result_type, progress_callback=patience.with_progress(caller.progress)
            )
        await caller.settle()
        return answer

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
        """Ask the client that caused the question, if it is certain which one did."""
        cause = cause_of_message()
        caller = cause.caller or self._only_client(cause)
        if caller is None:
            _LOG.warning("server %r: refused a question: %s", self._server, cause.refusal)
            message = f"the gateway cannot ask: {cause.refusal}"
            return types.ErrorData(code=types.INVALID_REQUEST, message=message)
        return await caller.ask(named(question, self._server))

    def _only_client(self, cause: Cause) -> Caller | None:
        """The only client of the gateway, unless other clients can be the cause."""
        client = self._front.only_client
        return client if client is not None and cause.client_ids <= {client.client.id} else None

    async def _logged(self, params: types.LoggingMessageNotificationParams) -> None:
        cause = cause_of_message()
        if cause.caller is not None:
            await cause.caller.log(params)
        elif len(cause.client_ids) > 1:
            _LOG.info("server %r: dropped a log message that fits several clients", self._server)
        elif self._front.logged is not None:
            await self._front.logged(self._server, params, next(iter(cause.client_ids), None))


def named(question: Question, server: str) -> Question:
    """The question with the server's name at the beginning of its text."""
    if not isinstance(question, types.ElicitRequest):
        return question
    params = question.params
    message = f"[{server}] {params.message}"
    return types.ElicitRequest(params=params.model_copy(update={"message": message}))


def _mismatch(answer: object) -> types.ErrorData:
    return types.ErrorData(
        code=types.INTERNAL_ERROR,
        message=f"the client answered another question ({type(answer).__name__})",
    )
