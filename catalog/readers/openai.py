"""OpenAI functions: wrapped as in chat completions, flat as in responses, or bare."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...errors import CatalogError, ToolError
from ..schema import checked_object
from ..tool import Tool
from .reader import (
    Document,
    Entry,
    first_object,
    object_fields,
    refuse_other_schema_keys,
    short_value,
)

_LIST_KEYS = ("tools", "functions")


class OpenAiReader:
    """`{"type": "function", "function": {...}}`, `{"type": "function", "name": ...}` or bare.

    A single one, a list, or `tools` or `functions` of a request body.
    """

    name = "openai"

    def recognises(self, value: Any) -> bool:
        """Functions by their type, their wrapping, or `parameters` instead of a schema."""
        if isinstance(value, list):
            return _is_function(first_object(value))
        if not isinstance(value, dict):
            return False
        return _is_function(value) or any(
            _is_function(first_object(value.get(k))) for k in _LIST_KEYS
        )

    def entries(self, document: Document) -> Iterator[Entry]:
        """Each function."""
        value, server = document.value, document.server_or_default()
        if isinstance(value, list):
            yield from document.entries(value, server)
        elif isinstance(value, dict) and any(
            isinstance(value.get(key), list) for key in _LIST_KEYS
        ):
            for key in _LIST_KEYS:
                listed = value.get(key)
                yield from document.entries(listed if isinstance(listed, list) else [], server, key)
        elif isinstance(value, dict):
            yield Entry("the function", value, server)
        else:
            raise CatalogError("holds no OpenAI functions: expected a list of them")

    def tool(self, entry: Entry) -> Tool:
        """The tool of a function. Built-in tools of the provider are refused."""
        value = object_fields(entry)
        kind = value.get("type", "function")
        if kind != "function":
            raise ToolError(field="type", reason=f"must be 'function', got {short_value(kind)}")
        function = checked_object(value.get("function", value), "function")
        refuse_other_schema_keys(function, "parameters")
        row = {"description": function.get("description"), "server": entry.server}
        if "name" in function:
            row["name"] = function["name"]
        return Tool.from_dict(row | {"input_schema": function.get("parameters")})


def _is_function(value: dict[str, Any]) -> bool:
    wrapped = isinstance(value.get("function"), dict)
    bare = "name" in value and "parameters" in value and "type" not in value
    return wrapped or bare or (value.get("type") == "function" and "name" in value)
