"""Collisions: two definitions under one id, resolved the same way every time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

from ..errors import CatalogError
from .mcp_listing import Model, is_model
from .tool import Tool

Tools: TypeAlias = Iterable[Tool | Mapping[str, Any] | Model] | Mapping[str, Any] | Model
"""What is accepted as tools: Tool objects; definitions of any format, as JSON or as objects of the
MCP SDK (`Tool`, `ListToolsResult`); lists of these; or a mapping of server to any of them."""


@dataclass(frozen=True, slots=True)
class Collision:
    """A definition whose id was already used by an earlier one.

    Attributes:
        id: the id of both definitions.
        kept_as: the id given to the later definition: `id~2`, `id~3`, .... If it is equal to an
            earlier definition, it is dropped, and this is the id of the earlier one.
        identical: whether the later definition was equal to an earlier one.
    """

    id: str
    kept_as: str
    identical: bool


def resolve_collisions(tools: Tools) -> tuple[dict[str, Tool], tuple[Collision, ...]]:
    """Tools by unique id, in order, and what had to be done for that.

    The first definition keeps the id. A later, equal one is dropped. A different one gets the first
    free suffix. A tool without a server whose *name* looks like the id of a server's tool comes
    last, because anyone can choose such a name.

    Raises:
        CatalogError: an item is not a Tool.
    """
    tool_list = checked_tools(tools)
    owned = {tool.id for tool in tool_list if tool.server is not None}
    is_late = [tool.server is None and tool.id in owned for tool in tool_list]
    assignment, assigned_ids = _IdAssignment(), {}
    for place in sorted(range(len(tool_list)), key=is_late.__getitem__):
        if (tool_id := assignment.add(tool_list[place])) is not None:
            assigned_ids[place] = tool_id
    unique = {
        assigned_ids[place]: assignment.unique[assigned_ids[place]]
        for place in sorted(assigned_ids)
    }
    return unique, tuple(assignment.collisions)


def checked_tools(tools: Tools, server: str | None = None) -> list[Tool]:
    """The tools as a list; definitions in another form are read.

    Args:
        tools: Tool objects, or definitions as `read_tools` takes them in memory.
        server: the server of definitions that are read.

    Raises:
        CatalogError: no tools; says how to read a file or to ask a client.
        ToolError: a definition is bad.
    """
    if isinstance(tools, str | Path):
        raise CatalogError(f"tools: not a path; read files with Catalog.read({str(tools)!r:.80})")
    if hasattr(tools, "list_tools"):
        raise CatalogError(
            "tools: a client answers in its event loop; use: await Catalog.from_client(client)"
        )
    if isinstance(tools, Mapping) or is_model(tools):
        return _read_definitions(tools, server)
    if not isinstance(tools, Iterable):
        raise CatalogError(f"tools: a list of Tool, not {type(tools).__name__}; see read_tools")
    items = list(tools)
    if not any(isinstance(tool, Tool) for tool in items):
        return _read_each(items, server)
    checked: list[Tool] = []
    for tool in items:
        checked += [tool] if isinstance(tool, Tool) else _read_each([tool], server)
    return checked


def _read_each(definitions: list[Any], server: str | None) -> list[Tool]:
    for definition in definitions:
        if not isinstance(definition, Mapping) and not is_model(definition):
            raise CatalogError(
                f"a catalog holds tools, got {type(definition).__name__}: "
                "build a Tool or use read_tools"
            )
    return _read_definitions(definitions, server) if definitions else []


def _read_definitions(definitions: Any, server: str | None) -> list[Tool]:
    from .reading import read_tools

    return list(read_tools(definitions, server=server).tools)


class _IdAssignment:
    """Assigns ids to tools, one after the other."""

    def __init__(self) -> None:
        self.unique: dict[str, Tool] = {}
        self.collisions: list[Collision] = []
        # Of each id that was claimed again: fingerprint to the id it got, and the next suffix.
        # Many definitions with one id take linear time.
        self._claims: dict[str, tuple[dict[str, str], Iterator[int]]] = {}

    def add(self, tool: Tool) -> str | None:
        """The id given to the tool; None if it is equal to an earlier one."""
        first = self.unique.get(tool.id)
        if first is None:
            self.unique[tool.id] = tool
            return tool.id
        ids, suffixes = self._claims.setdefault(tool.id, ({first.fingerprint: first.id}, count(2)))
        while tool.fingerprint not in ids:
            candidate = f"{tool.id}~{next(suffixes)}"
            if (existing := self.unique.get(candidate)) is not None:
                ids.setdefault(existing.fingerprint, candidate)
                continue
            self.unique[candidate] = tool.with_id(candidate)
            ids[tool.fingerprint] = candidate
            self.collisions.append(Collision(tool.id, candidate, identical=False))
            return candidate
        assigned_id = ids[tool.fingerprint]
        self.collisions.append(Collision(tool.id, assigned_id, identical=True))
        return None
