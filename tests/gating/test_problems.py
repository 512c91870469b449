"""What is wrong with rules, found when they are loaded."""

from __future__ import annotations

import itertools
import json
import logging
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist import Catalog, Tool
from shortlist.errors import ConfigError
from shortlist.gating import (
    Condition,
    Gate,
    Provides,
    Rule,
    State,
    after,
    all_of,
    annotation,
    any_of,
    fact,
    milestone,
    not_,
    requires_scope,
)
from shortlist.gating.compiled import CompiledGate
from shortlist.gating.conditions import AllOf, Annotation, AnyOf, Fact, Not
from shortlist.gating.problem import _first_rows, catalog_problems
from shortlist.gating.satisfiable import satisfiable, simple
from shortlist.retrieval.index import rows_of
from shortlist.retrieval.names import Names

from .conftest import admission_of, make_engine, small_catalog

TOOLS = rows_of(Catalog(small_catalog()))
SCOPE = requires_scope("s")


class TestProblems:
    @pytest.mark.parametrize(
        ("rules", "kind", "severity", "reason"),
        [
            (
                [Rule(SCOPE, tools="nowhere/*", name="r")],
                "concerns_nothing",
                "warning",
                "concerns no tool",
            ),
            (
                [Rule(after("nowhere/*"), tools="web/*", name="r")],
                "after_nothing",
                "warning",
                "needs a call of 'nowhere/*', but no matching tool is there",
            ),
            (
                [
                    Rule(annotation("readOnlyHint"), tools="merge_*"),
                    Rule(all_of(not_(after("nowhere")), after("merge_*")), tools="clock", name="r"),
                ],
                "after_nothing",
                "warning",
                "needs a call of 'merge_*', but no matching tool can ever be called",
            ),
            (
                [
                    Rule(milestone("m"), tools="web/*", name="r"),
                    Rule(not_(milestone("m")), server="web", name="q"),
                ],
                "conflict",
                "error",
                "with 'q' it can never hold, for 'web/fetch'",
            ),
            (
                [Rule(after("web/fetch"), tools="web/fetch", name="r")],
                "cycle",
                "error",
                "'web/fetch' -> 'web/fetch'",
            ),
            (
                [
                    Rule(after("clock"), tools="search_*", name="r"),
                    Rule(all_of(SCOPE, after("my-shell")), tools="clock"),
                    Rule(any_of(after("slack/search_*"), after("github/search_*")), tools="run"),
                ],
                "cycle",
                "error",
                "'clock' -> 'my-shell' -> 'slack/search_messages' -> 'clock'",
            ),
        ],
    )  # fmt: skip
    def test_each_is_reported_when_the_rules_meet_the_catalog(
        self,
        rules: list[Rule],
        kind: str,
        severity: str,
        reason: str,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        with caplog.at_level(logging.WARNING, "shortlist"):
            engine = make_engine(*rules)
        [problem] = engine.problems
        assert (problem.kind, problem.severity, problem.rule) == (kind, severity, "r")
        assert reason in problem.reason
        assert problem.to_dict()["reason"] == problem.reason
        assert [record.getMessage() for record in caplog.records] == [f"gate: {problem}"]

    def test_problems_of_any_catalog_refuse_the_config(self) -> None:
        with pytest.raises(ConfigError, match="'r': no scope 's'; use one of: none"):
            make_engine(Rule(SCOPE, name="r"), scopes=[])
        with pytest.raises(ConfigError, match="no scope 't'; use one of: s"):
            make_engine(Rule(tools="x", provides=Provides(scopes=("t",))), scopes=["s"])
        with pytest.raises(ConfigError, match="can never hold"):
            make_engine(Rule(all_of(SCOPE, not_(SCOPE))))

    @pytest.mark.parametrize(
        "rules",
        [
            [],
            [Rule(SCOPE)],
            [Rule(after("search_*"), tools="delete_*"), Rule(after("get_*"), tools="search_*")],
            [Rule(any_of(after("clock"), SCOPE), tools="clock")],
            [Rule(not_(after("clock")), tools="clock")],
            [Rule(annotation("readOnlyHint"))],
            [Rule(any_of(annotation("readOnlyHint"), after("get_*")), server="github")],
            [Rule(milestone("m"), tools="clock"), Rule(fact("f"), tools="clock")],
        ],
    )
    def test_rules_that_are_well(self, rules: list[Rule]) -> None:
        assert make_engine(*rules).problems == ()

    def test_an_update_of_the_catalog_is_checked_anew(self) -> None:
        engine = make_engine(Rule(after("late/*"), tools="clock"))
        assert [problem.kind for problem in engine.problems] == ["after_nothing"]
        engine.update([*small_catalog(), Tool("start", "late")])
        assert engine.problems == ()

    @pytest.mark.parametrize("seed", range(20))
    def test_a_tool_without_a_problem_can_be_reached(self, seed: int) -> None:
        """Calls what is admitted until that admits no more; what stays shut was told."""
        chance = random.Random(seed)
        names = [tool.id for tool in TOOLS]
        rules = [
            Rule(after(chance.choice(names)), tools=chance.choice(names), name=str(number))
            for number in range(8)
        ]
        rules.append(Rule(not_(after(chance.choice(names))), tools=chance.choice(names)))
        rules.append(Rule(annotation("readOnlyHint"), tools=chance.choice(names), name="shut"))
        state = State()
        for _ in names:
            admission = admission_of(*rules, state=state)
            for tool_id in filter(admission.admits, names):
                state = state.after_call(tool_id)
        waiting = [
            refusal.tool_id
            for refusal in admission_of(*rules, state=state).refusals
            if refusal.kind != "annotation" and "needs not" not in refusal.reason
        ]
        problems = catalog_problems(CompiledGate(Gate(rules), TOOLS, admission.index.names))
        assert bool(waiting) == any(one.kind in ("cycle", "after_nothing") for one in problems)


ATOMS = st.one_of(
    st.sampled_from("ab").map(requires_scope),
    st.builds(fact, st.just("f"), st.sampled_from([None, 1, True, False])),
    st.builds(annotation, st.just("readOnlyHint"), st.booleans()),
)
FORMULAS = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: all_of(*parts))
        | st.lists(inner, min_size=2, max_size=3).map(lambda parts: any_of(*parts))
        | inner.map(not_)
    ),
    max_leaves=7,
)


@settings(deadline=None, max_examples=300)
@given(FORMULAS)
def test_a_condition_can_hold_if_some_state_and_tool_make_it(condition: Condition) -> None:
    def holds(one: Condition, scopes: set[str], known: Any, read_only: bool) -> bool:
        match one:
            case AllOf():
                return all(holds(part, scopes, known, read_only) for part in one.parts)
            case AnyOf():
                return any(holds(part, scopes, known, read_only) for part in one.parts)
            case Not():
                return not holds(one.part, scopes, known, read_only)
            case Fact():
                if one.equals is None:
                    return known is not None and known is not False
                return known is not None and json.dumps(known) == json.dumps(one.equals)
            case Annotation():
                return one.value is read_only
        return one.name in scopes  # type: ignore[attr-defined]

    cases = itertools.product(
        [set(), {"a"}, {"b"}, {"a", "b"}], [None, 1, True, False, "else"], [True, False]
    )
    assert satisfiable(condition) == any(holds(condition, *case) for case in cases)


def test_a_condition_too_large_to_decide_counts_as_possible() -> None:
    pairs = [any_of(requires_scope(f"a{n}"), requires_scope(f"b{n}")) for n in range(40)]
    never = all_of(requires_scope("z"), not_(requires_scope("z")))
    assert len(list(simple(all_of(*pairs)))) == 80
    assert satisfiable(all_of(*pairs, never))
    assert not satisfiable(all_of(never, *pairs))


@settings(deadline=None, max_examples=150)
@given(
    st.lists(
        st.tuples(FORMULAS, st.sets(st.sampled_from([tool.name for tool in TOOLS]), min_size=1)),
        max_size=6,
    )
)
def test_every_set_of_rules_that_excludes_itself_is_a_conflict(
    drawn: list[tuple[Condition, set[str]]],
) -> None:
    rules = [
        Rule(condition, tools=sorted(names), name=str(number))
        for number, (condition, names) in enumerate(drawn)
    ]
    compiled = CompiledGate(Gate(rules), TOOLS, Names.of(TOOLS))
    found = [one for one in catalog_problems(compiled) if one.kind == "conflict"]
    expected: dict[tuple[Condition, ...], tuple[str, str]] = {}
    for row, tool in enumerate(TOOLS):
        concerning = [rule for rule, _, mask in compiled.demands if mask[row]]
        conditions = tuple(dict.fromkeys(rule.condition for rule in concerning))
        possible = all(map(satisfiable, conditions))
        if len(conditions) > 1 and possible and not satisfiable(all_of(*conditions)):
            expected.setdefault(conditions, (concerning[0].name, tool.id))
    assert [(one.rule, one.reason.rpartition(" for ")[2].strip("'")) for one in found] == list(
        expected.values()
    )


@given(st.integers(1, 150), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_each_combination_of_masks_is_looked_at_once(rules: int, tools: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    some = chance.random((rules, 5)) < 0.5
    masks = some[:, chance.integers(0, 5, tools)]
    order = chance.permutation(tools)
    first: dict[bytes, int] = {}
    for row in order.tolist():
        first.setdefault(masks[:, row].tobytes(), row)
    assert _first_rows(masks, order).tolist() == list(first.values())
