"""The rows of tools by their ids and names, computed anew or from those of an earlier version."""

from __future__ import annotations

import random

import numpy as np

from shortlist import Tool
from shortlist.retrieval.id_lookup import Names

SERVERS = ("disk", "Disk", "git")
WORDS = ("list_files", "listFiles", "List_Files", "search", "disk/search", "git")


def test_names_of_a_changed_version_are_those_computed_anew() -> None:
    draw = random.Random(0)
    tools = {tool.id: tool for server in SERVERS for tool in (Tool(word, server) for word in WORDS)}
    earlier: tuple[Tool, ...] = ()
    names = Names.of(earlier)
    for _ in range(200):
        for tool_id in draw.sample(sorted(tools), 3):
            tool = tools[tool_id]
            # An id stays where a definition gets another name.
            row = tool.to_dict() | {"name": draw.choice(WORDS), "description": str(draw.random())}
            tools[tool_id] = Tool.from_dict(row)
        shown = tuple(tools[tool_id] for tool_id in sorted(draw.sample(sorted(tools), 12)))
        present = np.array([draw.random() < 0.8 for _ in shown]) if draw.random() < 0.5 else None
        names = names.changed(earlier, shown, present)
        expected = Names.of(shown, present)
        assert names.rows == expected.rows
        for table in ("by_name", "by_folded_name", "by_spoken_name", "by_name_terms"):
            changed, anew = getattr(names, table), getattr(expected, table)
            assert {key: set(ids) for key, ids in changed.items()} == {
                key: set(ids) for key, ids in anew.items()
            }
        for text in (*WORDS, *tools, "disk list files", "LIST FILES", "no such"):
            assert names.rows_named(text) == expected.rows_named(text)
        earlier = shown
