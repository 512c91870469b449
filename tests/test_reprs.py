"""What the objects of the library say of themselves: one short line with what they hold."""

from __future__ import annotations

from typing import Any

import pytest

from shortlist import Config, Engine, Gate, Rule, State, Tool
from shortlist.gating import requires_scope
from shortlist.models import Encoder, Reranker

TOOLS = [Tool(f"list_{number}", "billing", "List the invoices " * 20) for number in range(9)]
RULE = Rule(requires_scope("admin"), tools="billing/list_8")


def objects() -> dict[str, Any]:
    engine = Engine.from_tools(TOOLS, tiers=["lexical"], gate=Gate([RULE]))
    session = engine.session(provider="openai", tools="list", session_id="42")
    turn = session.turn("list the invoices")
    selection = engine.search("list the invoices")
    return {
        "Engine(9 tools, 1 servers, tiers lexical)": engine,
        "View(8 of 9 tools permitted)": engine.view(),
        f"Session('42', 'openai', turn 1, {len(session.active)} active tools)": session,
        f"Turn({', '.join(turn.ids)})": turn,
        f"Hit('{selection[0].id}', rank 1, score {selection[0].score:.4g})": selection[0],
        "Selection('list the invoices', lexical, 8 hits: "
        f"{', '.join(selection.ids[:3])}, ...)": selection,
        "Verdict(passed: billing/list_0 may be called.)": session.check("billing/list_0", {}),
        "Verdict(denied: billing/list_8 may not be used now: needs the scope 'admin'. No call "
        "changes that: tell the user what is missing.)": session.check("billing/list_8", {}),
        "Config(k=5, tiers=['lexical'])": Config(k=5, tiers=["lexical"]),
        "Config()": Config(),
        "State(scopes=['a', 'b'], facts={'plan': 'free'})": State(
            scopes={"b", "a"}, facts={"plan": "free"}
        ),
        "State()": State(),
        "Encoder('mine-1', dim=3)": Encoder.of(len, dim=3, name="mine-1"),
        "Reranker('mine-1')": Reranker.of(max, name="mine-1"),
        f"Catalog(9 tools, 1 servers, {engine.catalog.fingerprint[:8]})": engine.catalog,
    }


@pytest.mark.parametrize(("expected", "value"), objects().items(), ids=str)
def test_an_object_says_what_it_is_in_one_line(expected: str, value: Any) -> None:
    assert repr(value) == expected


def test_names_that_a_model_made_up_stay_short_and_in_one_line() -> None:
    engine = Engine.from_tools(TOOLS, tiers=["lexical"])
    text = repr(engine.view().check("x\n" * 5_000))
    assert len(text) < 250
    assert "\n" not in text
    assert "\n" not in repr(engine.search("a\nb\n" * 300))
