"""Requests that wait for answers of their client, which gets the question as an answer.

A client of the newer protocol (2026-07-28) gets no requests. The result of its own request contains
the question, and it repeats that request with the answer. A server of the older protocol asks
during its work and waits. So the server's work continues here between the two requests of the
client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from secrets import token_hex

import anyio
import mcp.types as types
from anyio.abc import TaskGroup
from pydantic import BaseModel

from ...errors import RequestError
from .caller import Answer, Caller, Question

#: Prefix of the state of a request that waits here.
HELD = "held:"

#: Seconds to wait for an answer.
_PATIENCE = 300.0
#: Most requests that may wait for answers at the same time.
_MOST = 1_000
#: Key of the only question in an answer.
_KEY = "question"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to the client."""

    question: Question


class HeldCall:
    """One request that runs, or waits for an answer of its client.

    Args:
        caller: the client's request.
        subject: the requested operation.

    Attributes:
        question: the present question to the client; None while the server works.
        token: id of the question that cannot be guessed.
    """

    def __init__(self, caller: Caller, subject: str) -> None:
        self.caller = caller
        self.subject = subject
        self.scope = anyio.CancelScope()
        self.token = ""
        self._asking = anyio.Lock()
        self.question: Question | None = None
        self._answer: Answer | None = None
        self._answered = anyio.Event()
        self._outcome: BaseModel | Exception | None = None
        self._news = anyio.Event()

    async def work(self, send: Callable[[], Awaitable[BaseModel]]) -> None:
        """Send the request and store its outcome."""
        with self.scope:
            try:
                self._outcome = await send()
            except Exception as error:  # noqa: BLE001 - raised again in the client's request
                self._outcome = error
        self._news.set()

    async def ask(self, question: Question) -> Answer | types.ErrorData:
        """Ask the client in the answer to its request, and wait for its next request."""
        async with self._asking:
            self._answered, self._answer = anyio.Event(), None
            self.token, self.question = token_hex(16), question
            self._news.set()
            with anyio.move_on_after(_PATIENCE):
                await self._answered.wait()
            self.question = None
            if self._answer is None:
                return types.ErrorData(
                    code=types.INVALID_REQUEST, message="the client gave no answer in time"
                )
            return self._answer

    def answer(self, caller: Caller, answer: Answer) -> None:
        """Take the answer from the client's next request. That request gets the next outcome."""
        self.caller.context = caller.context
        self._answer = answer
        self._news = anyio.Event()
        self._answered.set()

    async def next(self) -> BaseModel | Asked:
        """The outcome, or a question that the client has to answer first.

        Raises:
            Exception: whatever the request came to.
        """
        try:
            await self._news.wait()
        except BaseException:
            # The client is gone or has cancelled. This stops the call at the server.
            self.scope.cancel()
            raise
        if isinstance(self._outcome, Exception):
            raise self._outcome
        if self._outcome is not None:
            return self._outcome
        if self.question is not None:
            return Asked(self.question)
        raise RequestError("the request was stopped before its server answered; try again")


class HeldCalls:
    """All requests that wait for answers of their clients. For one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[str, HeldCall] = {}

    async def begin(
        self,
        group: TaskGroup,
        caller: Caller,
        subject: str,
        send: Callable[[], Awaitable[BaseModel]],
    ) -> BaseModel:
        """Start a request and return its outcome or a question to the client.

        Args:
            group: task group that runs it.
            caller: the client's request.
            subject: the requested operation. The repeated request must be for the same.
            send: function that sends it.

        Raises:
            Exception: whatever the request came to.
        """
        call = HeldCall(caller, subject)
        caller.held = call
        group.start_soon(call.work, send)
        return await self._next(call)

    async def go_on(
        self, caller: Caller, subject: str, token: str, answers: types.InputResponses | None
    ) -> BaseModel:
        """Continue a request whose client has answered.

        Raises:
            RequestError: no such request waits for this client, or the answer is missing.
            Exception: whatever the request came to.
        """
        call = self._waiting.get(token)
        if (
            call is None
            or call.question is None
            or call.subject != subject
            or call.caller.client.profile is not caller.client.profile
        ):
            raise RequestError(
                "no request waits for this answer; send the request again without it"
            )
        answer = (answers or {}).get(_KEY)
        if answer is None:
            raise RequestError(f"inputResponses: the answer {_KEY!r} is missing")
        del self._waiting[token]
        call.answer(caller, answer)
        return await self._next(call)

    async def _next(self, call: HeldCall) -> BaseModel:
        outcome = await call.next()
        if not isinstance(outcome, Asked):
            return outcome
        for token in [token for token, one in self._waiting.items() if one.question is None]:
            del self._waiting[token]
        if len(self._waiting) >= _MOST:
            call.scope.cancel()
            raise RequestError("too many requests wait for answers; try again later")
        self._waiting[call.token] = call
        return types.InputRequiredResult(
            input_requests={_KEY: outcome.question}, request_state=HELD + call.token
        )
