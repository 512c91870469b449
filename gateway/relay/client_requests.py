"""The requests of clients: their handlers, and the questions of servers to their senders."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import mcp.types as types
from mcp import MCPError
from mcp.server.lowlevel import Server
from pydantic import BaseModel

from ...errors import ShortlistError
from ..profiles.client_sessions import ClientCaller
from ..upstream.call import (
    Caller,
    RequestContext,
    unsupported_reason,
)
from ..upstream.server_connection import ServerError, UpstreamError
from ..upstream.shown_questions import ServerQuestion, shown_question

#: Most questions of a server at once: each waits for a person.
_MAX_QUESTIONS_AT_ONCE = 20
_LOG = logging.getLogger("shortlist.gateway")
Params = TypeVar("Params", bound=BaseModel)


class RequestHandlers:
    """Adds handlers of clients' requests to the MCP server. Their errors are safe to read.

    An error from a server keeps its code and data. The text of an unexpected exception is only
    logged.

    Args:
        server: the gateway's MCP server.
        caller_of: returns the sender of a request.
    """

    def __init__(
        self, server: Server[Any], caller_of: Callable[[RequestContext], ClientCaller]
    ) -> None:
        self.server = server
        self._caller_of = caller_of

    def add(
        self,
        method: str,
        params_type: type[Params],
        handler: Callable[[ClientCaller, Params], Awaitable[Any]],
    ) -> None:
        """Add the handler of a method.

        Args:
            method: the method.
            params_type: type of its parameters.
            handler: called with the sender of a request and the parameters.
        """

        async def answer(context: RequestContext, params: Params) -> Any:
            try:
                return await handler(self._caller_of(context), params)
            except MCPError:
                raise
            except ServerError as error:
                raise MCPError(error.code, str(error), error.data) from error
            except UpstreamError as error:
                raise MCPError(types.INTERNAL_ERROR, str(error)) from error
            except ShortlistError as error:
                raise MCPError(types.INVALID_PARAMS, str(error)) from error
            except Exception as error:
                _LOG.exception("a request failed: %s", method)
                message = "the gateway failed on this request; its log says why"
                raise MCPError(types.INTERNAL_ERROR, message) from error

        self.server.add_request_handler(method, params_type, answer)


async def ask_client(
    caller: Caller, server: str, questions: Mapping[str, ServerQuestion]
) -> types.InputResponses:
    """The client's answers to the questions of a server's result.

    Raises:
        UpstreamError: there are too many, or the client cannot be asked, or gives no answer.
    """
    _check_count(server, questions)
    answers: types.InputResponses = {}
    for key, question in questions.items():
        answer = await caller.ask(shown_question(question, server))
        if isinstance(answer, types.ErrorData):
            raise UpstreamError(f"server {server!r}: {answer.message}")
        answers[key] = answer
    return answers


def questions_for_client(
    caller: Caller, server: str, questions: Mapping[str, ServerQuestion] | None
) -> dict[str, ServerQuestion]:
    """The questions of a server's result, as the client gets them in the answer to its request.

    Raises:
        UpstreamError: there are too many, or the client cannot be asked one of them.
    """
    _check_count(server, questions or {})
    shown = {key: shown_question(question, server) for key, question in (questions or {}).items()}
    capabilities = caller.context.session.client_capabilities
    for question in shown.values():
        if problem := unsupported_reason(question, capabilities):
            raise UpstreamError(f"server {server!r}: {problem}")
    return shown


def _check_count(server: str, questions: Mapping[str, ServerQuestion]) -> None:
    if len(questions) > _MAX_QUESTIONS_AT_ONCE:
        raise UpstreamError(
            f"server {server!r} asks {len(questions):,} questions at once; at most "
            f"{_MAX_QUESTIONS_AT_ONCE} are passed on"
        )
