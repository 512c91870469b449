"""Cuts a definition to a number of tokens, so that no server can make answers very long."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .schema import BRANCH_KEYS, NAMED_SCHEMA_KEYS
from .tool import Tool

_PROSE_KEYS = frozenset(
    ("description", "title", "examples", "example", "$comment", "$schema", "$id")
)
_LITERAL_KEYS = frozenset(("const", "enum", "default", "required"))
_KEPT_KEYS = frozenset(
    ("type", "format", "minimum", "maximum", "pattern", "$ref", "additionalProperties")
)
_PROPERTY_KEYS = ("properties", "patternProperties")
_DESCRIPTION_CHARS = (2_000, 500)
_MAX_CHARS = 100
# Levels of nesting and entries of each object and list, most generous first.
_DEPTHS_AND_WIDTHS = (
    (6, 64),
    (4, 64),
    (3, 48),
    (3, 24),
    (2, 48),
    (2, 24),
    (1, 48),
    (1, 16),
    (0, 16),
)
# No text has fewer tokens than a sixteenth of its characters that is worth counting.
_CHARS_A_TOKEN = 16


class ShortDefinition(NamedTuple):
    """A definition, perhaps shortened.

    Attributes:
        description: the description, perhaps cut.
        input_schema: the schema, perhaps without some parts.
        shortened: whether something was left out.
    """

    description: str
    input_schema: dict[str, Any]
    shortened: bool


def short_definition(tool: Tool, limit: int, count: Callable[[str], int]) -> ShortDefinition:
    """A tool's description and schema in at most `limit` tokens.

    Descriptions are left out first, then deep parts, then entries beyond a number. A cut schema
    accepts everything that the original accepts.

    Args:
        tool: the definition.
        limit: maximum tokens of both together, as JSON.
        count: counts the tokens of a text.
    """
    schema = tool.input_schema

    def fits(description: str, schema_shown: Mapping[str, Any]) -> bool:
        text = json.dumps([description, schema_shown], ensure_ascii=False)
        if len(text.encode("utf-8", "replace")) <= limit:
            return True
        return len(text) <= limit * _CHARS_A_TOKEN and count(text) <= limit

    if fits(tool.description, schema):
        return ShortDefinition(tool.description, schema, False)
    bare = without_prose(schema)
    for chars in _DESCRIPTION_CHARS:
        description = _cut_text(tool.description, chars)
        for schema_shown in (schema, bare):
            if fits(description, schema_shown):
                return ShortDefinition(description, schema_shown, True)
    for depth, width in _DEPTHS_AND_WIDTHS:
        schema_shown = _SchemaCutter(depth, width).cut_schema(bare)
        if fits(description, schema_shown):
            return ShortDefinition(description, schema_shown, True)
    return ShortDefinition(description[:100], {"type": "object"}, True)


def without_prose(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema that accepts the same values, without the texts that explain them.

    Args:
        schema: any JSON Schema; it is not changed.
    """
    return {
        key: _bare(key, value)
        for key, value in schema.items()
        if key not in _PROSE_KEYS or not isinstance(value, str | list)
    }


def _bare(key: str, value: Any) -> Any:
    if key in _LITERAL_KEYS:
        return value
    if isinstance(value, dict):
        if key in NAMED_SCHEMA_KEYS:
            return {name: _bare("", child) for name, child in value.items()}
        return without_prose(value)
    if isinstance(value, list):
        return [_bare("", child) for child in value]
    return value


class _SchemaCutter:
    """Leaves out the parts of a schema beyond a depth or a number of entries.

    Args:
        depth: maximum levels of nesting.
        width: maximum entries of each object and list.
    """

    def __init__(self, depth: int, width: int) -> None:
        self._depth, self._width = depth, width
        self._kept_references: frozenset[str] = frozenset()

    def cut_schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """The schema of all arguments."""
        shared = [] if self._depth == 0 else ["$defs", "definitions"]
        self._kept_references = frozenset(
            f"#/{group}/{name}"
            for group in shared
            if isinstance(entries := schema.get(group), dict)
            for name in list(entries)[: self._width]
            if _is_short(name)
        )
        return {"type": "object", **self._cut_part(schema, self._depth)}

    def _cut_part(self, schema: Any, depth: int) -> Any:
        if not isinstance(schema, Mapping):
            return schema if isinstance(schema, bool) else {}
        cut_part: dict[str, Any] = {}
        for key, value in schema.items():
            if key in _KEPT_KEYS or key == "enum":
                if self._is_kept(key, value):
                    cut_part[key] = value
            elif key == "required" and isinstance(value, list):
                cut_part[key] = [name for name in value[: self._width] if _is_short(name)]
            elif depth > 0 and key in NAMED_SCHEMA_KEYS and isinstance(value, dict):
                cut_part[key] = self._cut_properties(value, schema.get("required"), depth)
            elif depth > 0 and key == "items":
                cut_part[key] = self._cut_part(value, depth - 1)
            elif depth > 0 and key in BRANCH_KEYS and 0 < _length(value) <= self._width:
                # Branches that are cut may overlap, so exactly one can no longer be asked for.
                name = "anyOf" if key == "oneOf" else key
                cut_part.setdefault(name, [self._cut_part(branch, depth - 1) for branch in value])
        is_complete = all(
            len(cut_part.get(key, ())) == _size(schema.get(key)) for key in _PROPERTY_KEYS
        )
        if cut_part.get("additionalProperties") is False and not is_complete:
            del cut_part["additionalProperties"]
        return cut_part

    def _cut_properties(
        self, entries: dict[str, Any], required: object, depth: int
    ) -> dict[str, Any]:
        """The properties, required ones first."""
        needed = required if isinstance(required, list) else []
        order = dict.fromkeys(name for name in needed if isinstance(name, str) and name in entries)
        names = list(order | dict.fromkeys(entries))[: self._width]
        return {name: self._cut_part(entries[name], depth - 1) for name in names if _is_short(name)}

    def _is_kept(self, key: str, value: Any) -> bool:
        if key == "enum":
            return (
                isinstance(value, list)
                and len(value) <= self._width
                and not any(
                    isinstance(choice, dict | list) or len(str(choice)) > _MAX_CHARS
                    for choice in value
                )
            )
        if key == "$ref":
            return value in self._kept_references if isinstance(value, str) else False
        return not isinstance(value, dict) and len(json.dumps(value)) <= _MAX_CHARS


def _length(value: object) -> int:
    return len(value) if isinstance(value, list) else 0


def _size(value: object) -> int:
    return len(value) if isinstance(value, dict) else 0


def _is_short(name: object) -> bool:
    return isinstance(name, str) and len(name) <= _MAX_CHARS


def _cut_text(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most].rstrip()} ..."
