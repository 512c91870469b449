"""The two tools that a session adds to those of the catalog: a search, and a call of any tool."""

from __future__ import annotations

from typing import Final

from ..catalog import Tool

CALL_TOOL: Final = Tool(
    "call_tool",
    description="Call a tool by its id. Its definition has to be in the conversation; the "
    "arguments must follow the input_schema or signature given there.",
    input_schema={
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Id of the tool, as server/name."},
            "arguments": {"type": "object", "description": "Its arguments."},
        },
        "required": ["name", "arguments"],
        "additionalProperties": False,
    },
)
"""Calls any other tool. Its definition never changes."""

SEARCH_TOOL: Final = Tool(
    "search_tools",
    description="Find tools for a task described in plain words. The tools that fit are loaded "
    "and can be called from then on.",
    input_schema={
        "type": "object",
        "properties": {"query": {"type": "string", "description": "What has to be done."}},
        "required": ["query"],
    },
)
"""The search that a model may call. Its definition never changes."""
