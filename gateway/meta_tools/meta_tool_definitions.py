"""Definitions of the gateway's own tools (meta-tools)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import Any

import mcp.types as types

from ...codemode.description import description
from ...loaders.counting import bundled_counter
from ..profiles.profile import CALL, DETAILS, READ, RUN, SEARCH, SERVERS


class Kind(StrEnum):
    """What a tool may do, by its annotations, least dangerous first."""

    READ = "read"
    WRITE = "write"
    DESTRUCTIVE = "destructive"


#: Kind of effect to the name of its call tool, if `call_tool` is split.
CALLS: Mapping[Kind, str] = {
    Kind.READ: "call_read_tool",
    Kind.WRITE: "call_write_tool",
    Kind.DESTRUCTIVE: "call_destructive_tool",
}
META_TOOLS = (SEARCH, DETAILS, CALL, SERVERS, READ)
#: Names that never mean a tool of a server.
RESERVED = frozenset((*META_TOOLS, *CALLS.values(), RUN))
#: Most tokens of all definitions together, and of the digest of servers in them.
META_TOKENS, DIGEST_TOKENS = 890, 250
#: Tells clients that load tools on demand to keep the meta-tools loaded.
ALWAYS_LOADED: Mapping[str, Any] = {"anthropic/alwaysLoad": True}
DETAIL_LEVELS = ("name", "summary", "signature", "full")

_CALL = "Call a tool by its name, server/tool. Its arguments must fit its input schema."
_SPLIT: Mapping[Kind, str] = {
    Kind.READ: "Call a tool that only reads, by its name server/tool.",
    Kind.WRITE: "Call a tool that writes and destroys nothing.",
    Kind.DESTRUCTIVE: "Call any other tool: it may destroy.",
}
#: Most queries of one search, and most tools in its answer.
MAX_QUERIES, MAX_TOOLS = 8, 50
#: Arguments of `search_tools` that are not in its definition, because no model needs them: the
#: detail of all hits, the tier of the search, and whether the structured answer has the tier that
#: ran.
UNLISTED: Mapping[str, Any] = {
    "detail": {"type": "string", "enum": list(DETAIL_LEVELS)},
    "tier": {"type": "string"},
    "explain": {"type": "boolean"},
}
_QUERY = "One step, in English, with the server's name if the user gave it. Several steps: queries."
_NAMES = {"type": "array", "items": {"type": "string"}, "maxItems": 20}


def meta_tools(
    digest: str,
    hints: types.ToolAnnotations,
    *,
    split: bool = False,
    code: bool = False,
    extract: bool = False,
) -> list[types.Tool]:
    """The definitions of the meta-tools. The same arguments give the same bytes.

    Args:
        digest: text about the servers, of at most about 250 tokens.
        hints: annotations of `call_tool`: those of the most dangerous tool that it calls.
        split: whether three tools, to read, to write and to destroy, replace `call_tool`.
        code: whether there is `run_code`.
        extract: whether scripts have `extract`.
    """
    reads = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
    return [
        _tool(
            SEARCH,
            "Search tools",
            "Find tools for a task, best first. Search before you say that something cannot be "
            "done. With the signature you can call a tool at once.\n"
            f"{digest}".strip(),
            {
                "query": {"type": "string", "description": _QUERY},
                "queries": {"type": "array", "items": {"type": "string"}, "maxItems": MAX_QUERIES},
                "k": {"type": "integer", "minimum": 1, "maximum": MAX_TOOLS},
                "server": {"type": "string"},
            },
            [],
            reads,
        ),
        _tool(
            DETAILS,
            "Describe tools",
            "Definitions of tools, by the names that search_tools gave.",
            {
                "names": _NAMES,
                "detail": {"type": "string", "enum": list(DETAIL_LEVELS)},
            },
            ["names"],
            reads,
        ),
        *(_split_calls() if split else [_call(CALL, "Call a tool", _CALL, hints)]),
        _tool(
            SERVERS,
            "List servers",
            "The servers and their topics; with server, its instructions and tools.",
            {"server": {"type": "string"}},
            [],
            reads,
        ),
        _tool(
            READ,
            "Read a result",
            "Read more of a result that was too long to be shown whole.",
            {
                "id": {"type": "string"},
                "range": {
                    "type": "array",
                    "items": {"type": "integer", "minimum": 0},
                    "description": "First and last character; the next part when absent.",
                },
            },
            ["id"],
            reads,
        ),
        *([_run_code(extract)] if code else []),
    ]


def _run_code(extract: bool) -> types.Tool:
    """The definition of `run_code`. A script may do whatever its tools do."""
    signatures = f"{DETAILS} with detail=signature"
    text = description("the tools, all servers in one", signatures, extract=extract)
    script = {"type": "string", "description": "The script."}
    return _tool(RUN, "Run code", text, {"code": script}, ["code"], least_permissive([]))


@cache
def digest_tokens(split: bool) -> int:
    """Most tokens of the digest of servers, so that all definitions stay within their limit."""
    tools = meta_tools("", least_permissive([]), split=split)
    rest = json.dumps([tool.model_dump(by_alias=True, exclude_none=True) for tool in tools])
    return max(0, min(DIGEST_TOKENS, META_TOKENS - bundled_counter().count(rest)))


def _split_calls() -> list[types.Tool]:
    """One call tool for each kind of effect."""
    tools = []
    for kind, name in CALLS.items():
        hints = types.ToolAnnotations(
            read_only_hint=kind is Kind.READ,
            # A read-only tool destroys nothing, and clients know this.
            destructive_hint=None if kind is Kind.READ else kind is Kind.DESTRUCTIVE,
        )
        tools.append(_call(name, f"Call a {kind} tool", _SPLIT[kind], hints))
    return tools


def _call(name: str, title: str, text: str, hints: types.ToolAnnotations) -> types.Tool:
    properties = {"name": {"type": "string"}, "arguments": {"type": "object"}}
    return _tool(name, title, text, properties, ["name"], hints)


def kind_of(annotations: Mapping[str, Any] | None) -> Kind:
    """The kind of effect that a tool's annotations permit, with the defaults of MCP."""
    hints = least_permissive([annotations or {}])
    return kind_shown(hints)


def kind_shown(hints: types.ToolAnnotations) -> Kind:
    """The kind of effect that a client assumes for these annotations."""
    if hints.read_only_hint:
        return Kind.READ
    return Kind.WRITE if hints.destructive_hint is False else Kind.DESTRUCTIVE


def least_permissive(annotations: list[Mapping[str, Any]]) -> types.ToolAnnotations:
    """Annotations as dangerous as the most dangerous tool, with the defaults of MCP.

    Args:
        annotations: annotations of all tools that may be called. If empty, the defaults are
            returned.
    """
    annotations = annotations or [{}]

    def hint(tool_hints: Mapping[str, Any], name: str, default: bool) -> bool:
        value = tool_hints.get(name)
        return value if isinstance(value, bool) else default

    read_only = all(hint(tool_hints, "readOnlyHint", False) for tool_hints in annotations)
    return types.ToolAnnotations(
        read_only_hint=read_only,
        destructive_hint=not read_only
        and any(
            hint(tool_hints, "destructiveHint", True)
            for tool_hints in annotations
            if not hint(tool_hints, "readOnlyHint", False)
        ),
        idempotent_hint=all(
            hint(tool_hints, "idempotentHint", False) for tool_hints in annotations
        ),
        open_world_hint=any(hint(tool_hints, "openWorldHint", True) for tool_hints in annotations),
    )


def _tool(
    name: str,
    title: str,
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
        title=title,
        description=description,
        input_schema=schema,
        annotations=annotations,
        _meta=dict(ALWAYS_LOADED),
    )
