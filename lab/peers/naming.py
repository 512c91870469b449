"""Tool ids as names that every peer accepts, and back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...catalog import Tool

LONGEST_NAME = 128
"""Characters an MCP tool name may have (MCP specification 2025-11-25, tools)."""

_REFUSED = re.compile(r"[^A-Za-z0-9_-]+")


class PeerNames:
    """A reversible map between ids such as ``@acme/list_issues`` and plain tool names.

    The server stays in the name, as it does where a peer mounts several servers, so a peer sees the
    same words as shortlist does. A forbidden character becomes a hyphen. A name that is too long
    keeps its end (the tool's own name). Names that are then equal get numbers.

    Args:
        tools: the tools to name; ids are unique.
    """

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._id_of: dict[str, str] = {}
        self._name_of: dict[str, str] = {}
        for tool in tools:
            name = self._free_name(_REFUSED.sub("-", tool.id).strip("-") or "tool")
            self._id_of[name] = tool.id
            self._name_of[tool.id] = name

    def _free_name(self, wanted: str) -> str:
        name, copies = wanted[-LONGEST_NAME:], 1
        while name in self._id_of:
            copies += 1
            suffix = f"-{copies}"
            name = wanted[-(LONGEST_NAME - len(suffix)) :] + suffix
        return name

    def name(self, tool_id: str) -> str:
        """The name a peer knows this tool by."""
        return self._name_of[tool_id]

    def has(self, name: str) -> bool:
        """Whether a tool has this name."""
        return name in self._id_of

    def tool_id(self, name: str) -> str:
        """The id behind a name a peer answered with."""
        return self._id_of[name]
