"""A gate made from the last version's says exactly what one compiled for all tools says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist import Catalog, Tool
from shortlist.evals.lab.bench.decision import mixed_rules
from shortlist.gating import (
    Gate,
    Provides,
    Rule,
    State,
    after,
    annotation,
    any_of,
    milestone,
    not_,
    requires_scope,
)
from shortlist.gating import matcher as matcher_module
from shortlist.gating.allowed import Allowed
from shortlist.gating.compiled import CompiledGate
from shortlist.gating.gatekeeper import Gatekeeper
from shortlist.gating.problem import catalog_problems
from shortlist.gating.quarantine import Quarantine
from shortlist.pattern import Pattern
from shortlist.retrieval.change import Change
from shortlist.retrieval.index import Index, rows_of
from shortlist.retrieval.names import Names

from .conftest import make_engine, small_catalog

SERVERS = ("mail", "Files", "ｔasks", None)
VERBS = ("search", "Delete_any", "ｓearch", "get/all")


def tools_of(editions: dict[int, int]) -> list[Tool]:
    """Tools of many spellings; the edition of some decides whether their id is one of their own."""
    return [
        Tool(
            f"{VERBS[number % 4]}_{number}_key",
            SERVERS[number // 2 % 4],
            f"Edition {edition}",
            annotations={"readOnlyHint": edition == 1, "tier": edition},
            id=f"own-{number}" if edition == 2 and number % 3 == 0 else None,
        )
        for number, edition in editions.items()
    ]


CATALOGS = st.dictionaries(st.integers(0, 20), st.integers(0, 2), max_size=14)
GLOBS = ("mail/*", "files/*", "search_*", "own-*", "*_1_key", "Files/[a-z]*", "[", "none*")
#: Rules of every kind; each state is met by some of them.
GATE, HOLDING = mixed_rules(Catalog(tools_of(dict.fromkeys(range(21), 0))))
OWN = Gate(
    [
        *GATE.rules,
        Rule(requires_scope("x"), tools="files/*", name="a"),
        Rule(not_(requires_scope("x")), tools="Files/search_*", name="b"),
        Rule(annotation("readOnlyHint", True), server="TASKS", name="c"),
        Rule(any_of(annotation("tier", 2), milestone("m")), tools="own-*", name="d"),
        Rule(after("*_2_key"), tools="*_3_key", name="e"),
        Rule(after("*_3_key"), tools="*_2_key", name="f"),
        Rule(not_(after("SEARCH_*")), tools="get/*", name="g"),
        Rule(provides=Provides(milestones=("m",), scopes=("x",)), tools="search_*", name="h"),
        Rule(provides=Provides(facts=("f",)), server="files", name="i"),
        Rule(after("search_4_*"), annotations={"tier": 1}, name="j"),
    ]
)
STATES = st.builds(
    State,
    scopes=st.sets(st.sampled_from(["x", "scope 0", "scope 2"])),
    called=st.lists(
        st.sampled_from([tool.id for tool in tools_of(dict.fromkeys(range(0, 21, 2), 0))]),
        max_size=3,
    ).map(tuple),
    milestones=st.sets(st.sampled_from(["m", "milestone 3"])),
)


def said(compiled: CompiledGate) -> dict[str, Any]:
    """Everything a gate decides from that does not depend on the state."""
    patterns = {pattern for condition, _ in compiled.nodes for pattern in condition.patterns()} | {
        Pattern("Search_*")
    }
    return {
        "nodes": compiled.nodes,
        "demands": [(rule, place, mask.tolist()) for rule, place, mask in compiled.demands],
        "idle": compiled.idle,
        "providers": {key: mask.tolist() for key, mask in compiled.providers.items()},
        "fixed": [(place, [one.tolist() for one in truth]) for place, truth in compiled.fixed],
        "meant": {
            (pattern, folded): compiled.meant(pattern, folded=folded).tolist()
            for pattern in patterns
            for folded in (False, True)
        },
        "shared": {
            one: compiled.meant(one) is compiled.meant(one, folded=True) for one in patterns
        },
        "granted": {glob: compiled.granted(glob).tolist() for glob in GLOBS},
        "problems": catalog_problems(compiled),
    }


def decided(index: Index, compiled: CompiledGate, state: State, allowed: Any) -> dict[str, Any]:
    """What a request is answered."""
    limits = Allowed.of(allowed, compiled)
    keeper = Gatekeeper(compiled.gate)
    keeper._compiled[index] = compiled, ()
    admission = keeper.admission(index, Quarantine(), state, allowed)
    truths = [
        tuple(one if isinstance(one, bool) else one.tolist() for one in truth)
        for truth in compiled.holding(state).truths
    ]
    return {
        "truths": truths,
        "mask": None if admission.mask is None else admission.mask.tolist(),
        "refusals": [one.to_dict() for one in admission.refusals],
        "unmatched": limits.unmatched,
        "unknown": admission.unknown("search_0").nearest,
        "after": [compiled.after_call(state, tool.id) for tool in index.tools],
    }


@settings(deadline=None, max_examples=150)
@given(
    steps=st.lists(CATALOGS, min_size=2, max_size=5),
    states=st.lists(STATES, min_size=5, max_size=5),
    globs=st.lists(st.lists(st.sampled_from(GLOBS), max_size=4), min_size=5, max_size=5),
    asked=st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_any_series_of_changes(
    steps: list[dict[int, int]],
    states: list[State],
    globs: list[list[str]],
    asked: list[bool],
) -> None:
    tools = rows_of(Catalog(tools_of(steps[0])))
    names = Names.of(tools)
    compiled = CompiledGate(OWN, tools, names)
    for step, state, allowed, request in zip(steps[1:], states, globs, asked, strict=False):
        catalog = Catalog(tools_of(step))
        change = Change.between(tools, names.rows, catalog)
        names, tools = names.patched(change), change.tools
        compiled = compiled.updated(change, names)
        if not request:
            # Versions that nothing was asked of have nothing that was made for requests.
            continue
        fresh = CompiledGate(OWN, tools, names)
        assert said(compiled) == said(fresh)
        index = Index(catalog, tools, names)
        for given_state in (state, HOLDING):
            for limit in (None, allowed):
                one, other = (
                    decided(index, gate, given_state, limit) for gate in (compiled, fresh)
                )
                assert one == other


def test_an_update_looks_at_the_tools_that_changed_only(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [
        Rule(after("search_*"), tools="merge_*"),
        Rule(annotation("readOnlyHint", True), server="slack"),
    ]
    engine = make_engine(*rules)
    before = engine._gatekeeper.over(engine._index)
    tables: list[int] = []
    placed = matcher_module._Texts._placed

    def counted(texts: Any, kind: str, tools: Any, rows: Any) -> Any:
        tables.append(len(rows))
        return placed(texts, kind, tools, rows)

    monkeypatch.setattr(matcher_module._Texts, "_placed", counted)
    engine.update([*small_catalog(), Tool("merge_all", "github")])
    after_update = engine._gatekeeper.over(engine._index)
    assert after_update is not before
    assert set(tables) <= {0, 1}
    assert not engine.view().permits("github/merge_all")


def test_a_version_does_not_keep_the_last_one() -> None:
    engine = make_engine(Rule(after("search_*"), tools="merge_*"))
    engine.update([*small_catalog(), Tool("merge_all", "github")])
    assert engine._gatekeeper.over(engine._index)._matcher._last is None
