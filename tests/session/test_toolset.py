"""Which tools a conversation keeps, and which leave to make room."""

from __future__ import annotations

from shortlist import Tool
from shortlist.loaders.history import ToolHistory
from shortlist.session.toolset import evictions, tools_that_fit


def tool(name: str) -> Tool:
    return Tool(name, "s", "does " + name)


def filled(*names: str, turns: tuple[int, ...] = ()) -> ToolHistory:
    history = ToolHistory()
    for at, name in enumerate(names):
        history.activate([tool(name)], turns[at] if turns else at)
    return history


def evicted(history: ToolHistory, wanted: list[Tool], most: int, since: int) -> list[str]:
    left = [one.tool_id for one in evictions(history, wanted, most, since)]
    history.deactivate(left)
    return left


def test_appending_again_moves_nothing() -> None:
    history = filled("a", "b", "c")
    assert history.activate([tool("d"), tool("a")], 9) == ("s/d",)
    assert history.active == ("s/a", "s/b", "s/c", "s/d")


def test_a_tool_that_comes_back_comes_last() -> None:
    history = filled("a", "b", "c")
    history.deactivate(["s/a"])
    assert history.activate([tool("a")], 9) == ("s/a",)
    assert history.active == ("s/b", "s/c", "s/a")


def test_nothing_leaves_while_the_budget_holds() -> None:
    history = filled("a", "b", "c")
    assert evicted(history, [tool("d")], 4, 9) == []
    assert tools_that_fit(history, [tool("d")], 4) == (tool("d"),)


def test_the_longest_unused_leave_until_half_the_budget_is_free() -> None:
    history = filled(*"abcdef", turns=(5, 1, 2, 3, 4, 0))
    assert evicted(history, [tool("g")], 6, 9) == ["s/f", "s/b", "s/c", "s/d"]
    assert history.active == ("s/a", "s/e")
    assert tools_that_fit(history, [tool("g")], 6) == (tool("g"),)


def test_pinned_wanted_and_lately_used_tools_stay() -> None:
    history = filled("a", "b", "c", "d", turns=(0, 0, 0, 5))
    history.activate([tool("a")], 0, pinned=True)
    assert evicted(history, [tool("b"), tool("e")], 4, 5) == ["s/c"]


def test_where_nothing_can_leave_what_fits_is_taken_best_first() -> None:
    history = filled("a", "b", "c", turns=(5, 5, 5))
    assert evicted(history, [tool("e"), tool("f")], 4, 5) == []
    assert tools_that_fit(history, [tool("e"), tool("f")], 4) == (tool("e"),)
    assert tools_that_fit(history, [tool("e"), tool("b"), tool("f")], 4) == (tool("e"), tool("b"))
