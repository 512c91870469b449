"""State: immutable, small, and the same after a journey through JSON."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.errors import RequestError
from shortlist.gating import State

NAMES = st.text(min_size=1, max_size=8)
SCALARS = (
    st.text() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
STATES = st.builds(
    State,
    st.frozensets(NAMES),
    st.lists(NAMES).map(tuple),
    st.frozensets(NAMES),
    st.dictionaries(NAMES, SCALARS),
)


@given(STATES)
def test_it_is_the_same_after_json_pickle_and_copy(state: State) -> None:
    same = State.from_dict(json.loads(json.dumps(state.to_dict())))
    for other in (same, pickle.loads(pickle.dumps(state)), copy.deepcopy(state)):
        assert other == state
        assert hash(other) == hash(state)
        assert other.to_dict() == state.to_dict()


def test_a_change_is_a_new_state() -> None:
    before = State()
    after = before.granted("a", "b").after_call("x/y").reached("m").knowing(env="prod", n=3)
    assert before == State()
    assert after.scopes == {"a", "b"}
    assert after.called == ("x/y",)
    assert after.milestones == {"m"}
    assert after.facts == {"env": "prod", "n": 3}
    with pytest.raises(AttributeError):
        after.scopes = frozenset()  # type: ignore[misc]
    with pytest.raises(TypeError):
        after.facts["env"] = "dev"  # type: ignore[index]


def test_what_was_given_may_change_afterwards() -> None:
    facts: dict[str, Any] = {"a": 1}
    state = State(facts=facts)
    facts["b"] = 2
    assert state.facts == {"a": 1}


def test_a_tool_is_called_once_however_often() -> None:
    state = State().after_call("a").after_call("b").after_call("a")
    assert state.called == ("a", "b")
    assert State(called=("b", "a", "b")).called == ("b", "a")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"scopes": "admin"}, r"state\.scopes: a list of texts"),
        ({"called": [3]}, r"state\.called: 3 is no text"),
        ({"milestones": [""]}, r"state\.milestones"),
        ({"milestones": 7}, r"state\.milestones"),
        ({"scopes": {"a": 1}}, r"state\.scopes"),
        ({"facts": {"a": [1]}}, r"state\.facts\.a: a text, a finite number"),
        ({"facts": {"a": None}}, r"state\.facts\.a"),
        ({"facts": {"a": float("nan")}}, r"state\.facts\.a"),
        ({"facts": {1: "a"}}, r"state\.facts: 1 is no name"),
        ({"facts": [1]}, r"state\.facts: a mapping"),
        ({"scope": []}, "no scope; use one of: scopes, called, milestones, facts"),
        (["scopes"], "state: a mapping"),
    ],
)
def test_bad_input_is_refused_at_the_door(values: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        State.from_dict(values)
