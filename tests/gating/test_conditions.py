"""Conditions: what each asks, held against the plainest reading of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist import Catalog, Tool, registry
from shortlist.errors import ConfigError
from shortlist.gating import (
    Condition,
    Gate,
    Rule,
    State,
    after,
    all_of,
    annotation,
    any_of,
    fact,
    milestone,
    not_,
    predicate,
    requires_scope,
)
from shortlist.gating.catalog_gate import CatalogGate
from shortlist.gating.condition import (
    MAX_NESTING,
    After,
    AllOf,
    Annotation,
    AnyOf,
    Fact,
    Milestone,
    Not,
    Predicate,
    Scope,
    parse_condition,
)
from shortlist.retrieval.id_lookup import Names

from .conftest import small_catalog

TOOLS = Catalog(small_catalog()).in_id_order
NAMES = Names.of(TOOLS)
ROWS = NAMES.rows


def yes(state: State) -> bool:
    return "github/search_issues" in state.called


def boom(state: State) -> bool:
    raise ValueError("out of order")


FUNCTIONS = {"yes": yes, "boom": boom}


@pytest.fixture(autouse=True, scope="module")
def functions_by_name() -> Iterator[None]:
    """The functions, as entry points of a package would name them."""
    load = registry.load
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "load", lambda kind, name: FUNCTIONS.get(name) or load(kind, name))
        yield


SIMPLE = st.one_of(
    st.sampled_from("ab").map(requires_scope),
    st.sampled_from(["search_*", "github/*", "github/get_pull_request", "gone/*", "x_*"]).map(
        after
    ),
    st.sampled_from("mn").map(milestone),
    st.builds(fact, st.sampled_from("fg"), st.sampled_from([None, 1, True, "x", False])),
    st.builds(
        annotation,
        st.sampled_from(["readOnlyHint", "destructiveHint", "openWorldHint"]),
        st.booleans(),
    ),
    st.sampled_from([predicate(yes), predicate(boom)]),
)
CONDITIONS = st.recursive(
    SIMPLE,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: all_of(*parts))
        | st.lists(inner, min_size=1, max_size=3).map(lambda parts: any_of(*parts))
        | inner.map(not_)
    ),
    max_leaves=8,
)
STATES = st.builds(
    State,
    st.frozensets(st.sampled_from("ab")),
    st.lists(st.sampled_from([*ROWS, "gone/tool", "gone/x_y"]), max_size=3).map(tuple),
    st.frozensets(st.sampled_from("mn")),
    st.dictionaries(st.sampled_from("fg"), st.sampled_from([1, True, "x", False, 0])),
)


def plainly(condition: Condition, state: State, tool: Tool) -> bool | None:
    """Whether it holds, one tool and one condition at a time; None where a predicate raises."""
    match condition:
        case AllOf():
            parts = [plainly(part, state, tool) for part in condition.parts]
            return False if False in parts else None if None in parts else True
        case AnyOf():
            parts = [plainly(part, state, tool) for part in condition.parts]
            return True if True in parts else None if None in parts else False
        case Not():
            inner = plainly(condition.part, state, tool)
            return None if inner is None else not inner
        case Scope():
            return condition.name in state.scopes
        case Milestone():
            return condition.name in state.milestones
        case After():
            text = condition.pattern.text
            names = [(ROWS.get(one), one) for one in state.called]
            return any(
                fnmatchcase(called if "/" in text else called.rpartition("/")[2], text)
                or (row is not None and "/" in text and fnmatchcase(qualified(TOOLS[row]), text))
                or (row is not None and "/" not in text and fnmatchcase(TOOLS[row].name, text))
                for row, called in names
            )
        case Fact():
            known = state.facts.get(condition.name)
            if condition.equals is None:
                return known is not None and known is not False
            return known is not None and json.dumps(known) == json.dumps(condition.equals)
        case Annotation():
            said = tool.annotations or {}
            read_only = said.get("readOnlyHint", False)
            default = {
                "readOnlyHint": False,
                "destructiveHint": not read_only,
                "openWorldHint": True,
            }
            return said.get(condition.name, default[condition.name]) is condition.value
        case Predicate():
            return None if condition.name == "boom" else yes(state)
    raise TypeError(condition)


def qualified(tool: Tool) -> str:
    return f"{tool.server}/{tool.name}"


@settings(deadline=None, max_examples=300)
@given(st.lists(CONDITIONS, min_size=1, max_size=3), STATES)
def test_the_mask_is_what_each_condition_says_of_each_tool(
    conditions: list[Condition], state: State
) -> None:
    compiled = CatalogGate(Gate([Rule(one) for one in conditions]), TOOLS, NAMES)
    mask = compiled.permitted_rows(compiled.evaluate(state))
    expected = [
        all(plainly(condition, state, tool) is True for condition in conditions) for tool in TOOLS
    ]
    assert (mask.tolist() if mask is not None else [True] * len(TOOLS)) == expected


@settings(deadline=None)
@given(CONDITIONS)
def test_a_condition_is_the_same_after_json(condition: Condition) -> None:
    form = json.loads(json.dumps(condition.to_dict()))
    same = parse_condition(form)
    assert same == condition
    assert hash(same) == hash(condition)
    assert condition.describe()


def test_a_condition_shared_by_rules_is_looked_at_once() -> None:
    looks: list[State] = []
    counting = predicate(lambda state: not looks.append(state), "counting")
    rules = [Rule(all_of(counting, requires_scope("a")), tools=f"*{n}*") for n in "abcdef"]
    rules += [Rule(any_of(counting, milestone("m")), server=n) for n in ("github", "slack")]
    compiled = CatalogGate(Gate(rules), TOOLS, NAMES)
    compiled.permitted_rows(compiled.evaluate(State()))
    assert len(looks) == 1


def test_a_predicate_of_rules_that_concern_no_tool_is_not_asked() -> None:
    compiled = CatalogGate(Gate([Rule(predicate(boom), tools="nothing")]), TOOLS, NAMES)
    evaluation = compiled.evaluate(State())
    compiled.permitted_rows(evaluation)
    assert evaluation.failed_conditions == set()


@pytest.mark.parametrize(
    ("answer", "text"),
    [(1, "answered int"), (None, "answered NoneType"), ("yes", "answered str")],
)
def test_a_predicate_has_to_say_true(
    answer: Any, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    for condition in (predicate(lambda _: answer, "odd"), not_(predicate(lambda _: answer, "odd"))):
        compiled = CatalogGate(Gate([Rule(condition)]), TOOLS, NAMES)
        found = compiled.evaluate(State())
        mask = compiled.permitted_rows(found)
        assert mask is not None
        assert not mask.any()
        assert len(found.failed_conditions) == 1
        assert text in caplog.text


def test_an_asynchronous_predicate_permits_nothing() -> None:
    async def later(state: State) -> bool:
        return True

    compiled = CatalogGate(Gate([Rule(predicate(later))]), TOOLS, NAMES)
    with pytest.warns(RuntimeWarning, match="never awaited"):
        mask = compiled.permitted_rows(compiled.evaluate(State()))
    assert mask is not None
    assert not mask.any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: requires_scope(), "all_of: holds no condition"),
        (lambda: requires_scope("a", ""), "scope: '' is no name"),
        (lambda: after(""), "'' is no pattern"),
        (lambda: after("x" * 601), "is no pattern"),
        (lambda: after(3), "3 is no pattern"),  # type: ignore[arg-type]
        (lambda: milestone(" "), "milestone: ' ' is no name"),
        (lambda: fact("f", [1]), "fact 'f': equals"),  # type: ignore[arg-type]
        (lambda: fact("f", float("inf")), "fact 'f': equals"),
        (lambda: annotation("", True), "annotation: '' is no name"),
        (lambda: annotation("x", None), "annotation 'x': value"),  # type: ignore[arg-type]
        (lambda: predicate("x", "n"), "predicate 'n': 'x' is no function"),  # type: ignore[arg-type]
        (lambda: all_of(), "all_of: holds no condition"),
        (lambda: any_of(), "any_of: holds no condition"),
        (lambda: any_of("x"), "any_of: 'x' is no condition"),  # type: ignore[arg-type]
        (lambda: not_("x"), "not_: 'x' is no condition"),  # type: ignore[arg-type]
        (lambda: all_of(milestone("a"), "x"), "all_of: 'x' is no condition"),  # type: ignore[arg-type]
    ],
)
def test_a_condition_that_cannot_be(make: Callable[[], Condition], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({}, "is no condition, which is a table of one key, one of: scope, after"),
        ({"scope": "a", "after": "b"}, "is no condition"),
        ("scope", "is no condition"),
        ({"aftr": "x"}, "no condition 'aftr'; use one of: scope, after"),
        ({"scope": []}, "all_of: holds no condition"),
        ({"all_of": {}}, "all_of: a list of conditions"),
        ({"any_of": []}, "any_of: a list of conditions"),
        ({"fact": {"name": "f", "equal": 1}}, "fact: a name, or a table of name and equals"),
        ({"fact": {"name": "f", "equals": None}}, "not null"),
        ({"annotation": 3}, "annotation: a name, or a table of name and value"),
        ({"predicate": 3}, "predicate: a name"),
        ({"predicate": "nowhere"}, "no predicate backend 'nowhere'"),
        ({"not": {"not": 1}}, "1 is no condition"),
    ],
)
def test_a_form_that_cannot_be(form: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_condition(form)


def test_nesting_is_bounded() -> None:
    form: Any = {"scope": "a"}
    for _ in range(MAX_NESTING):
        form = {"not": form}
    parse_condition(form)
    with pytest.raises(ConfigError, match=f"deeper than {MAX_NESTING}"):
        parse_condition({"not": form})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["scope", "after", "milestone", "fact", "annotation", "predicate", "all_of", "not"]
            )
            | st.text(max_size=3),
            inner,
            max_size=2,
        )
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=300)
@given(JSON)
def test_any_json_is_a_condition_or_an_error(form: Any) -> None:
    try:
        condition = parse_condition(form)
    except ConfigError:
        return
    assert parse_condition(condition.to_dict()) == condition
