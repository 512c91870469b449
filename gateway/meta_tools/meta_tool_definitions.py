"""Definitions of the gateway's own tools (meta-tools)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import Any

import mcp.types as types

from ...codemode.description import run_code_description
from ...loaders.counting import bundled_counter
from ..profiles.profile import (
    CALL_TOOL,
    GET_TOOL_DETAILS,
    LIST_SERVERS,
    READ_RESULT,
    READ_TOOL,
    RUN_CODE,
    SEARCH_TOOLS,
)
from ..relay.other_kinds import Kind


class ToolEffect(StrEnum):
    """What a tool may do to data, by its annotations, least dangerous first."""

    READ = "read"
    WRITE = "write"
    DESTRUCTIVE = "destructive"


META_TOOL_NAMES = (SEARCH_TOOLS, GET_TOOL_DETAILS, CALL_TOOL, LIST_SERVERS, READ_RESULT)
#: Names that never mean a tool of a server.
RESERVED_NAMES = frozenset((*META_TOOL_NAMES, READ_TOOL, RUN_CODE))
#: Most tokens of the definitions of all meta-tools, without and with `run_code`, and of the digest
#: of servers in them.
MAX_DEFINITION_TOKENS, MAX_TOKENS_WITH_CODE, MAX_DIGEST_TOKENS = 919, 1_095, 250
#: `_meta` that tells clients that load tools on demand to keep the meta-tools loaded.
ALWAYS_LOADED_META: Mapping[str, Any] = {"anthropic/alwaysLoad": True}
DETAIL_LEVELS = ("name", "summary", "signature", "full")

_CALL_DESCRIPTION = "Call a tool by its name, server/tool. Its arguments must fit its input schema."
_READ_DESCRIPTION = "The same as call_tool, for tools that only read."
#: What a search finds; tools by default.
TOOL_KIND = "tool"
KINDS = (TOOL_KIND, *(kind.value for kind in Kind))
#: Most queries of one search, and most tools in its answer.
MAX_QUERIES, MAX_TOOLS = 16, 50
#: Arguments of `search_tools` that are not in its definition, because no model needs them: the
#: detail of all hits, the tier of the search, and whether the structured answer has the tier that
#: ran.
UNLISTED_ARGUMENTS: Mapping[str, Any] = {
    "detail": {"type": "string", "enum": list(DETAIL_LEVELS)},
    "tier": {"type": "string"},
    "explain": {"type": "boolean"},
}
_QUERY_DESCRIPTION = (
    "One step, in English, with the server's name if the user gave it. Several steps: queries."
)
_NAMES_SCHEMA = {"type": "array", "items": {"type": "string"}, "maxItems": 20}


def meta_tools(
    digest: str,
    hints: types.ToolAnnotations,
    *,
    split_call_tool: bool = False,
    with_run_code: bool = False,
    with_extract: bool = False,
) -> list[types.Tool]:
    """The definitions of the meta-tools. The same arguments give the same bytes.

    Args:
        digest: text about the servers, of at most about 250 tokens.
        hints: annotations of `call_tool`: those of the most dangerous tool that it calls.
        split_call_tool: whether `read_tool` stands beside a `call_tool` that does more than read.
        with_run_code: whether `run_code` is one of them.
        with_extract: whether the description of `run_code` has the function `extract`.
    """
    reads = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
    return [
        _definition(
            SEARCH_TOOLS,
            "Search tools",
            "Find tools for a task, best first. Search before you say that something cannot be "
            "done. With the signature you can call a tool at once.\n"
            f"{digest}".strip(),
            {
                "query": {"type": "string", "description": _QUERY_DESCRIPTION},
                "queries": {"type": "array", "items": {"type": "string"}, "maxItems": MAX_QUERIES},
                "k": {"type": "integer", "minimum": 1, "maximum": MAX_TOOLS},
                "server": {"type": "string"},
                "kinds": {"type": "array", "items": {"enum": list(KINDS)}},
            },
            [],
            reads,
        ),
        _definition(
            GET_TOOL_DETAILS,
            "Describe tools",
            "Definitions of tools, by the names that search_tools gave.",
            {
                "names": _NAMES_SCHEMA,
                "detail": {"enum": list(DETAIL_LEVELS)},
            },
            ["names"],
            reads,
        ),
        *(
            [_call_definition(READ_TOOL, "Call a read-only tool", _READ_DESCRIPTION, reads)]
            if split_call_tool and not hints.read_only_hint
            else []
        ),
        _call_definition(CALL_TOOL, "Call a tool", _CALL_DESCRIPTION, hints),
        _definition(
            LIST_SERVERS,
            "List servers",
            "The servers and their topics; with server, its instructions and tools.",
            {"server": {"type": "string"}},
            [],
            reads,
        ),
        _definition(
            READ_RESULT,
            "Read a result",
            "Read on in a result that was too long to be shown whole, or find text in it.",
            {
                "id": {"type": "string"},
                "range": {
                    "type": "array",
                    "items": {"type": "integer", "minimum": 0},
                    "description": "First and last character; by default the next part.",
                },
                "find": {"type": "string"},
            },
            ["id"],
            reads,
        ),
        *([_run_code(with_extract)] if with_run_code else []),
    ]


def _run_code(with_extract: bool) -> types.Tool:
    """The definition of `run_code`. A script may do whatever its tools do."""
    signatures = f"from a search, or {GET_TOOL_DETAILS} with detail=signature"
    text = run_code_description("the tools, all servers in one", signatures, extract=with_extract)
    properties = {"code": {"type": "string"}}
    return _definition(RUN_CODE, "Run code", text, properties, ["code"], least_permissive([]))


@cache
def max_digest_tokens(*, split_call_tool: bool, with_run_code: bool, with_extract: bool) -> int:
    """Most tokens of the digest of servers, so that `meta_tools` stay within their limit."""
    tools = meta_tools(
        "",
        least_permissive([]),
        split_call_tool=split_call_tool,
        with_run_code=with_run_code,
        with_extract=with_extract,
    )
    rest = json.dumps([tool.model_dump(by_alias=True, exclude_none=True) for tool in tools])
    limit = MAX_TOKENS_WITH_CODE if with_run_code else MAX_DEFINITION_TOKENS
    return max(0, min(MAX_DIGEST_TOKENS, limit - bundled_counter().count(rest)))


def _call_definition(name: str, title: str, text: str, hints: types.ToolAnnotations) -> types.Tool:
    properties = {"name": {"type": "string"}, "arguments": {"type": "object"}}
    return _definition(name, title, text, properties, ["name"], hints)


def effect_of(annotations: Mapping[str, Any] | None) -> ToolEffect:
    """The effect that a tool's annotations permit, with the defaults of MCP."""
    return annotated_effect(least_permissive([annotations or {}]))


def annotated_effect(hints: types.ToolAnnotations) -> ToolEffect:
    """The effect that a client assumes of a tool with these annotations."""
    if hints.read_only_hint:
        return ToolEffect.READ
    return ToolEffect.WRITE if hints.destructive_hint is False else ToolEffect.DESTRUCTIVE


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
        # Otherwise the default of MCP, which is true.
        open_world_hint=None
        if any(hint(tool_hints, "openWorldHint", True) for tool_hints in annotations)
        else False,
    )


def _definition(
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
        _meta=dict(ALWAYS_LOADED_META),
    )
