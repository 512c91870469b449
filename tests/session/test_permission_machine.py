"""Random rules, states, strategies, calls, updates: what is denied never shows and never counts.

The oracle below decides by itself what is permitted, from the same declarations, without a mask.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from shortlist import Engine, Rule, State, Tool
from shortlist.gating import Gate, Provides, after, milestone, not_, requires_scope
from shortlist.loaders.providers import PROVIDERS
from shortlist.retrieval import QueryRun, Ranking
from shortlist.session import Session, Turn

_VERBS, _SERVERS = ("list", "read", "delete", "send", "confirm"), ("mail", "Files", "music")
_WAYS = tuple((name, way) for name, provider in PROVIDERS.items() for way in provider.ways)
_SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
_WORDS = ("list the mail", "delete a file", "send music", "confirm it", "read", "thanks!", "zzz")
_GRANTS = ("mail/*", "Files/*", "*", "list_*", "gone/tool", "mail/nothing")
#: What a rule asks, as the library's condition and as the oracle's function of state and tool.
_CONDITIONS = {
    "scope": (requires_scope("w"), lambda state: "w" in state.scopes),
    "after": (after("confirm_*"), lambda state: any("/confirm_" in one for one in state.called)),
    "milestone": (milestone("ok"), lambda state: "ok" in state.milestones),
    "not_after": (
        not_(after("DELETE_*")),
        lambda state: (
            not any("/delete_" in one.casefold() for one in (*state.called, *state.unknown))
        ),
    ),
}
_SELECTORS = ("*/DELETE_*", "mail/*", "files/*", "send_*", "*/read_*")


def tool(number: int, version: int = 0) -> Tool:
    """A tool whose name and description are found nowhere else."""
    verb, server = _VERBS[number % 5], _SERVERS[number % 3]
    return Tool(f"{verb}_q{number}q", server, f"Can {verb} {server} z{number}v{version}z", _SCHEMA)


@dataclass
class Hostile:
    """Returns rows that were never permitted, that do not exist, several times, in any type."""

    how: int
    fallback: None = None

    def rank(self, run: QueryRun) -> Ranking:
        run.query = replace(run.query, allowed=None)
        count = 40
        rows = {
            0: np.arange(count),
            1: np.arange(count)[::-1].copy(),
            2: np.array([-1, -5, 10_000, *range(count)]),
            3: np.repeat(np.arange(count), 3),
        }[self.how]
        return Ranking(rows.astype(np.int64), np.linspace(1, 0, len(rows), dtype=np.float32))


class Permissions(RuleBasedStateMachine):
    engine: Engine
    session: Session

    @initialize(
        declared=st.lists(
            st.tuples(st.sampled_from(_SELECTORS), st.sampled_from(list(_CONDITIONS))), max_size=4
        ),
        way=st.sampled_from(_WAYS),
        tokens=st.sampled_from([120, 3_000]),
        whole=st.booleans(),
        must_offer=st.booleans(),
    )
    def begin(self, declared, way, tokens, whole, must_offer) -> None:
        self.declared = declared
        rules = [Rule(_CONDITIONS[kind][0], tools=glob) for glob, kind in declared]
        rules.append(Rule(tools="*/confirm_*", provides=Provides(milestones=("ok",))))
        self.tools = {one.id: one for one in map(tool, range(20))}
        self.quarantined: set[str] = set()
        self.engine = Engine.from_tools(
            self.tools.values(), tiers=["lexical"], gate=Gate(rules), trust={"scan": False}
        )
        self.honest = self.engine._tiers._strategies["lexical"]
        self.session = self.engine.session(
            way[0],
            tools=way[1],
            pool_tokens=tokens,
            pass_through=0.03 if whole else 0.0,
            must_offer=must_offer,
            k=4,
        )
        self.waiting: list[str] = []
        self.done: set[str] = set()
        self.confirmed = False
        self.messages: list[dict[str, Any]] = []

    def permitted(self, tool_id: str, waiting: Sequence[str] = ()) -> bool:
        """The oracle: whether a tool may be called, if the calls `waiting` had succeeded."""
        if tool_id not in self.tools or tool_id in self.quarantined:
            return False
        allowed, state = self.session.allowed, self.session.state
        for called in waiting:
            milestones = {"ok"} if "/confirm_" in called and called in self.tools else set()
            state = replace(
                state,
                called=(*state.called, called),
                milestones=frozenset(state.milestones | milestones),
            )
        name = self.tools[tool_id].name
        if allowed is not None and not any(
            glob == tool_id or ("*" in glob and fnmatchcase(tool_id if "/" in glob else name, glob))
            for glob in allowed
        ):
            return False
        return all(
            _CONDITIONS[kind][1](state)
            for glob, kind in self.declared
            if fnmatchcase((tool_id if "/" in glob else name).casefold(), glob.casefold())
        )

    @rule(scopes=st.sets(st.sampled_from(["w", "x"])), forget=st.booleans())
    def assign_state(self, scopes, forget) -> None:
        if forget:
            self.session.state = State(scopes=frozenset(scopes))
            self.done, self.confirmed = set(), False
        else:
            self.session.state = replace(self.session.state, scopes=frozenset(scopes))

    @rule(allowed=st.none() | st.lists(st.sampled_from(_GRANTS), max_size=3))
    def assign_allowed(self, allowed) -> None:
        self.session.allowed = allowed

    @rule(how=st.integers(-1, 3))
    def change_strategy(self, how) -> None:
        self.engine._tiers._strategies["lexical"] = self.honest if how < 0 else Hostile(how)

    @rule(numbers=st.sets(st.integers(0, 24), max_size=4))
    def quarantine(self, numbers) -> None:
        self.quarantined = {tool(number).id for number in numbers}
        self.engine.quarantine(dict.fromkeys(self.quarantined, "under review"))

    @rule(
        gone=st.integers(0, 19),
        changed=st.integers(0, 19),
        come=st.integers(20, 24),
        to=st.integers(1, 9),
    )
    def update(self, gone, changed, come, to) -> None:
        self.tools.pop(tool(gone).id, None)
        for one in (tool(changed, to), tool(come)):
            self.tools[one.id] = one
        self.engine.replace(self.tools.values())

    @rule(text=st.sampled_from(_WORDS))
    def turn(self, text) -> None:
        self.look(self.session.turn(text))
        self.session.answered("Done.")

    @rule(number=st.integers(0, 24), fits=st.booleans(), by_name=st.booleans())
    def check(self, number, fits, by_name) -> None:
        one = tool(number)
        verdict = self.session.check(one.name if by_name else one.id, {"id": "1"} if fits else {})
        if not self.permitted(one.id):
            assert verdict.status == ("denied" if one.id in self.tools else "unknown")
            assert verdict.tool is None
        elif verdict.passed:
            assert fits
            assert self.permitted(one.id, self.waiting)
            self.waiting.append(one.id)
        elif verdict.status == "denied":
            # Its rule would be broken if a call without a result succeeded.
            assert not self.permitted(one.id, self.waiting)
        else:
            assert verdict.status in ("promoted", "invalid")
        led = () if verdict.refusal is None else verdict.refusal.unlocked_by
        assert all(map(self.permitted, (*verdict.nearest, *led)))
        # The answer to a call says the name that was called, and nothing of other tools.
        self.absent(json.dumps(verdict.tool and verdict.text))

    @rule(ok=st.booleans(), data=st.data())
    def result(self, ok, data) -> None:
        if self.waiting:
            tool_id = self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1)))
            self.done |= {tool_id} if ok else set()
            # A tool that is gone by then reaches nothing.
            self.confirmed |= ok and "/confirm_" in tool_id and tool_id in self.tools
            self.look(self.session.result(tool_id, "It is done.", ok=ok))

    @rule(query=st.sampled_from(_WORDS), abstain=st.booleans(), k=st.integers(1, 30))
    def search(self, query, abstain, k) -> None:
        view = self.session.view()
        found = view.search(query, k=k, abstain=abstain)
        assert all(map(self.permitted, found.ids))
        assert len(set(found.ids)) == len(found.ids)
        assert {one.id for one in view.tools()} == set(filter(self.permitted, self.tools))
        for number in range(25):
            assert view.permits(tool(number).id) == self.permitted(tool(number).id)

    @rule()
    def save_and_resume(self) -> None:
        saved = json.loads(json.dumps(self.session.save()))
        self.session = self.engine.resume(saved, state=self.session.state)
        # Nobody reports the calls that ran: their outcome is unknown.
        assert self.session.save()["waiting"] == {}
        assert set(self.waiting) <= set(self.session.state.unknown)
        self.waiting = []

    def look(self, turn: Turn) -> None:
        """A step finds and appends nothing that is denied; no quarantined text is sent."""
        for tool_id in (
            *turn.ids,
            *turn.active,
            *(hit.id for hit in turn.results.ranked),
            *filter(self.session.level, self.tools),
        ):
            assert self.permitted(tool_id), tool_id
        self.absent(json.dumps(turn.append), names=False)
        self.messages += turn.messages
        request = self.session.request(self.messages)
        sent = json.dumps([one for one in request.get("tools", ()) if "defer_loading" not in one])
        sent += json.dumps([request[key] for key in request if key not in ("tools", "betas")])
        deferred = json.dumps([one for one in request.get("tools", ()) if "defer_loading" in one])
        for number in range(25):
            if tool(number).id in self.quarantined:
                assert not re.search(f"z{number}v[0-9]+z", sent + deferred)
            if tool(number).id not in self.tools or self.session.way != "search":
                continue
            refusal = self.session.view().refusal(tool(number).id)
            if refusal is not None and refusal.kind == "quarantined":
                assert f"q{number}q" not in deferred

    def absent(self, text: str, *, names: bool = True) -> None:
        """No name of a denied tool and no outdated definition is in a text."""
        for number in range(25):
            one = tool(number)
            current = self.tools.get(one.id)
            for version in range(10):
                mark = f"z{number}v{version}z"
                if current is None or mark not in current.description or not self.permitted(one.id):
                    assert mark not in text
            if names and not self.permitted(one.id):
                assert f"q{number}q" not in text.replace("unlocked_by", "")

    @invariant()
    def only_success_counts(self) -> None:
        if hasattr(self, "session"):
            assert set(self.session.state.called) == self.done
            assert ("ok" in self.session.state.milestones) == self.confirmed

    @invariant()
    def it_can_be_saved(self) -> None:
        if hasattr(self, "session"):
            json.dumps(self.session.save())


TestPermissions = Permissions.TestCase
TestPermissions.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
