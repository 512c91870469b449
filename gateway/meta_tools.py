"""The tools that the gateway shows to a client in place of hundreds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mcp.types as types

SEARCH, DETAILS, CALL = "search_tools", "get_tool_details", "call_tool"
SERVERS, READ = "list_servers", "read_result"
META_TOOLS = (SEARCH, DETAILS, CALL, SERVERS, READ)
#: Keeps the meta-tools in the context of clients that load tools on demand.
ALWAYS_LOADED: Mapping[str, Any] = {"anthropic/alwaysLoad": True}
DETAIL_LEVELS = ("name", "summary", "signature", "full")

_NAMES = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 20}


def meta_tools(digest: str, least_permissive: types.ToolAnnotations) -> list[types.Tool]:
    """The definitions; the same bytes for the same digest.

    Args:
        digest: which servers there are and what they are about, at most some 200 tokens.
        least_permissive: annotations of `call_tool`: those of the most dangerous tool behind it.
    """
    reads = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
    return [
        _tool(
            SEARCH,
            "Find tools for a task in plain words, best first. Search before you say that "
            f"something cannot be done.\n{digest}".strip(),
            {
                "query": {"type": "string", "description": "What has to be done."},
                "k": {"type": "integer", "minimum": 1, "maximum": 50, "default": 8},
                "server": {"type": "string", "description": "Only tools of this server."},
                "tier": {"type": "string", "description": "Search tier; leave out."},
                "detail": {"type": "string", "enum": list(DETAIL_LEVELS), "default": "summary"},
            },
            ["query"],
            reads,
        ),
        _tool(
            DETAILS,
            "Definitions of tools, by the names that search_tools gave.",
            {
                "names": _NAMES,
                "detail": {"type": "string", "enum": list(DETAIL_LEVELS), "default": "full"},
            },
            ["names"],
            reads,
        ),
        _tool(
            CALL,
            "Call a tool by its name, server/tool. Its arguments must fit its input schema.",
            {
                "name": {"type": "string", "description": "As server/tool."},
                "arguments": {"type": "object", "description": "The tool's arguments."},
            },
            ["name"],
            least_permissive,
        ),
        _tool(SERVERS, "The servers: state, number of tools, topics.", {}, [], reads),
        _tool(
            READ,
            "Read more of a result that was too long to be shown whole.",
            {
                "id": {"type": "string"},
                "range": {
                    "type": "array",
                    "items": {"type": "integer", "minimum": 0},
                    "minItems": 2,
                    "maxItems": 2,
                    "description": "First and last character; the next part when absent.",
                },
            },
            ["id"],
            reads,
        ),
    ]


def least_permissive(annotations: list[Mapping[str, Any]]) -> types.ToolAnnotations:
    """Annotations that no tool is more dangerous than, by the defaults of MCP where one is silent.

    Args:
        annotations: of all permitted tools.
    """

    def said(one: Mapping[str, Any], hint: str, default: bool) -> bool:
        value = one.get(hint)
        return value if isinstance(value, bool) else default

    read_only = all(said(one, "readOnlyHint", False) for one in annotations)
    return types.ToolAnnotations(
        read_only_hint=read_only,
        destructive_hint=not read_only
        and any(
            said(one, "destructiveHint", True)
            for one in annotations
            if not said(one, "readOnlyHint", False)
        ),
        idempotent_hint=all(said(one, "idempotentHint", False) for one in annotations),
        open_world_hint=any(said(one, "openWorldHint", True) for one in annotations),
    )


def _tool(
    name: str,
    description: str,
    properties: Mapping[str, Any],
    required: list[str],
    annotations: types.ToolAnnotations,
) -> types.Tool:
    schema: dict[str, Any] = {"type": "object", "properties": dict(properties)}
    if required:
        schema["required"] = required
    return types.Tool(
        name=name,
        description=description,
        input_schema=schema,
        annotations=annotations,
        _meta=dict(ALWAYS_LOADED),
    )
