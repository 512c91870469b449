"""Wrong arguments seen to raise errors that were not ours; each names what was wrong now."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from shortlist import Engine, Rule, ShortlistError, State, Tool
from shortlist.errors import RequestError
from shortlist.evals.learning import learn
from shortlist.gating import requires_scope

TOOLS = [Tool(f"do_{i}", "s", f"does thing {i}") for i in range(12)]


@pytest.fixture(scope="module")
def lexical() -> Engine:
    return Engine.from_tools(TOOLS, tiers=["lexical"])


CALLS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "infinite budget": (lambda e: e.search("do", budget_ms=math.inf), "budget_ms"),
    "budget that is no number": (lambda e: e.search("do", budget_ms=math.nan), "budget_ms"),
    "budget beyond floats": (lambda e: e.search("do", budget_ms=10**400), "budget_ms"),
    "save to a null": (lambda e: e.save("\0"), "no folder"),
    "save to a number": (lambda e: e.save(3), "no folder"),
    "save to half a pair": (lambda e: e.save("\ud800"), "no folder"),
    "open a null": (lambda _: Engine.open("\0"), "no folder"),
    "learn a number": (lambda e: learn(e, [3]), r"events\[0\]: a UsageEvent"),
    "learn nothing": (lambda e: learn(e, None), "events: a list"),
    "details of a number": (lambda e: e.view().details(3), "names: a list"),
    "update to nothing": (lambda e: e.replace(None), "tools: a list"),
    "update a server to nothing": (
        lambda e: e.replace_server("s", None),
        "tools: a list",
    ),
    "gate of numbers": (lambda _: Engine.from_tools(TOOLS, gate=[3]), "gate"),
    "config of a number": (lambda _: Engine.from_tools(TOOLS, 3), "config: a Config"),  # type: ignore[arg-type]
    "no tools": (lambda _: Engine.from_tools(3), "tools: a list"),  # type: ignore[arg-type]
    "provider of a list": (lambda e: e.session([]), "provider"),
    "id of a set": (lambda e: e.session(session_id={1}), "session_id"),
    "events in a null": (lambda e: e.session(events="\0"), "cannot be opened"),
    "answer of a number": (lambda e: e.session().answered(3), "text"),
    "allowed of a number": (lambda e: setattr(e.session(), "allowed", 3), "allowed"),
    "state of a number": (lambda e: e.after_call(3, "x"), "state"),
    "many of a number": (lambda e: e.view().search_many(3), "queries"),
    "damaged prompt": (
        lambda e: e.resume(e.session().save() | {"read": {}}, state=State()),
        "damaged",
    ),
    "catalog by name": (lambda e: e.catalog["x"], "position"),
    "catalog without a list": (lambda e: e.catalog.add(3), "tools: a list"),
    "removal of a text": (lambda e: e.catalog.remove("x"), "ids: a list"),
    "title of a list": (lambda _: Tool("x", title=[]), "title: must be text"),  # type: ignore[arg-type]
    "limited to a text": (lambda e: e.view().limited_to("s/do_1"), "tools: a list of ids, not str"),
    "limited to a number": (lambda e: e.view().limited_to(7), "tools: a list of ids"),
    "limited to too few": (
        lambda e: e.view().limited_to(np.ones(3, bool)),
        r"tools: .* \(12,\)",
    ),
    "recheck of a text": (lambda e: e.view().recheck("s/do_1"), "verdict: the result of `check`"),
    "recheck in a session": (lambda e: e.session().recheck(None), "verdict: the result of `check`"),
    "among a text": (lambda e: e.view().search_among("x", e.search("do")), "tools: a list"),
    "among of a text": (lambda e: e.view().search_among([], "do"), "selection: the result of"),
    "scopes in a list": (lambda _: State().granted(["a"]), r"state.scopes: \['a'\] is no text"),  # type: ignore[arg-type]
    "empty milestone": (lambda _: State().reached(""), "state.milestones: '' is no text"),
    "continuing a saved one": (lambda _: State().continuing({}), "before: a State"),  # type: ignore[arg-type]
    "id of a call": (
        lambda e: e.session(provider="openai", tools="list").search("do", 7),
        "call_id: the id",
    ),
    "rule that provides a table": (
        lambda _: Rule(tools="x", provides={"scopes": ["a"]}),  # type: ignore[arg-type]
        r"provides: Provides\(scopes=..., milestones=...\), not dict",
    ),
    "annotations in a list": (
        lambda _: Rule(requires_scope("a"), annotations=["readOnlyHint"]),  # type: ignore[arg-type]
        "annotations: a mapping",
    ),
    "name of a rule": (lambda _: Rule(requires_scope("a"), name=7), "name: a text, not int"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("kind", CALLS)
def test_a_wrong_argument_is_refused_by_name(lexical: Engine, kind: str) -> None:
    call, told = CALLS[kind]
    with pytest.raises(ShortlistError, match=told):
        call(lexical)


def test_what_is_no_id_is_unknown(lexical: Engine) -> None:
    view = lexical.view()
    assert [type(one).__name__ for one in view.details([3, [], None])] == ["UnknownToolError"] * 3  # type: ignore[list-item]
    assert view.check(3).status == "unknown"  # type: ignore[arg-type]
    assert [] not in lexical.catalog
    assert lexical.search("thing", k=10**30)


def test_functions_are_no_tools_of_langchain() -> None:
    pytest.importorskip("langchain")
    from shortlist.integrations.langchain import ShortlistMiddleware

    def look_up(city: str) -> str:
        """Look up a city."""
        return city

    with pytest.raises(RequestError, match=r"tools\[0\]: a LangChain tool, not function"):
        ShortlistMiddleware([look_up])  # type: ignore[list-item]
