"""Rows of xlam function-calling data: the functions offered with each query."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ...errors import CatalogError, ToolError
from ..schema import freeze
from ..text import Notes
from ..tool import Tool
from .protocol import Document, Entry, fields_of, first_object, object_at
from .python_type import to_schema


class XlamReader:
    """Rows `{"query", "tools", ...}` with `tools` as JSON text.

    A repeated function is read once.
    """

    name = "xlam"

    def recognises(self, value: Any) -> bool:
        """A row, or a list of rows, with a query and tools."""
        row = value if isinstance(value, dict) else first_object(value)
        return "query" in row and isinstance(row.get("tools"), str | list)

    def entries(self, document: Document) -> Iterator[Entry]:
        """Each distinct function, at the row that offers it first."""
        rows = [document.value] if isinstance(document.value, dict) else document.value
        if not isinstance(rows, list):
            raise CatalogError("holds no xlam rows: expected lines of a file or a list")
        seen: set[bytes] = set()
        for index, row in enumerate(rows):
            place = document.place(index)
            functions = _functions(row)
            if isinstance(functions, ToolError):
                yield Entry(f"{place}.tools", functions, document.named(None))
                continue
            for position, function in enumerate(functions):
                where = f"{place}.tools[{position}]"
                try:
                    content = freeze(function, "function", Notes())
                except ToolError:  # reading it as a tool will say what is wrong
                    content = where.encode()
                if content not in seen:
                    seen.add(content)
                    yield Entry(where, function, document.named(None))

    def tool(self, entry: Entry) -> Tool:
        """The tool of a function.

        Parameters are required unless they are optional or have a default.
        """
        if isinstance(entry.value, ToolError):
            raise entry.value
        function = fields_of(entry)
        row = {key: function[key] for key in ("name", "description") if key in function}
        schema = _schema(function.get("parameters"))
        return Tool.from_dict(row | {"server": entry.server, "input_schema": schema})


def _functions(row: Any) -> list[Any] | ToolError:
    """The functions of a row, or its problem. Other rows are not affected."""
    if not isinstance(row, dict) or "tools" not in row:
        return ToolError(field="tools", reason="is missing: a row must be an object with tools")
    tools = row["tools"]
    if isinstance(tools, str):
        try:
            tools = json.loads(tools)
        except (ValueError, RecursionError) as error:
            return ToolError(field="tools", reason=f"is not JSON: {error}")
    if not isinstance(tools, list):
        return ToolError(field="tools", reason="must be a list, or the JSON text of one")
    return tools


def _schema(parameters: Any) -> dict[str, Any]:
    given = object_at({} if parameters is None else parameters, "parameters")
    if given.get("type") == "object" and isinstance(given.get("properties"), dict):
        return given
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in given.items():
        if not isinstance(name, str):
            raise ToolError(field="parameters", reason=f"has a key of type {type(name).__name__}")
        declared = object_at(parameter, f"parameters.{name:.80}").get("type")
        spelling = declared if isinstance(declared, str) else ""
        schema, optional = to_schema(spelling)
        if isinstance(parameter.get("description"), str):
            schema["description"] = parameter["description"]
        if "default" in parameter:
            schema["default"] = parameter["default"]
        elif not optional:
            required.append(name)
        properties[name] = schema
    return {"type": "object", "properties": properties} | (
        {"required": required} if required else {}
    )
