"""Requests that wait for answers of their client, which gets the question as an answer.

A client of the newer protocol (2026-07-28) gets no requests. The result of its own request contains
the question, and it repeats that request with the answer. A server of the older protocol asks
during its work and waits. So the server's work continues here between the two requests of the
client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from secrets import token_hex

import anyio
import mcp.types as types
from anyio.abc import TaskGroup
from pydantic import BaseModel

from ...errors import RequestError
from .call import Caller, ClientAnswer
from .shown_questions import ServerQuestion

#: Prefix of the state of a request that waits here.
_PENDING_PREFIX = "held:"

#: Seconds to wait for an answer.
_ANSWER_TIMEOUT_S = 300.0
#: Most requests that may wait for answers at the same time. The last ones are for profiles of which
#: no request waits yet.
_MAX_WAITING_CALLS, _RESERVED_PLACES = 1_000, 100
#: Key of the only question in an answer.
_ANSWER_KEY = "question"


class PendingCall:
    """One request that runs, or waits for an answer of its client.

    Args:
        caller: the client's request.
        subject: the requested operation.

    Attributes:
        cancel_scope: stops the request at its server.
        question: the present question to the client; None while the server works.
        question_token: id of the question that cannot be guessed.
    """

    def __init__(self, caller: Caller, subject: str) -> None:
        self.caller = caller
        self.subject = subject
        self.cancel_scope = anyio.CancelScope()
        self.question_token = ""
        self._question_lock = anyio.Lock()
        self.question: ServerQuestion | None = None
        self._answer: ClientAnswer | None = None
        self._answer_arrived = anyio.Event()
        self._outcome: BaseModel | Exception | None = None
        self._outcome_or_question = anyio.Event()

    async def run(self, send: Callable[[], Awaitable[BaseModel]]) -> None:
        """Send the request and store its outcome."""
        with self.cancel_scope:
            try:
                self._outcome = await send()
            except Exception as error:  # noqa: BLE001 - raised again in the client's request
                self._outcome = error
        self._outcome_or_question.set()

    async def ask(self, question: ServerQuestion) -> ClientAnswer | types.ErrorData:
        """Ask the client in the answer to its request, and wait for its next request."""
        async with self._question_lock:
            self._answer_arrived, self._answer = anyio.Event(), None
            self.question_token, self.question = token_hex(16), question
            self._outcome_or_question.set()
            with anyio.move_on_after(_ANSWER_TIMEOUT_S):
                await self._answer_arrived.wait()
            self.question = None
            if self._answer is None:
                return types.ErrorData(
                    code=types.INVALID_REQUEST, message="the client gave no answer in time"
                )
            return self._answer

    def answer(self, caller: Caller, answer: ClientAnswer) -> None:
        """Take the answer from the client's next request. That request gets the next outcome."""
        self.caller.context = caller.context
        self._answer = answer
        self._outcome_or_question = anyio.Event()
        self._answer_arrived.set()

    async def next_outcome(self) -> BaseModel:
        """The outcome, or the question that the client has to answer first.

        Raises:
            Exception: the error of the request.
        """
        try:
            await self._outcome_or_question.wait()
        except BaseException:
            # The client is gone or has cancelled. This stops the call at the server.
            self.cancel_scope.cancel()
            raise
        if isinstance(self._outcome, Exception):
            raise self._outcome
        if self._outcome is not None:
            return self._outcome
        if self.question is None:
            raise RequestError("the request was stopped before its server answered; try again")
        return types.InputRequiredResult(
            input_requests={_ANSWER_KEY: self.question},
            request_state=_PENDING_PREFIX + self.question_token,
        )


class PendingCalls:
    """All requests that wait for answers of their clients. For one event loop."""

    def __init__(self) -> None:
        self._waiting_calls: dict[str, PendingCall] = {}

    async def answer(
        self,
        group: TaskGroup,
        caller: Caller,
        subject: str,
        params: types.InputResponseRequestParams,
        send: Callable[[], Awaitable[BaseModel]],
    ) -> BaseModel:
        """Start a request, or continue the one that waits for these answers of its client.

        Args:
            group: task group that runs it.
            caller: the client's request.
            subject: the requested operation. The repeated request must be for the same.
            params: parameters of the client's request, with its answers and state.
            send: function that sends it.

        Returns:
            The outcome, or a question to the client.

        Raises:
            RequestError: no such request waits for this client, or the answer is missing.
            Exception: the error of the request.
        """
        state = params.request_state
        if state is not None and state.startswith(_PENDING_PREFIX):
            token = state.removeprefix(_PENDING_PREFIX)
            call = self._answered_call(caller, subject, token, params.input_responses)
        else:
            call = PendingCall(caller, subject)
            caller.question_channel = call
            group.start_soon(call.run, send)
        return await self._wait_for_outcome(call)

    def _answered_call(
        self, caller: Caller, subject: str, token: str, answers: types.InputResponses | None
    ) -> PendingCall:
        """The request whose client has answered."""
        call = self._waiting_calls.get(token)
        if (
            call is None
            or call.question is None
            or call.subject != subject
            or call.caller.client.profile is not caller.client.profile
        ):
            raise RequestError(
                "no request waits for this answer; send the request again without it"
            )
        answer = (answers or {}).get(_ANSWER_KEY)
        if answer is None:
            raise RequestError(f"inputResponses: the answer {_ANSWER_KEY!r} is missing")
        del self._waiting_calls[token]
        call.answer(caller, answer)
        return call

    async def _wait_for_outcome(self, call: PendingCall) -> BaseModel:
        outcome = await call.next_outcome()
        if call.question is None:
            return outcome
        self._waiting_calls = {
            token: waiting
            for token, waiting in self._waiting_calls.items()
            if waiting.question is not None
        }
        profiles = [waiting.caller.client.profile for waiting in self._waiting_calls.values()]
        is_known = any(profile is call.caller.client.profile for profile in profiles)
        reserved = _RESERVED_PLACES if is_known else 0
        if len(self._waiting_calls) >= _MAX_WAITING_CALLS - reserved:
            call.cancel_scope.cancel()
            raise RequestError("too many requests wait for answers; try again later")
        self._waiting_calls[call.question_token] = call
        return outcome
