"""Passes a client's request on to a server.

And the server's questions and errors back to the client.

In the newer protocol, a question is the result of a request, for servers and for clients. In the
older protocol, a question is a request of its own, while the server works.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import wraps
from hashlib import sha256
from typing import TypeVar, cast

import anyio
import mcp.types as types
from mcp import MCPError

from ...errors import RequestError, ShortlistError
from ..upstream.caller import (
    Caller,
    ClientAnswer,
    RequestContext,
    ServerQuestion,
    unsupported_reason,
)
from ..upstream.fleet import Fleet
from ..upstream.pending_calls import PENDING_PREFIX
from ..upstream.server_connection import ServerError, UpstreamError
from ..upstream.server_questions import with_server_name

_LOG = logging.getLogger("shortlist.gateway")

P = TypeVar("P")
Reply = TypeVar("Reply")


def with_safe_errors(
    handler: Callable[[RequestContext, P], Awaitable[Reply]],
) -> Callable[[RequestContext, P], Awaitable[Reply]]:
    """A handler whose errors are safe for clients to read.

    An error from a server keeps its code and data. The text of an unexpected exception is only
    logged.

    Args:
        handler: handler of a request.
    """

    @wraps(handler)
    async def answer(context: RequestContext, params: P) -> Reply:
        try:
            return await handler(context, params)
        except MCPError:
            raise
        except ServerError as error:
            raise MCPError(error.code, str(error), error.data) from error
        except UpstreamError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from error
        except ShortlistError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        except Exception as error:
            _LOG.exception("a request failed: %s", context.method)
            message = "the gateway failed on this request; its log says why"
            raise MCPError(types.INTERNAL_ERROR, message) from error

    return answer


#: Most questions of a server during one request.
_MAX_ROUNDS = 20
#: Seconds before a request is repeated for a server that asks for a repetition only.
_REPEAT_PAUSE_S = 0.1
#: Prefix of the state of a request that waits at its server. A hash of the request follows.
_SERVER_STATE_PREFIX = "server:"

R = TypeVar("R", types.CallToolResult, types.GetPromptResult, types.ReadResourceResult)
#: Sends a request with the client's answers and the server's state.
Send = Callable[[types.InputResponses | None, str | None], Awaitable[R | types.InputRequiredResult]]


async def relay_request(
    fleet: Fleet,
    caller: Caller,
    params: types.InputResponseRequestParams,
    *,
    server: str,
    subject: str,
    send: Send[R],
) -> R | types.InputRequiredResult:
    """Send a request to a server. Returns its result, or questions to the client.

    Args:
        fleet: the servers.
        caller: the client's request.
        params: parameters of the client's request, with its answers and state.
        server: name of the server.
        subject: the requested operation. A request with answers must be for the same one.
        send: function that sends the request to the server.

    Raises:
        UpstreamError: the server is gone, does not answer in time, or refuses.
        RequestError: the client cannot be asked, or answers another question.
    """
    if not caller.is_modern:
        return await send_answering_questions(caller, server, send)
    state, answers = params.request_state, params.input_responses
    subject = f"{server} {subject}"
    if state is not None and state.startswith(PENDING_PREFIX):
        outcome = await fleet.pending_calls.resume(
            caller, subject, state.removeprefix(PENDING_PREFIX), answers
        )
    else:
        prefix = (
            f"{_SERVER_STATE_PREFIX}{sha256(subject.encode(errors='replace')).hexdigest()[:32]}:"
        )
        is_further_round = state is not None or bool(answers)
        if is_further_round and not (state or "").startswith(prefix):
            # The answers may be for another server, whose tool a search called in the first round.
            raise RequestError(
                "requestState: not a state of this request; send the request again without it"
            )
        # A state begins with "=", also an empty one. Nothing follows if the server gave none.
        rest = (state or "").removeprefix(prefix)
        server_state = rest[1:] if rest else None
        outcome = await fleet.pending_calls.begin(
            fleet.background,
            caller,
            subject,
            lambda: _send_once(caller, server, send, answers, server_state, prefix),
        )
    return cast("R | types.InputRequiredResult", outcome)


async def _send_once(
    caller: Caller,
    server: str,
    send: Send[R],
    answers: types.InputResponses | None,
    state: str | None,
    prefix: str,
) -> R | types.InputRequiredResult:
    """One round with a client of the newer protocol: returns the server's questions.

    The state in the result begins with `prefix`.
    """
    result = await send(answers, state)
    if not isinstance(result, types.InputRequiredResult):
        return result
    questions = {
        key: with_server_name(question, server)
        for key, question in (result.input_requests or {}).items()
    }
    for question in questions.values():
        if problem := unsupported_reason(question, caller.context.session.client_capabilities):
            raise UpstreamError(f"server {server!r}: {problem}")
    return types.InputRequiredResult(
        input_requests=questions or None,
        request_state=prefix
        if result.request_state is None
        else f"{prefix}={result.request_state}",
    )


async def send_answering_questions(caller: Caller, server: str, send: Send[R]) -> R:
    """All rounds with a client that answers questions during its request.

    Args:
        caller: the client's request, in the older protocol or held.
        server: name of the server.
        send: function that sends the request to the server.

    Raises:
        UpstreamError: the server is gone or asks without end, or the client cannot be asked.
    """
    answers: types.InputResponses | None = None
    state: str | None = None
    for _ in range(_MAX_ROUNDS):
        result = await send(answers, state)
        if not isinstance(result, types.InputRequiredResult):
            return result
        if result.input_requests:
            answers = {
                key: await _ask_client(caller, server, question)
                for key, question in result.input_requests.items()
            }
        else:
            answers = None
            await anyio.sleep(_REPEAT_PAUSE_S)
        state = result.request_state
    raise UpstreamError(f"server {server!r} asked {_MAX_ROUNDS} times and gave no result")


async def _ask_client(caller: Caller, server: str, question: ServerQuestion) -> ClientAnswer:
    answer = await caller.ask(with_server_name(question, server))
    if isinstance(answer, types.ErrorData):
        raise UpstreamError(f"server {server!r}: {answer.message}")
    return answer
