"""Handles a model's reply: checks its calls, asks a person, runs what passes, and answers all."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from ..catalog import Tool
from ..catalog.mcp_listing import is_pydantic_model
from ..catalog.python_function import call_function, is_async_function
from ..catalog.readers.skill_folder import skill_text
from ..codemode.grants import Approval, ApprovalRequest, Approve, ask, checked_approval
from ..errors import RequestError, ToolCallError
from ..gating.reason import approval_refusal
from ..gating.verdict import Verdict
from ..loaders.providers import PROVIDERS, CallAnswer, Messages, ModelCall
from .pending import CallProgress, Pending, shows_same_call
from .turn import Turn

_LOG = logging.getLogger(__name__)
Result = TypeVar("Result")

ToolRunner: TypeAlias = Callable[[Tool, dict[str, Any]], object] | Mapping[str, Any]
"""Runs tools: a function of a tool and its arguments, or a mapping of ids or names to functions of
the arguments. Functions may be async."""

#: Calls that run at the same time in threads.
_MAX_THREADS = 16
#: Names of functions that an error about a missing one lists.
_LISTED_NAMES = 20
_FAILED_MESSAGE = (
    "The tool failed and gave no message. Try other arguments or another tool, or tell the user."
)
_NO_FUNCTION_MESSAGE = (
    "The program has no function for this tool: use another tool, or tell the user."
)
_UNKNOWN_OUTCOME_MESSAGE = (
    "The program stopped while this call ran: it may have happened. Find out before you call it "
    "again, or tell the user."
)
_CHANGED_MEANWHILE = "its definition changed while a person was asked, so call it again"
_DECLINED = "a person was asked and did not approve this call"
_NO_MORE_CALLS_MESSAGE = (
    "This call was not made: too many calls for one request. Answer the user now, with what is "
    "known, and call no more tools."
)


class CallSession(Protocol):
    """The part of a session that handles calls."""

    def check(
        self,
        name: str,
        arguments: object = None,
        *,
        approved: bool = False,
        can_ask: bool = False,
    ) -> Verdict:
        """The verdict on a call."""
        ...

    def recheck(self, verdict: Verdict) -> Verdict:
        """The verdict on a call that passed, directly before it runs."""
        ...

    def result(self, call: Verdict | str, content: object, *, ok: bool | None = True) -> Turn:
        """Record the result of a call."""
        ...

    def record_call(self, call: Verdict | str, *, ok: bool | None = True) -> str:
        """Record the outcome of a call without a search; None for an unknown one."""
        ...

    def _read_search(self, name: str, arguments: object) -> str | Verdict | None:
        """The query of a search of the model, or what is wrong with it; None for other calls."""
        ...

    def search(self, query: str) -> Turn:
        """Answer a search of the model."""
        ...

    def _called_tool(self, name: str, arguments: object) -> CalledTool | None:
        """The tool that a call names, before it is checked; None if there is none."""
        ...


class CalledTool(NamedTuple):
    """The tool that a call names, before the call is checked.

    Attributes:
        tool: the tool.
        is_permitted: whether it may be called now.
        waits_for_calls: whether the outcome of other calls may change that.
        shares_name: whether another tool of the catalog has the same name.
    """

    tool: Tool
    is_permitted: bool
    waits_for_calls: bool
    shares_name: bool


@dataclass(slots=True)
class PassedCall:
    """A call that passed the check.

    Args:
        place: its place among the calls of the reply.
        tool: the tool to run.
        verdict: result of the check.
        refusal: the verdict that refused it directly before it ran.
        value: what the tool returned.
        error: the exception that it raised.
        started: whether the tool was called.
        ended: whether it returned or raised.
    """

    place: int
    tool: Tool
    verdict: Verdict
    refusal: Verdict | None = None
    value: object = None
    error: Exception | None = None
    started: bool = False
    ended: bool = False


@dataclass(slots=True)
class Question:
    """A question to a person about a call.

    Args:
        request: the call.
        answer: the person's decision.
        problem: why nobody could be asked; empty if a person was.
    """

    request: ApprovalRequest
    answer: Approval = "later"
    problem: str = ""


class ReplyHandler:
    """Handles the calls of one reply.

    Calls run at the same time. A call whose permission may depend on the outcome of an earlier
    call of the reply waits until that outcome is recorded, and is checked then. So the verdicts are
    those of calls made one after the other. If handling is cancelled, the outcome of a call that
    runs is unknown, and a call that did not start has failed.

    A call that a person decides about later waits, and so do later calls whose permission may
    depend on its outcome. Nothing of the reply is answered before.

    Args:
        session: checks the calls and records their results.
        progress: the reply, and how far its calls are.
        run: runs the tools.
        parallel: whether calls may run at the same time.
        approve: asks a person; None if nobody can be asked now.
        decisions: id of a waiting call to what a person decided; None if no call waited so far.
        note_start: is called directly before calls run, with the progress in which they have
            started.
    """

    def __init__(
        self,
        session: CallSession,
        progress: CallProgress,
        run: ToolRunner,
        *,
        parallel: bool,
        approve: Approve | None = None,
        decisions: Mapping[str, bool] | None = None,
        note_start: Callable[[Pending], None] | None = None,
    ) -> None:
        if approve is not None and not callable(approve):
            raise RequestError(f"approve: a function, not {type(approve).__name__}")
        if not isinstance(run, Mapping) and not callable(run):
            raise RequestError(
                "run: a function of a tool and its arguments, or a mapping of names to functions, "
                f"not {type(run).__name__}"
            )
        self._session = session
        self._progress = progress
        self._reply = progress.reply
        self._answers = progress.answers
        self._runner = run
        if isinstance(run, Mapping):
            self._check_functions(run)
        self._parallel = parallel
        self._approve = approve
        self._decisions = decisions
        self._note_start = note_start
        self._provider = PROVIDERS[self._reply.provider]
        self._passed_calls: list[PassedCall] = []

    def handle(self) -> Messages | Pending:
        """The messages that follow the reply, with the reply; waits for the tools."""
        if self._is_async() and _in_event_loop():
            raise RequestError(
                "run or approve: is async; in an event loop use: await session.ahandle(...) or "
                "afinish(...)"
            )
        try:
            for step in self._steps():
                if isinstance(step, Question):
                    self._ask(step)
                else:
                    self._run_batch(step)
        except BaseException:
            self._end_calls()
            raise
        return self._outcome()

    def _ask(self, question: Question) -> None:
        if self._approve is None:
            return
        try:
            answer: object = self._approve(question.request)
            if inspect.isawaitable(answer):
                answer = asyncio.run(_result_of(answer))
            question.answer = checked_approval(answer)
        except Exception as error:  # noqa: BLE001 - whatever the function raises, nobody approved
            _note_problem(question, error)

    async def _ask_async(self, question: Question) -> None:
        if self._approve is None:
            return
        try:
            question.answer = await ask(self._approve, question.request)
        except Exception as error:  # noqa: BLE001 - whatever the function raises, nobody approved
            _note_problem(question, error)

    def _run_batch(self, batch: Sequence[PassedCall]) -> None:
        if len(batch) == 1:
            self._run_call(batch[0])
            return
        with ThreadPoolExecutor(min(len(batch), _MAX_THREADS), "shortlist-tool") as threads:
            for running in [
                threads.submit(copy_context().run, self._run_call, call) for call in batch
            ]:
                running.result()

    async def ahandle(self) -> Messages | Pending:
        """`handle` for event loops. Functions that are not async run in threads."""
        steps = self._steps()
        try:
            while step := await finish_in_thread(partial(next, steps, None)):
                if isinstance(step, Question):
                    await self._ask_async(step)
                else:
                    await asyncio.gather(*map(self._run_call_async, step))
        except BaseException:
            await finish_in_thread(self._end_calls)
            raise
        return self._outcome()

    def _end_calls(self) -> None:
        """Record an outcome for each call that has none, because handling ends early."""
        for passed in self._passed_calls:
            if passed.place not in self._answers:
                ok = None if passed.started else False
                if passed.ended:
                    ok = _answer_of(self._reply.calls[passed.place], passed).ok
                self._session.record_call(passed.verdict, ok=ok)

    def refuse(self) -> Messages:
        """The messages that answer each call with a request to stop calling."""
        answers = [CallAnswer(call, _NO_MORE_CALLS_MESSAGE, ok=False) for call in self._reply.calls]
        return [*self._reply.messages, *self._provider.answers(answers)]

    def _steps(self) -> Iterator[list[PassedCall] | Question]:
        """Calls to run at the same time, batch by batch, and questions to a person.

        A caller runs the calls of a batch, or sets the answer of a question, before it asks for the
        next step. Then the outcomes of the batch are recorded.
        """
        self._answer_lost_calls()
        waited_before, self._progress.waiting = self._progress.waiting, {}
        batch: list[PassedCall] = []
        for place, call in enumerate(self._reply.calls):
            if place in self._answers:
                continue
            query = self._session._read_search(call.name, call.arguments)
            waiting = self._progress.waiting
            if (batch or waiting) and (
                not self._parallel
                # What a search may find can depend on the outcome of earlier calls.
                or query is not None
                or self._waits_for_calls(call)
            ):
                if batch:
                    yield from self._run_and_record(batch)
                    batch = []
                if waiting:
                    # Its turn comes when the calls before it have an outcome.
                    if place in waited_before:
                        waiting[place] = waited_before[place]
                    continue
            if query is not None:
                self._answers[place] = self._search(call, query)
                continue
            verdict = yield from self._verdict(place, waited_before.get(place))
            if verdict is None:
                continue
            if verdict.passed and verdict.tool is not None:
                batch.append(PassedCall(place, verdict.tool, verdict))
                self._passed_calls.append(batch[-1])
            else:
                self._answers[place] = CallAnswer(call, verdict.text, ok=False)
        if batch:
            yield from self._run_and_record(batch)

    def _waits_for_calls(self, call: ModelCall) -> bool:
        called = self._session._called_tool(call.name, call.arguments)
        return called is not None and called.waits_for_calls

    def _run_and_record(self, batch: list[PassedCall]) -> Iterator[list[PassedCall]]:
        if self._note_start is not None:
            self._progress.started.update(passed.place for passed in batch)
            self._note_start(self._progress.pending())
        yield batch
        self._record(batch)

    def _verdict(
        self, place: int, row: Mapping[str, Any] | None
    ) -> Generator[Question, None, Verdict | None]:
        """The verdict on a call, after a person was asked; None if the person decides later.

        Args:
            place: place of the call.
            row: what a person decides about, if the call has waited.
        """
        call, session = self._reply.calls[place], self._session
        can_wait = self._approve is not None or self._decisions is not None
        decision = None if row is None else (self._decisions or {}).get(row["id"])
        if row is not None and decision is None:
            self._progress.waiting[place] = dict(row)
            return None
        if row is not None and decision is False:
            return _unapproved(call.name, row["tool"], _DECLINED)
        verdict = session.check(
            call.name, call.arguments, approved=decision is True, can_ask=can_wait
        )
        if verdict.tool is None:
            return verdict
        request = self._progress.request(place, verdict, verdict.tool)
        if row is not None and verdict.passed and not shows_same_call(row, request):
            # The person saw another call.
            session.record_call(verdict, ok=False)
            self._progress.wait(place, request)
            return None
        if verdict.status != "unapproved" or not can_wait:
            return verdict
        question = Question(request)
        yield question
        if question.answer == "later":
            self._progress.wait(place, request)
            return None
        if question.answer is False:
            return _unapproved(call.name, request.tool.id, question.problem or _DECLINED)
        verdict = session.check(call.name, call.arguments, approved=True)
        if verdict.passed and (verdict.tool, verdict.arguments) != (
            request.tool,
            request.arguments,
        ):
            session.record_call(verdict, ok=False)
            return _unapproved(call.name, request.tool.id, _CHANGED_MEANWHILE)
        return verdict

    def _answer_lost_calls(self) -> None:
        """Answer the calls that a program which stopped had begun to run."""
        for place in self._progress.started - set(self._answers):
            call = self._reply.calls[place]
            answer = {"error": "outcome_unknown", "message": _UNKNOWN_OUTCOME_MESSAGE}
            self._answers[place] = CallAnswer(call, json.dumps(answer), ok=False)

    def _search(self, call: ModelCall, query: str | Verdict) -> CallAnswer:
        if isinstance(query, Verdict):
            return CallAnswer(call, query.text, ok=False)
        turn = self._session.search(query)
        self._progress.about_tools += turn.append
        answer = None if turn.shown is None else turn.shown.answer
        return CallAnswer(call, answer or "", ok=True)

    def _record(self, batch: Sequence[PassedCall]) -> None:
        """Record the outcomes of calls that ran, in the order of the calls."""
        for passed in batch:
            call = self._reply.calls[passed.place]
            answer = _answer_of(call, passed)
            self._answers[passed.place] = answer
            turn = self._session.result(passed.verdict, answer.content, ok=answer.ok)
            self._progress.about_tools += turn.append

    def _outcome(self) -> Messages | Pending:
        if self._progress.waiting:
            return self._progress.pending()
        # Providers take the answers to all calls right after the reply.
        answers = [self._answers[place] for place in range(len(self._reply.calls))]
        about_tools = self._progress.about_tools
        return [*self._reply.messages, *self._provider.answers(answers), *about_tools]

    def _check_functions(self, functions: Mapping[str, Any]) -> None:
        """Check that each tool that may run has a function.

        Raises:
            RequestError: a function is missing, or is none.
        """
        for place, call in enumerate(self._reply.calls):
            if (
                place in self._answers
                or self._session._read_search(call.name, call.arguments) is not None
            ):
                continue
            called = self._session._called_tool(call.name, call.arguments)
            if called is None or not (called.is_permitted or called.waits_for_calls):
                continue
            tool = called.tool
            if skill_text(tool) is not None:
                continue
            function = _function_of(functions, tool)
            is_by_name = tool.id not in functions and tool.name in functions
            if is_by_name and called.shares_name:
                raise RequestError(
                    f"run: several tools are named {tool.name!r}; give each function under its "
                    f"tool's id, such as {tool.id!r}"
                )
            if function is None:
                names = ", ".join(map(str, list(functions)[:_LISTED_NAMES])) or "none"
                more = ", ..." if len(functions) > _LISTED_NAMES else ""
                raise RequestError(
                    f"run: no function for the tool {tool.id!r}; add it under {tool.id!r} or "
                    f"{tool.name!r}. The mapping has: {names}{more}"
                )
            if not callable(function) and not callable(getattr(function, "invoke", None)):
                raise RequestError(f"run[{tool.id!r}]: a function, not {type(function).__name__}")

    def _is_async(self) -> bool:
        functions = self._runner.values() if isinstance(self._runner, Mapping) else (self._runner,)
        return any(map(is_async_function, (*functions, self._approve)))

    def _call(self, passed: PassedCall) -> object:
        """The value of a call, or an awaitable of it."""
        tool, arguments = passed.tool, dict(passed.verdict.arguments)
        if (text := skill_text(tool)) is not None:
            return text
        if not isinstance(self._runner, Mapping):
            return self._runner(tool, arguments)
        function = _function_of(self._runner, tool)
        if function is None:
            raise ToolCallError(_NO_FUNCTION_MESSAGE)
        return call_function(function, arguments)

    def _may_run(self, passed: PassedCall) -> bool:
        """Whether the call is still permitted: other calls of the batch may have taken long."""
        verdict = self._session.recheck(passed.verdict)
        passed.refusal = None if verdict.passed else verdict
        return verdict.passed

    def _run_call(self, passed: PassedCall) -> None:
        """Run a call in this thread, and note what it returned or raised."""
        if not self._may_run(passed):
            return
        passed.started = True
        try:
            value = self._call(passed)
            passed.value = asyncio.run(_result_of(value)) if inspect.isawaitable(value) else value
        except Exception as error:  # noqa: BLE001 - whatever a tool raises, the model is answered
            passed.error = error
        passed.ended = True

    async def _run_call_async(self, passed: PassedCall) -> None:
        """Run a call in this event loop, or in a thread if its function is not async."""
        if not await asyncio.to_thread(self._may_run, passed):
            return
        function: object = self._runner
        if isinstance(function, Mapping):
            function = _function_of(function, passed.tool)
        passed.started = True
        try:
            if is_async_function(function):
                value = self._call(passed)
            else:
                value = await asyncio.to_thread(self._call, passed)
            passed.value = await value if inspect.isawaitable(value) else value
        except Exception as error:  # noqa: BLE001 - whatever a tool raises, the model is answered
            passed.error = error
        passed.ended = True


async def finish_in_thread(step: Callable[[], Result]) -> Result:
    """The result of a step in a thread. A cancellation waits until the step has ended."""
    running = asyncio.ensure_future(asyncio.to_thread(step))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


def _note_problem(question: Question, error: Exception) -> None:
    """Refuse a call about which nobody could be asked."""
    question.answer = False
    if isinstance(error, RequestError):
        question.problem = str(error)
        return
    _LOG.error("asking for approval of %s failed", question.request.tool.id, exc_info=error)
    question.problem = "it needs a person's approval, and asking for it failed"


def _unapproved(called_name: str, tool_id: str, reason: str) -> Verdict:
    return Verdict("unapproved", called_name, refusal=approval_refusal(tool_id, reason))


def _function_of(functions: Mapping[str, Any], tool: Tool) -> object:
    """The function of a tool; None if there is none."""
    return functions.get(tool.id, functions.get(tool.name))


def _answer_of(call: ModelCall, passed: PassedCall) -> CallAnswer:
    """The answer to a call that ran. The exception of a tool is logged, and not shown."""
    error = passed.error
    if passed.refusal is not None:
        return CallAnswer(call, passed.refusal.text, ok=False)
    if error is None:
        return CallAnswer(call, *_content_of(passed.value))
    message = str(error) if isinstance(error, ToolCallError) else ""
    if not message:
        _LOG.error("%s: the tool failed", passed.tool.id, exc_info=error)
    answer = {"error": "tool_failed", "tool": passed.tool.id, "message": message or _FAILED_MESSAGE}
    return CallAnswer(call, _encodable(json.dumps(answer, ensure_ascii=False)), ok=False)


def _content_of(value: object) -> tuple[str | list[Any], bool]:
    """What the model reads of a result, and whether the call succeeded.

    A text, and a list of content blocks, stay as they are. Of a result of the MCP SDK, the model
    reads the texts. Everything else becomes JSON.
    """
    if isinstance(value, str):
        return _encodable(value), True
    if is_pydantic_model(value) and hasattr(value, "content") and hasattr(value, "is_error"):
        blocks = value.content if isinstance(value.content, list) else []
        texts = [getattr(block, "text", None) for block in blocks]
        text = "\n".join(text for text in texts if isinstance(text, str))
        structured = getattr(value, "structured_content", None)
        return _encodable(text or _json_text(structured)), not value.is_error
    if isinstance(value, list) and value and all(map(_is_content_block, value)):
        return value, True
    return _json_text(value), True


def _is_content_block(value: object) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("type"), str)


def _json_text(value: object) -> str:
    from pydantic_core import PydanticSerializationError, to_json

    try:
        return to_json(value, fallback=str, bytes_mode="base64").decode()
    except (PydanticSerializationError, ValueError, RecursionError):
        return _encodable(repr(value))


def _encodable(text: str) -> str:
    # Half of a surrogate pair, which no provider takes.
    return text.encode("utf-8", "replace").decode()


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _result_of(value: Awaitable[object]) -> object:
    return await value
