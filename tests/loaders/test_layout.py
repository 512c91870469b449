from __future__ import annotations

from shortlist.loaders.levels import Detail
from shortlist.loaders.prompt_layout import Layout, ToolEntry


def entry(tool_id: str, tokens: int = 5) -> ToolEntry:
    return ToolEntry(tool_id, Detail.FULL, f"{{{tool_id}}}", None, tokens)


def test_promotions_are_appended_in_order():
    layout = (
        Layout("Be brief.", "1 tool.\n").promote([entry("a"), entry("b")]).promote([entry("c")])
    )
    assert [[one.tool_id for one in batch] for batch in layout.batches] == [["a", "b"], ["c"]]
    assert [one.tool_id for one in layout.promoted] == ["a", "b", "c"]
    assert layout.tokens == 15
    assert layout.prefix_text == "Be brief.\n\n1 tool.\n"
    assert layout.promote([]) is layout


def test_a_rebuilt_suffix_leaves_the_prefix():
    layout = Layout("x", "y", (entry("own"),)).promote([entry("a"), entry("b")])
    rebuilt = layout.rebuild([entry("b")])
    assert (rebuilt.operator, rebuilt.pool, rebuilt.prefix_tools) == ("x", "y", layout.prefix_tools)
    assert rebuilt.batches == ((entry("b"),),)
    assert layout.rebuild([]).batches == ()
