"""A person approves calls: at once, later, in another process; nothing runs twice or unapproved."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from shortlist import Engine, Gate, Rule, Session, State, Tool
from shortlist.codemode.grants import Approval, ApprovalRequest
from shortlist.errors import RequestError
from shortlist.gating import after, argument, requires_scope
from shortlist.session import Pending

from .replies import answers_by_call, chat

Json = dict[str, Any]
NUMBER = {
    "type": "object",
    "properties": {"number": {"type": "string"}, "amount": {"type": "number"}},
}
TOOLS = [
    Tool("get", "bank", "Show an invoice", NUMBER),
    Tool("pay", "bank", "Pay an invoice", NUMBER),
    Tool("receipt", "bank", "Send the receipt of a payment", NUMBER),
    Tool("wipe", "disk", "Wipe the disk", NUMBER, annotations={"destructiveHint": True}),
]
GATE = Gate(
    [
        Rule(tools="bank/pay", when=argument("amount", above=100), approval=True, name="large"),
        Rule(after("bank/pay"), tools="bank/receipt"),
    ]
)
LARGE, SMALL = {"amount": 120}, {"amount": 80}


def make_engine(gate: Gate = GATE, tools: list[Tool] | None = None) -> Engine:
    return Engine.from_tools(TOOLS if tools is None else tools, gate=gate, tiers=["lexical"])


def make_session(engine: Engine | None = None) -> Session:
    session = (engine or make_engine()).session("openai", must_offer=False)
    session.turn("pay the invoice")
    return session


@dataclass
class Runs:
    """Runs tools and remembers which."""

    ids: list[str] = field(default_factory=list)

    def __call__(self, tool: Tool, arguments: Json) -> str:
        self.ids.append(tool.id)
        return f"{tool.name} done"


def later(request: ApprovalRequest) -> Approval:
    return "later"


def waiting(session: Session, run: Runs, *calls: tuple[str, Json]) -> Pending:
    assert session.handle(chat([*calls]), run, approve=later) == []
    pending = session.pending
    assert pending is not None
    return pending


def finished(outcome: list[Json]) -> dict[str, str]:
    assert isinstance(outcome, list)
    return answers_by_call(outcome)


def restarted(session: Session, engine: Engine | None = None) -> Session:
    saved = json.loads(json.dumps(session.save()))
    return (engine or make_engine()).resume(saved, state=State())


@pytest.mark.parametrize("is_async", [False, True])
def test_a_person_decides_at_once(is_async: bool) -> None:
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> Approval:
        asked.append(request)
        return request.call_id == "call_0"

    async def approve_async(request: ApprovalRequest) -> Approval:
        return approve(request)

    session, run = make_session(), Runs()
    reply = chat([("bank__pay", LARGE), ("bank__pay", LARGE), ("bank__pay", SMALL)])
    if is_async:
        answers = finished(asyncio.run(session.ahandle(reply, run, approve=approve_async)))
    else:
        answers = finished(session.handle(reply, run, approve=approve))
    assert answers["call_0"] == answers["call_2"] == "pay done"
    refusal = json.loads(answers["call_1"])
    assert (refusal["status"], refusal["kind"]) == ("unapproved", "approval")
    assert "did not approve this call" in refusal["message"]
    assert run.ids == ["bank/pay", "bank/pay"]
    assert [(request.tool.id, request.rules) for request in asked] == [("bank/pay", ("large",))] * 2
    assert asked[0].arguments == LARGE


def test_without_a_person_it_is_refused_and_with_one_destructive_tools_ask() -> None:
    session, run = make_session(), Runs()
    reply = chat([("bank__pay", LARGE), ("disk__wipe", {})])
    answers = finished(session.handle(reply, run))
    assert "needs a person's approval" in answers["call_0"]
    assert run.ids == ["disk/wipe"]
    answers = finished(session.handle(reply, run, approve=lambda _: False))
    assert "did not approve" in answers["call_1"]
    assert run.ids == ["disk/wipe"]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (RuntimeError("db://secret"), "asking for it failed"),
        (RequestError("too long to be shown"), "too long to be shown"),
        ("yes", "asking for it failed"),
        (None, "asking for it failed"),
        (1, "asking for it failed"),
    ],
)
def test_an_answer_that_is_none_approves_nothing(answer: Any, text: str) -> None:
    def approve(request: ApprovalRequest) -> Approval:
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    session, run = make_session(), Runs()
    answers = finished(session.handle(chat([("bank__pay", LARGE)]), run, approve=approve))
    assert text in answers["call_0"]
    assert "secret" not in answers["call_0"]
    assert run.ids == []


def test_later_in_another_process_and_calls_that_depend_on_it_wait_too() -> None:
    session, run = make_session(), Runs()
    calls = [("bank__get", {}), ("bank__pay", LARGE), ("bank__receipt", {})]
    pending = waiting(session, run, *calls)
    assert run.ids == ["bank/get"]
    row = {"id": "call_1", "tool": "bank/pay", "arguments": LARGE, "rules": ["large"]}
    assert [{key: call[key] for key in row} for call in pending.waiting] == [row]
    session = restarted(session)
    assert session.pending == pending
    for blocked in (lambda: session.turn("hello"), lambda: session.handle(chat([]), run)):
        with pytest.raises(RequestError, match="first call session"):
            blocked()
    stored = json.loads(json.dumps(pending))
    answers = finished(session.finish(stored, {"call_1": True}, run))
    assert answers == {"call_0": "get done", "call_1": "pay done", "call_2": "receipt done"}
    assert run.ids == ["bank/get", "bank/pay", "bank/receipt"]
    assert session.pending is None
    assert session.turn("thanks, and now?").messages
    with pytest.raises(RequestError, match="finished already"):
        session.finish(stored, {"call_1": True}, run)


def test_a_refused_call_denies_what_depends_on_it() -> None:
    session, run = make_session(), Runs()
    pending = waiting(session, run, ("bank__pay", LARGE), ("bank__receipt", {}))
    answers = finished(session.finish(pending, {"call_0": False}, run))
    assert "needs a call of 'bank/pay' first" in answers["call_1"]
    assert run.ids == []


def test_one_after_the_other_waits_for_the_person() -> None:
    session, run = make_session(), Runs()
    reply = chat([("bank__pay", LARGE), ("bank__get", {})])
    assert session.handle(reply, run, approve=later, parallel=False) == []
    pending = session.pending
    assert pending is not None
    assert run.ids == []
    finished(asyncio.run(session.afinish(pending, {"call_0": True}, run, parallel=False)))
    assert run.ids == ["bank/pay", "bank/get"]


CHANGED = [*TOOLS[:1], Tool("pay", "bank", "Pay twice", NUMBER), *TOOLS[2:]]


@pytest.mark.parametrize(
    ("gate", "tools", "text"),
    [
        (Gate([*GATE.rules, Rule(requires_scope("s"), tools="bank/*")]), TOOLS, "the scope 's'"),
        (
            Gate([Rule(tools="bank/pay", when=argument("amount", above=9), deny=True)]),
            TOOLS,
            "rule",
        ),
        (GATE, [TOOLS[0], TOOLS[3]], "There is no tool"),
        (GATE, CHANGED, "had not seen its present definition"),
    ],
)
def test_a_call_is_checked_as_it_is_when_the_person_decides(
    gate: Gate, tools: list[Tool], text: str
) -> None:
    session, run = make_session(), Runs()
    pending = waiting(session, run, ("bank__pay", LARGE))
    session = restarted(session, make_engine(gate, tools))
    answers = finished(session.finish(pending, {"call_0": True}, run))
    assert text in answers["call_0"]
    assert run.ids == []


def test_what_the_person_did_not_see_waits_again() -> None:
    """A session without a provider does not know what its model has read."""
    engine = make_engine()
    session, run = engine.session(must_offer=False), Runs()
    pending = waiting(session, run, ("bank/pay", LARGE))
    engine.replace(CHANGED)
    assert session.finish(pending, {"call_0": True}, run) == []
    again = session.pending
    assert again is not None
    assert run.ids == []
    assert finished(session.finish(again, {"call_0": True}, run)) == {"call_0": "pay done"}


def test_the_copy_of_the_session_counts() -> None:
    session, run = make_session(), Runs()
    pending = waiting(session, run, ("bank__pay", LARGE))
    forged = json.loads(
        json.dumps(pending).replace("120", "999").replace("bank__pay", "disk__wipe")
    )
    arguments: list[Json] = []

    def note(tool: Tool, given: Json) -> str:
        arguments.append(given)
        return run(tool, given)

    finished(session.finish(forged, {"call_0": True}, note))
    assert (run.ids, arguments) == (["bank/pay"], [LARGE])


@pytest.mark.parametrize(
    ("decisions", "message"),
    [
        ({"call_9": True}, "the reply has no call 'call_9'"),
        ({"call_0": "yes"}, "it is 'yes'"),
        ({"call_0": 1}, "it is 1"),
        (["call_0"], "not list"),
    ],
)
def test_wrong_decisions_are_named_and_run_nothing(decisions: Any, message: str) -> None:
    session, run = make_session(), Runs()
    pending = waiting(session, run, ("bank__pay", LARGE))
    with pytest.raises(RequestError, match=message):
        session.finish(pending, decisions, run)
    assert session.finish(pending, {}, run) == []
    assert session.finish(pending, {"call_0": "later"}, run) == []
    assert session.pending == pending
    assert run.ids == []


def test_a_session_saved_too_early_runs_nothing() -> None:
    session, run = make_session(), Runs()
    early = session.save()
    pending = waiting(session, run, ("bank__pay", LARGE))
    with pytest.raises(RequestError, match="save it afterwards"):
        make_engine().resume(early, state=State()).finish(pending, {"call_0": True}, run)


def test_a_program_that_stops_while_a_call_runs_never_runs_it_again() -> None:
    session = make_session()
    pending = waiting(session, Runs(), ("bank__pay", LARGE), ("bank__receipt", {}))
    stored: list[Json] = []

    def stop(tool: Tool, arguments: Json) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session.finish(pending, {"call_0": True}, stop, save=stored.append)
    for again in (session, make_engine().resume(json.loads(json.dumps(stored[-1])), state=State())):
        run = Runs()
        answers = finished(again.finish(pending, {"call_0": True}, run))
        assert json.loads(answers["call_0"])["error"] == "outcome_unknown"
        assert "the outcome of an earlier call of bank/pay is not known" in answers["call_1"]
        assert run.ids == []
        assert again.state.unknown == ("bank/pay",)


def test_two_threads_do_not_finish_one_reply() -> None:
    session, started, go_on = make_session(), Event(), Event()
    pending = waiting(session, Runs(), ("bank__pay", LARGE))

    def slow(tool: Tool, arguments: Json) -> str:
        started.set()
        go_on.wait(10)
        return "paid"

    thread = Thread(target=session.finish, args=(pending, {"call_0": True}, slow))
    thread.start()
    assert started.wait(10)
    with pytest.raises(RequestError, match="in another thread"):
        session.finish(pending, {"call_0": True}, slow)
    go_on.set()
    thread.join()
    assert session.pending is None


class Stopped(BaseException):
    """The program stops."""


_ENGINE = make_engine()


class Approvals(RuleBasedStateMachine):
    """Replies, decisions, crashes and resumes in any order.

    Every call has a number as its argument. The program may stop while a tool runs, or between any
    two steps; then the session goes on from what was stored last.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ran: Counter[str] = Counter()
        self.approved: set[str] = set()
        self.unapproved: list[str] = []

    @initialize(parallel=st.booleans())
    def begin(self, parallel: bool) -> None:
        self.engine, self.parallel = _ENGINE, parallel
        self.session = make_session(self.engine)
        self.pending: Any = None
        self.number = 0
        self.store()

    def store(self) -> None:
        values = {"session": self.session.save(), "pending": self.pending}
        self.stored = json.dumps(values)

    def store_session(self, saved: Json) -> None:
        self.stored = json.dumps({"session": saved, "pending": self.pending})

    def resume(self) -> None:
        stored = json.loads(self.stored)
        self.pending = stored["pending"]
        self.session = self.engine.resume(stored["session"], state=State())

    def run(self, stop_at: int) -> Callable[[Tool, Json], str]:
        left = [stop_at]

        def run(tool: Tool, arguments: Json) -> str:
            number = arguments["number"]
            self.ran[number] += 1
            needs_approval = tool.id == "disk/wipe" or (
                tool.id == "bank/pay" and arguments["amount"] > 100
            )
            if needs_approval and number not in self.approved:
                self.unapproved.append(number)  # an exception would be the tool's own
            left[0] -= 1
            if left[0] == 0:
                raise Stopped
            return "done"

        return run

    def attempt(self, step: Callable[[], list[Json]]) -> None:
        try:
            step()
        except Stopped:
            self.resume()
            return
        self.pending = self.session.pending
        self.store()

    @precondition(lambda self: self.pending is None)
    @rule(
        names=st.lists(
            st.sampled_from(["bank__get", "bank__pay", "disk__wipe", "bank__receipt"]),
            min_size=1,
            max_size=3,
        ),
        answers=st.lists(st.sampled_from(["later", "later", True, False]), min_size=4, max_size=4),
        amount=st.sampled_from([120, 80]),
        stop_at=st.sampled_from([0, 0, 1, 2]),
    )
    def reply(self, names: list[str], answers: list[Approval], amount: int, stop_at: int) -> None:
        calls = []
        for name in names:
            self.number += 1
            calls.append((name, {"number": str(self.number), "amount": amount}))

        def approve(request: ApprovalRequest) -> Approval:
            number = str(request.arguments["number"])
            answer = answers[int(number) % len(answers)]
            if answer is True:
                self.approved.add(number)
            return answer

        run = self.run(stop_at)
        self.attempt(
            lambda: self.session.handle(chat(calls), run, approve=approve, parallel=self.parallel)
        )

    @precondition(lambda self: self.pending is not None)
    @rule(
        decisions=st.lists(st.sampled_from([True, True, False, "later"]), min_size=4, max_size=4),
        stop_at=st.sampled_from([1, 0, 1, 2]),
        use_json=st.booleans(),
    )
    def decide(self, decisions: list[Approval], stop_at: int, use_json: bool) -> None:
        pending = json.loads(json.dumps(self.pending)) if use_json else self.pending
        chosen = {}
        for call, decision in zip(pending["waiting"], decisions, strict=False):
            chosen[call["id"]] = decision
            if decision is True:
                self.approved.add(call["arguments"]["number"])
        run = self.run(stop_at)
        self.attempt(
            lambda: self.session.finish(
                pending, chosen, run, save=self.store_session, parallel=self.parallel
            )
        )

    @rule()
    def crash(self) -> None:
        self.resume()

    @precondition(lambda self: self.pending is not None)
    @rule()
    def finish_what_is_over(self) -> None:
        with pytest.raises(RequestError):
            self.session.finish({"id": "other"}, {}, self.run(0))

    @invariant()
    def nothing_ran_twice_or_unapproved(self) -> None:
        assert self.unapproved == []
        assert all(count == 1 for count in self.ran.values()), self.ran


Approvals.TestCase.settings = settings(max_examples=100, stateful_step_count=12, deadline=None)
TestApprovals = Approvals.TestCase
