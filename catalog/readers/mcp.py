"""MCP `tools/list` results, as servers answer them and as tools dump them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...errors import CatalogError
from ..tool import Tool
from .reader import Document, Entry, first_object, object_fields, refuse_other_schema_keys
from .skill_folder import SKILL_ANNOTATION

_KEYS_OF_FIELD = {
    "input_schema": ("inputSchema", "input_schema"),
    "output_schema": ("outputSchema", "output_schema"),
}


class McpReader:
    """A result `{"tools": [...]}`, its JSON-RPC envelope, pages, a list or a map of servers.

    Keys may be camelCase or snake_case. The server is the caller's, else the dump's `server`, else
    `serverInfo.name`; in a map of servers, the key; of a row in a list, its own `server`.
    """

    name = "mcp"

    def recognises(self, value: Any) -> bool:
        """An object with `tools`, a tool, a map of servers, or a list of tools or such objects."""
        if isinstance(value, list):
            first = first_object(value)
            return not value or "name" in first or _holds_tools(first)
        return isinstance(value, dict) and (
            _is_tool(value) or _holds_tools(value) or _is_map(value)
        )

    def entries(self, document: Document) -> Iterator[Entry]:
        """Each tool of each page or server."""
        value = document.value
        if isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, dict) and _holds_tools(item):
                    yield from _result_entries(item, document, f"{document.place(index)}.")
                else:
                    declared = item.get("server") if isinstance(item, dict) else None
                    yield Entry(document.place(index), item, document.server_or_default(declared))
        elif isinstance(value, dict) and _holds_tools(value):
            yield from _result_entries(value, document, "")
        elif isinstance(value, dict) and "name" in value:
            yield Entry("the tool", value, document.server_or_default())
        elif isinstance(value, dict) and _is_map(value):
            for server, result in value.items():
                if isinstance(result, dict):
                    # The key is the caller's; what stands below it is the server's.
                    yield from _result_entries(
                        result | {"server": server}, document, f"{server:.80}."
                    )
                else:
                    yield from _list_entries(
                        result, document.server_or_default(server), f"{server:.80}"
                    )
        else:
            raise CatalogError('holds no MCP tools: expected {"tools": [...]} or a list of tools')

    def tool(self, entry: Entry) -> Tool:
        """The tool of an MCP definition."""
        value = object_fields(entry)
        refuse_other_schema_keys(value, *_KEYS_OF_FIELD["input_schema"])
        row = {key: value.get(key) for key in ("title", "description", "annotations", "tags")}
        for field, spellings in _KEYS_OF_FIELD.items():
            row[field] = next((value[key] for key in spellings if value.get(key) is not None), None)
        if "name" in value:
            row["name"] = value["name"]
        if isinstance(hints := row["annotations"], dict):
            # A server's tool is no skill, whatever it says.
            row["annotations"] = {key: hints[key] for key in hints if key != SKILL_ANNOTATION}
        return Tool.from_dict(row | {"server": entry.server})


def _is_tool(value: dict[str, Any]) -> bool:
    """Whether it is one tool: a name alone is not enough, as `package.json` also has one."""
    spellings = _KEYS_OF_FIELD["input_schema"]
    return "name" in value and any(isinstance(value.get(key), dict) for key in spellings)


def _holds_tools(value: dict[str, Any]) -> bool:
    result = value.get("result")
    inner = result if isinstance(result, dict) else value
    return isinstance(inner.get("tools"), list)


def _is_map(value: dict[str, Any]) -> bool:
    return bool(value) and all(
        isinstance(server, str)
        and (isinstance(inner, list) or (isinstance(inner, dict) and _holds_tools(inner)))
        for server, inner in value.items()
    )


def _result_entries(value: dict[str, Any], document: Document, prefix: str) -> Iterator[Entry]:
    result = value.get("result")
    inner = value | result if isinstance(result, dict) else value
    info = inner.get("serverInfo")
    # `server` beside `result` is of the program that wrote the file, and goes before the server's.
    declared = value.get("server") or inner.get("server")
    declared = declared or (info.get("name") if isinstance(info, dict) else None)
    yield from _list_entries(inner["tools"], document.server_or_default(declared), f"{prefix}tools")


def _list_entries(tools: list[Any], server: str | None, place: str) -> Iterator[Entry]:
    for index, tool in enumerate(tools):
        yield Entry(f"{place}[{index}]", tool, server)
