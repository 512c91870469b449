from __future__ import annotations

from typing import Any

import pytest

from shortlist import Tool
from shortlist.errors import RequestError
from shortlist.session.active import Active


def tool(name: str) -> Tool:
    return Tool(name, "s", "does " + name)


def filled(*names: str, turns: tuple[int, ...] = ()) -> Active:
    active = Active()
    for at, name in enumerate(names):
        active.append([tool(name)], turns[at] if turns else at)
    return active


def test_appending_again_moves_nothing() -> None:
    active = filled("a", "b", "c")
    assert active.append([tool("d"), tool("a")], 9) == ("s/d",)
    assert active.ids == ("s/a", "s/b", "s/c", "s/d")


def test_nothing_leaves_while_the_budget_holds() -> None:
    active = filled("a", "b", "c")
    left, fitting = active.make_room([tool("d")], 4, 9)
    assert (left, fitting) == ((), (tool("d"),))


def test_the_longest_unused_leave_until_half_the_budget_is_free() -> None:
    active = filled(*"abcdef", turns=(5, 1, 2, 3, 4, 0))
    left, fitting = active.make_room([tool("g")], 6, 9)
    assert [one.tool_id for one in left] == ["s/f", "s/b", "s/c", "s/d"]
    assert active.ids == ("s/a", "s/e")
    assert fitting == (tool("g"),)


def test_pinned_wanted_and_lately_used_tools_stay() -> None:
    active = filled("a", "b", "c", "d", turns=(0, 0, 0, 5))
    active.append([tool("a")], 0, pinned=True)
    left, _ = active.make_room([tool("b"), tool("e")], 4, 5)
    assert [one.tool_id for one in left] == ["s/c"]


def test_where_nothing_can_leave_what_fits_is_taken_best_first() -> None:
    active = filled("a", "b", "c", turns=(5, 5, 5))
    left, fitting = active.make_room([tool("e"), tool("f")], 4, 5)
    assert (left, fitting) == ((), (tool("e"),))


@pytest.mark.parametrize("wrong", [[{}], [3], [{"id": "a", "fingerprint": "f", "used": "x"}]])
def test_a_damaged_form_is_refused(wrong: Any) -> None:
    with pytest.raises(RequestError, match="damaged"):
        Active.from_dict(wrong)
