"""Collisions: two definitions under one id, resolved the same way every time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from .tool import Tool


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


def resolve_collisions(tool_list: Sequence[Tool]) -> tuple[dict[str, Tool], tuple[Collision, ...]]:
    """Tools by unique id, in order, and what had to be done for that.

    The first definition keeps the id. A later, equal one is dropped. A different one gets the first
    free suffix. A tool without a server whose *name* looks like the id of a server's tool comes
    last, because anyone can choose such a name.
    """
    unique = {tool.id: tool for tool in tool_list}
    if len(unique) == len(tool_list):
        return unique, ()
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


class _IdAssignment:
    """Assigns ids to tools, one after the other.

    Attributes:
        unique: id to its tool.
        collisions: definitions whose id was already used, in order.
    """

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
