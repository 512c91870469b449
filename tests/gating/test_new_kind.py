"""A new kind of condition is one class: this file adds one and uses it end to end."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from shortlist import Config, Engine
from shortlist.errors import ConfigError
from shortlist.gating import Condition, State
from shortlist.gating.condition import (
    CONDITION_KINDS,
    NO,
    YES,
    ConditionInput,
    Truth,
)
from shortlist.gating.rules import read_gate

from .conftest import small_catalog

CLOCK = "clock"


@dataclass(frozen=True, slots=True)
class Calls(Condition):
    """At least so many different tools were called. JSON: a number."""

    key = "calls"
    least: int

    @classmethod
    def parse(cls, value: Any, depth: int) -> Condition:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"calls: a number of calls, at least 1, not {value!r:.80}")
        return cls(value)

    def to_dict(self) -> dict[str, Any]:
        return {"calls": self.least}

    def describe(self) -> str:
        return f"{self.least} calls first"

    def evaluate(self, request: ConditionInput) -> Truth:
        if "broken" in request.state.scopes:
            raise OSError("no count")
        return YES if len(request.state.called) >= self.least else NO


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONDITION_KINDS, "calls", Calls)


def declared(needs: Any) -> dict[str, Any]:
    return {"rules": [{"name": "late", "tools": CLOCK, "needs": needs}]}


def engine_with(needs: Any) -> Engine:
    return Engine.from_tools(small_catalog(), tiers=["lexical"], gate=read_gate(declared(needs)))


def test_it_is_declared_decided_explained_and_written() -> None:
    engine = engine_with({"calls": 2})
    assert engine.problems == ()
    refusal = engine.view(State(called=("web/fetch",))).admission.refusal(CLOCK)
    assert refusal is not None
    assert (refusal.kind, refusal.reason) == ("precondition", "needs 2 calls first")
    assert refusal.detail == {"rules": ["late"], "unmet": [{"calls": 2}]}
    assert engine.view(State(called=("web/fetch", "my-shell"))).admission.admits(CLOCK)
    form = json.loads(json.dumps(engine.config.gate.to_dict()))
    assert read_gate(form) == engine.config.gate
    assert Config(gate=form).gate == engine.config.gate


def test_it_is_a_part_of_other_conditions() -> None:
    engine = engine_with({"any_of": [{"scope": "w"}, {"not": {"calls": 1}}]})
    assert engine.view().admission.admits(CLOCK)
    refusal = engine.view(State(called=("web/fetch",))).admission.refusal(CLOCK)
    assert refusal is not None
    assert refusal.reason == "needs the scope 'w' or the opposite of 1 calls first"


@pytest.mark.parametrize("needs", [{"calls": 1}, {"not": {"calls": 1}}])
def test_its_failure_grants_nothing(needs: Any) -> None:
    state = State(scopes=frozenset({"broken"}), called=("web/fetch",))
    refusal = engine_with(needs).view(state).admission.refusal(CLOCK)
    assert refusal is not None
    assert refusal.kind == "predicate_error"
    assert refusal.reason.endswith("calls first; '1' gives no answer")
    assert refusal.detail["unmet"][0]["error"] == "gives no answer; the log says why"


def test_errors_name_it() -> None:
    with pytest.raises(ConfigError, match=r"gate\.rules\.0 \('late'\): calls: a number of calls"):
        read_gate(declared({"calls": 0}))
    with pytest.raises(ConfigError, match=r"use one of: scope, .*, not, calls"):
        read_gate(declared({"call": 1}))
