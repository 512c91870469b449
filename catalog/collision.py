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
    unique = {}
    id_of_place: dict[int, str] = {}
    collisions: list[Collision] = []
    # Of each id that was claimed again: fingerprint to the id it got, and the next suffix.
    # Many definitions with one id take linear time.
    claims: dict[str, tuple[dict[str, str], Iterator[int]]] = {}
    for place in sorted(range(len(tool_list)), key=is_late.__getitem__):
        tool = tool_list[place]
        if (first := unique.get(tool.id)) is None:
            unique[tool.id], id_of_place[place] = tool, tool.id
            continue
        ids, suffixes = claims.setdefault(tool.id, ({first.fingerprint: first.id}, count(2)))
        while tool.fingerprint not in ids:
            candidate = f"{tool.id}~{next(suffixes)}"
            if (existing := unique.get(candidate)) is not None:
                ids.setdefault(existing.fingerprint, candidate)
            else:
                unique[candidate] = tool.with_id(candidate)
                ids[tool.fingerprint] = id_of_place[place] = candidate
        is_dropped = place not in id_of_place
        collisions.append(Collision(tool.id, ids[tool.fingerprint], identical=is_dropped))
    ids_in_order = [id_of_place[place] for place in sorted(id_of_place)]
    return {tool_id: unique[tool_id] for tool_id in ids_in_order}, tuple(collisions)
