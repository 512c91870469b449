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
    first free suffix.

    Raises:
        CatalogError: something that is not a Tool.
    """
    unique: dict[str, Tool] = {}
    collisions: list[Collision] = []
    namesakes: dict[str, _Namesakes] = {}
    for tool in tools:
        if not isinstance(tool, Tool):
            raise CatalogError(
                f"a catalog holds tools, got {type(tool).__name__}: build a Tool or use read_tools"
            )
        first = unique.get(tool.id)
        if first is None:
            unique[tool.id] = tool
            continue
        claim = namesakes.setdefault(tool.id, _Namesakes({first.fingerprint: first.id}))
        while tool.fingerprint not in claim.by_fingerprint:
            claim.last += 1
            candidate = f"{tool.id}~{claim.last}"
            if (taken := unique.get(candidate)) is not None:
                claim.by_fingerprint.setdefault(taken.fingerprint, candidate)
                continue
            unique[candidate] = tool.with_id(candidate)
            claim.by_fingerprint[tool.fingerprint] = candidate
            collisions.append(Collision(tool.id, candidate, identical=False))
            break
        else:
            kept = claim.by_fingerprint[tool.fingerprint]
            collisions.append(Collision(tool.id, kept, identical=True))
    return unique, tuple(collisions)
