"""What the model has seen of tools: in full, as one line, never."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist import Tool
from shortlist.errors import RequestError
from shortlist.loaders.history import SeenLevel, ToolHistory


def tool(name: str, version: int = 0) -> Tool:
    return Tool(name, "s", f"version {version}")


def test_an_offered_tool_was_seen_in_full_and_a_shown_one_as_a_line_until_the_next_turn() -> None:
    history = ToolHistory()
    history.activate([tool("a")], 1)
    history.note_shown(tool("a"), SeenLevel.LINE)
    history.note_shown(tool("b"), SeenLevel.LINE)
    assert [history.record_of(f"s/{name}").seen for name in "abc"] == [
        SeenLevel.FULL,
        SeenLevel.LINE,
        SeenLevel.NEVER,
    ]
    history.begin_turn()
    assert [history.record_of(f"s/{name}").seen for name in "abc"] == [
        SeenLevel.FULL,
        SeenLevel.NEVER,
        SeenLevel.NEVER,
    ]
    assert history.record_of("s/a").fingerprint == tool("a").fingerprint


def test_a_tool_that_is_no_longer_active_was_seen_if_a_prompt_of_this_turn_showed_it() -> None:
    history = ToolHistory()
    history.activate([tool("a"), tool("b")], 1)
    history.note_shown(tool("a"), SeenLevel.LINE)
    history.deactivate(["s/a", "s/b"])
    assert history.record_of("s/a").seen is SeenLevel.LINE
    assert history.record_of("s/b").seen is SeenLevel.NEVER


def test_a_prompt_between_two_steps_does_not_show_the_new_definition_of_an_active_tool() -> None:
    history = ToolHistory()
    history.activate([tool("a")], 1)
    history.note_shown(tool("a", 2), SeenLevel.FULL)
    assert history.record_of("s/a").fingerprint == tool("a").fingerprint
    history.note_resent([tool("a", 2)])
    assert history.record_of("s/a").fingerprint == tool("a", 2).fingerprint


def test_a_line_does_not_undo_a_definition_unless_it_is_of_another_one() -> None:
    history = ToolHistory()
    history.note_shown(tool("a"), SeenLevel.FULL)
    history.note_shown(tool("a"), SeenLevel.LINE)
    assert history.record_of("s/a").seen is SeenLevel.FULL
    history.note_shown(tool("a", 2), SeenLevel.LINE)
    assert history.record_of("s/a").seen is SeenLevel.LINE


def test_what_only_the_prefix_shows_is_not_saved() -> None:
    history = ToolHistory()
    for name in "abc":
        history.note_shown(tool(name), SeenLevel.LINE)
    history.activate([tool("a")], 1)
    saved = history.to_dict(without=["s/a", "s/b"])
    assert [form["id"] for form in saved["tools"]] == ["s/c", "s/a"]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["activate", "pin", "deactivate", "show", "offer", "renew", "begin"]),
        st.lists(st.sampled_from("abcde"), max_size=3, unique=True),
        st.integers(0, 2),
    ),
    max_size=20,
)


@settings(max_examples=200, deadline=None)
@given(steps=STEPS)
def test_any_history_is_the_same_after_saving(steps: list[tuple[str, list[str], int]]) -> None:
    history = ToolHistory()
    for turn, (step, names, version) in enumerate(steps):
        tools = [tool(name, version) for name in names]
        ids = [one.id for one in tools]
        before = history.active
        if step in ("activate", "pin"):
            history.activate(tools, turn, pinned=step == "pin")
            assert history.active[: len(before)] == before
        elif step == "deactivate":
            history.deactivate(ids)
        elif step == "show":
            for one in tools:
                history.note_shown(one, SeenLevel(1 + version % 2))
        elif step == "offer":
            history.note_offered(ids, ids[:1])
            assert all(
                history.record_of(f"s/{name}").offered == (name in names) for name in "abcde"
            )
        elif step == "renew":
            history.note_resent(one for one in tools if one.id in before)
        else:
            history.begin_turn()
        for name in "abcde":
            record = history.record_of(f"s/{name}")
            assert bool(record.fingerprint) == (record.seen is not SeenLevel.NEVER)
        again = ToolHistory.from_dict(json.loads(json.dumps(history.to_dict())))
        assert again.to_dict() == history.to_dict()
        assert again.active == history.active


@pytest.mark.parametrize(
    "tools",
    [
        3,
        [3],
        [{}],
        [{"id": "a", "used": "x"}],
        [{"id": "a", "shown": "TWICE"}],
        [{"id": "a", "active": 1}],
        [{"id": "a", "fingerprint": 3}],
        [{"id": "a", "more": True}],
    ],
)
def test_a_damaged_form_is_refused(tools: Any) -> None:
    with pytest.raises(RequestError, match="damaged"):
        ToolHistory.from_dict(ToolHistory().to_dict() | {"tools": tools})
