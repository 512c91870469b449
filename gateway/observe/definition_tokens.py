"""Counts the tokens of tool definitions and results."""

from __future__ import annotations

import json
from collections.abc import Iterable
from threading import Lock

import mcp.types as types

from ...catalog import Tool
from ...loaders.counting import bundled_counter
from ...loaders.levels import definition_text


class DefinitionTokens:
    """Counts the tokens of definitions, with a cache. Thread-safe.

    A definition is counted as the compact JSON of its name, description and input schema.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        self._lock = Lock()

    def count(self, tools: Iterable[Tool]) -> dict[str, int]:
        """Tool id to the tokens of its definition. Only counts of these tools stay in the cache."""
        with self._lock:
            counter, counts, by_id = bundled_counter(), {}, {}
            for tool in tools:
                key = tool.id, tool.fingerprint
                count = self._counts.get(key)
                if count is None:
                    text = definition_text(tool.name, tool.description, tool.input_schema)
                    count = counter.count(text)
                counts[key] = by_id[tool.id] = count
            self._counts = counts
            return by_id


def shown_tokens(tools: Iterable[types.Tool]) -> int:
    """Tokens of definitions in the client's form: name, description and input schema."""
    return sum(
        bundled_counter().count(
            definition_text(tool.name, tool.description or "", tool.input_schema)
        )
        for tool in tools
    )


def answer_tokens(result: types.CallToolResult) -> int:
    """Tokens of an answer that reach the model.

    Some clients pass the text on, others the structured content. The longer one is counted.
    """
    count = bundled_counter().count
    text = sum(count(part.text) for part in result.content if isinstance(part, types.TextContent))
    if result.structured_content is None:
        return text
    return max(text, count(json.dumps(result.structured_content, ensure_ascii=False)))


def json_chars(value: object) -> int:
    """Characters of a value as JSON, escapes included."""
    return len(json.dumps(value, ensure_ascii=False, default=str))
