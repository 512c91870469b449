"""A gate made from the last version's says what one compiled for all tools says."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist import Catalog, Tool
from shortlist.evals.bench.decision import mixed_rules
from shortlist.gating import Gate, Rule, annotation, requires_scope
from shortlist.gating.compiled import CompiledGate
from shortlist.gating.patched import PatchedMatcher
from shortlist.gating.problem import catalog_problems
from shortlist.retrieval.change import Change
from shortlist.retrieval.names import Names

SERVERS = ("mail", "files", "tasks")


def tools_of(editions: dict[int, int]) -> list[Tool]:
    return [
        Tool(
            f"{('search', 'delete_any')[number % 2]}_{number}_key",
            SERVERS[number % 3],
            f"Edition {edition}",
            annotations={"readOnlyHint": bool(edition)},
        )
        for number, edition in editions.items()
    ]


CATALOGS = st.dictionaries(st.integers(0, 20), st.integers(0, 1), max_size=14)
#: Rules of every kind; each state is met by some of them.
GATE, STATE = mixed_rules(Catalog(tools_of(dict.fromkeys(range(21), 0))))
OWN = Gate(
    [
        *GATE.rules,
        Rule(requires_scope("x"), tools="files/*"),
        Rule(annotation("readOnlyHint", True), server="tasks"),
    ]
)


@settings(deadline=None, max_examples=40)
@given(steps=st.lists(CATALOGS, min_size=2, max_size=5))
def test_any_series_of_changes(steps: list[dict[int, int]]) -> None:
    tools = tuple(sorted(tools_of(steps[0]), key=lambda tool: tool.id))
    names = Names.of(tools)
    compiled = CompiledGate(OWN, tools, names.rows)
    for step in steps[1:]:
        change = Change.between(tools, names.rows, Catalog(tools_of(step)))
        names, tools = names.patched(change), change.tools
        compiled = CompiledGate(OWN, tools, names.rows, PatchedMatcher(compiled, change))
        fresh = CompiledGate(OWN, tools, names.rows)
        masks = [[mask.tolist() for _, mask in one.concerned] for one in (compiled, fresh)]
        assert masks[0] == masks[1]
        assert compiled.nodes == fresh.nodes
        for kind in ("meant", "providers"):
            one, other = getattr(compiled, kind), getattr(fresh, kind)
            assert {key: mask.tolist() for key, mask in one.items()} == {
                key: mask.tolist() for key, mask in other.items()
            }
        admitted = [one.admitted(one.holding(STATE).truths) for one in (compiled, fresh)]
        assert (admitted[0] is None) == (admitted[1] is None)
        if admitted[0] is not None and admitted[1] is not None:
            assert admitted[0].tolist() == admitted[1].tolist()
        assert catalog_problems(compiled) == catalog_problems(fresh)
