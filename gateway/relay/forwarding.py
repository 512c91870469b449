"""Passes a client's request on to a server.

And the server's questions and errors back to the client.

In the newer protocol, a question is the result of a request, for servers and for clients. In the
older protocol, a question is a request of its own, while the server works.
"""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from typing import cast

import anyio
import mcp.types as types

from ...errors import RequestError
from ..upstream.call import Answer, Call
from ..upstream.fleet import Fleet
from ..upstream.server_connection import UpstreamError
from ..upstream.server_tasks import CreatedTask
from .client_requests import ask_client, questions_for_client
from .tasks import ServerTask, TaskRequests

#: Most questions of a server during one request.
_MAX_ROUNDS = 20
#: Seconds before a request is repeated for a server that asks for a repetition only.
_REPEAT_PAUSE_S = 0.1
#: Prefix of the state of a request that waits at its server. A hash of the request follows.
_SERVER_STATE_PREFIX = "server:"


async def relay(
    fleet: Fleet, call: Call[Answer], params: types.InputResponseRequestParams
) -> Answer | types.InputRequiredResult:
    """Send a call to its server. Returns its result, or questions to the client.

    Args:
        fleet: the servers.
        call: the client's call.
        params: parameters of the client's request, with its answers and state.

    Raises:
        UpstreamError: the server is gone, does not answer in time, or refuses.
        RequestError: the client cannot be asked, or answers another question.
        ShortlistError: the call may not be sent any more.
    """
    if not call.caller.is_modern:
        return await send_in_rounds(fleet, call)
    subject = f"{call.server} {call.subject}"
    send = partial(_send_round, fleet, call, params, subject)
    outcome = await fleet.pending_calls.answer(fleet.background, call.caller, subject, params, send)
    return cast("Answer | types.InputRequiredResult", outcome)


async def _send_round(
    fleet: Fleet, call: Call[Answer], params: types.InputResponseRequestParams, subject: str
) -> Answer | types.InputRequiredResult:
    """One round with a client of the newer protocol: returns the server's questions.

    The state in the result begins with a prefix that only this request has.
    """
    state = state_for_server(params, subject)
    result = await _send_and_wait(fleet, call, params.input_responses, state)
    if not isinstance(result, types.InputRequiredResult):
        return result
    questions = questions_for_client(call.caller, call.server, result.input_requests)
    prefix = _state_prefix(subject)
    return types.InputRequiredResult(
        input_requests=questions or None,
        request_state=prefix
        if result.request_state is None
        else f"{prefix}={result.request_state}",
    )


def state_for_server(params: types.InputResponseRequestParams, subject: str) -> str | None:
    """The state that a server gave with its last questions; None in the first round.

    Args:
        params: parameters of the client's request, with its answers and state.
        subject: the requested operation.

    Raises:
        RequestError: it is a state of another request.
    """
    state, prefix = params.request_state, _state_prefix(subject)
    is_further_round = state is not None or bool(params.input_responses)
    if is_further_round and not (state or "").startswith(prefix):
        # The answers may be for another server, whose tool a search called in the first round.
        raise RequestError(
            "requestState: not a state of this request; send the request again without it"
        )
    # A state begins with "=", also an empty one. Nothing follows if the server gave none.
    rest = (state or "").removeprefix(prefix)
    return rest[1:] if rest else None


def _state_prefix(subject: str) -> str:
    return f"{_SERVER_STATE_PREFIX}{sha256(subject.encode(errors='replace')).hexdigest()[:32]}:"


async def send_in_rounds(fleet: Fleet, call: Call[Answer]) -> Answer:
    """All rounds with a client that answers questions during its request.

    Args:
        fleet: the servers.
        call: the client's call, in the older protocol or by a script.

    Raises:
        UpstreamError: the server is gone or asks without end, or the client cannot be asked.
        ShortlistError: the call may not be sent any more.
    """
    answers: types.InputResponses | None = None
    state: str | None = None
    for _ in range(_MAX_ROUNDS):
        result = await _send_and_wait(fleet, call, answers, state)
        if not isinstance(result, types.InputRequiredResult):
            return result
        if result.input_requests:
            answers = await ask_client(call.caller, call.server, result.input_requests)
        else:
            answers = None
            await anyio.sleep(_REPEAT_PAUSE_S)
        state = result.request_state
    raise UpstreamError(f"server {call.server!r} asked {_MAX_ROUNDS} times and gave no result")


async def _send_and_wait(
    fleet: Fleet, call: Call[Answer], answers: types.InputResponses | None, state: str | None
) -> Answer | types.InputRequiredResult:
    """The server's answer; of a task, its result, unless the client takes tasks."""
    answer = await fleet.send(call, answers, state)
    if not isinstance(answer, CreatedTask) or call.takes_task:
        return answer
    task = ServerTask(call.server, call.operation, answer.task_id)
    requests = TaskRequests(fleet, call.caller, task, call.check_before_sending)
    return cast("Answer", await requests.result(is_new=True))
