from __future__ import annotations

import shortlist.gateway.observe.definition_tokens as module
from shortlist import Tool
from shortlist.gateway.observe.definition_tokens import DefinitionTokens
from shortlist.loaders.levels import definition_text
from shortlist.models import TokenCounter


def test_a_definition_is_counted_once_for_as_long_as_it_stays_the_same(monkeypatch):
    counted: list[str] = []

    class Counting(TokenCounter):
        def count(self, text: str) -> int:
            counted.append(text)
            return super().count(text)

    monkeypatch.setattr(module, "bundled_counter", Counting)
    read, write = Tool("read", "a", "Read a file."), Tool("write", "a", "Write a file.")
    tokens = DefinitionTokens()
    first = tokens.count([read, write])
    expected = TokenCounter().count(definition_text("read", "Read a file.", read.input_schema))
    assert first["a/read"] == expected
    assert tokens.count([read, write]) == first
    assert len(counted) == 2
    tokens.count([read, Tool("write", "a", "Write a text into a file.")])
    assert len(counted) == 3
