"""Anthropic tools: `{"name", "description", "input_schema"}`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...errors import CatalogError, ToolError
from ..tool import Tool
from .reader import (
    Document,
    Entry,
    first_object,
    name_of,
    object_fields,
    refuse_other_schema_keys,
    short_value,
)

_OTHER_FIELDS = frozenset({"annotations", "outputSchema", "output_schema", "tags", "title"})


class AnthropicReader:
    """A list of tools, one tool, or a request body with `tools`."""

    name = "anthropic"

    def recognises(self, value: Any) -> bool:
        """A list of definitions with `input_schema`, or a request body with such a list."""
        if isinstance(value, dict):
            is_request = "model" in value or "messages" in value
            first = first_object(value.get("tools")) if is_request else value
        else:
            first = first_object(value)
        # Fields that Anthropic does not have are read by another reader, which keeps them.
        return "name" in first and "input_schema" in first and _OTHER_FIELDS.isdisjoint(first)

    def entries(self, document: Document) -> Iterator[Entry]:
        """Each tool."""
        value, server = document.value, document.server_or_default()
        if isinstance(value, dict):
            tools, prefix = value.get("tools", [value]), "tools"
        else:
            tools, prefix = value, ""
        if not isinstance(tools, list):
            raise CatalogError("holds no Anthropic tools: expected a list of them")
        yield from document.entries(tools, server, prefix)

    def tool(self, entry: Entry) -> Tool:
        """The tool of a definition. Built-in tools, which have no schema, are refused."""
        value = object_fields(entry)
        kind = value.get("type", "custom")
        if kind not in ("custom", None):
            raise ToolError(field="type", reason=f"must be 'custom', got {short_value(kind)}")
        refuse_other_schema_keys(value, "input_schema")
        if "input_schema" not in value:
            raise ToolError(field="input_schema", reason="is missing", tool=name_of(value))
        row = {key: value[key] for key in ("name", "description", "input_schema") if key in value}
        return Tool.from_dict(row | {"server": entry.server})
