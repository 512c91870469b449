"""Collisions: two definitions under one id, resolved the same way every time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..errors import CatalogError
from .tool import Tool


@dataclass(frozen=True, slots=True)
class Collision:
    """A definition whose id was already taken by an earlier one.

    Attributes:
        id: the id both claim.
        kept_as: the id the later definition is held under: `id~2`, `id~3`, ...; where it repeats an
            earlier definition word for word it is dropped, and this is the id of that one.
        identical: whether it was such a repetition.
    """

    id: str
    kept_as: str
    identical: bool


@dataclass(slots=True)
class _Namesakes:
    """The definitions that claim one id, so that many of them cost linear time."""

    by_fingerprint: dict[str, str]
    last: int = field(default=1)


def resolve_collisions(tools: Iterable[Tool]) -> tuple[dict[str, Tool], tuple[Collision, ...]]:
    """Tools by unique id, in order, and what had to be done for that.

    The first definition keeps the id; a later one that repeats it is dropped; another gets the
    first free suffix. A tool without a server that is *named* like the id of a server's tool comes
    last in this, wherever it stands: a name is free to choose, so it must not take that id.

    Raises:
        CatalogError: something that is not a Tool.
    """
    given = checked_tools(tools)
    if not any(tool.server is None and "/" in tool.id for tool in given):
        found = _Claims()
        for tool in given:
            found.add(tool)
        return found.unique, tuple(found.collisions)
    owned = {tool.id for tool in given if tool.server is not None}
    found, order = _Claims(), []
    waiting = [tool.server is None and tool.id in owned for tool in given]
    for late in (False, True):
        for place, tool in enumerate(given):
            if waiting[place] is late and (kept := found.add(tool)) is not None:
                order.append((place, kept))
    ids = [kept for _, kept in sorted(order)]
    return {kept: found.unique[kept] for kept in ids}, tuple(found.collisions)


def checked_tools(tools: Iterable[Tool]) -> list[Tool]:
    """The tools as a list.

    Raises:
        CatalogError: no list of tools.
    """
    if not isinstance(tools, Iterable):
        raise CatalogError(f"tools: a list of Tool, not {type(tools).__name__}; see read_tools")
    given = list(tools)
    for tool in given:
        if not isinstance(tool, Tool):
            raise CatalogError(
                f"a catalog holds tools, got {type(tool).__name__}: build a Tool or use read_tools"
            )
    return given


class _Claims:
    """Ids as tools claim them, one after the other."""

    def __init__(self) -> None:
        self.unique: dict[str, Tool] = {}
        self.collisions: list[Collision] = []
        self._namesakes: dict[str, _Namesakes] = {}

    def add(self, tool: Tool) -> str | None:
        """The id the tool is kept under; None where it repeats an earlier one."""
        first = self.unique.get(tool.id)
        if first is None:
            self.unique[tool.id] = tool
            return tool.id
        claim = self._namesakes.setdefault(tool.id, _Namesakes({first.fingerprint: first.id}))
        while tool.fingerprint not in claim.by_fingerprint:
            claim.last += 1
            candidate = f"{tool.id}~{claim.last}"
            if (taken := self.unique.get(candidate)) is not None:
                claim.by_fingerprint.setdefault(taken.fingerprint, candidate)
                continue
            self.unique[candidate] = tool.with_id(candidate)
            claim.by_fingerprint[tool.fingerprint] = candidate
            self.collisions.append(Collision(tool.id, candidate, identical=False))
            return candidate
        kept = claim.by_fingerprint[tool.fingerprint]
        self.collisions.append(Collision(tool.id, kept, identical=True))
        return None
