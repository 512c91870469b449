"""Splits requests by held-out tools, so that seen and unseen tools never mix.

A tool is held out together with its twins: tools of the same name and the same words, which serve
the same requests. The side of a tool depends only on the seed and the tool. So a growing data set
keeps its split.

A request that needs tools of both sides belongs to neither: it is set apart and reported. (Keeping
such requests by joining their tools would tie nearly all tools of a multi-tool set together.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

from ...catalog import Catalog, Tool
from ...errors import RequestError
from ...evals.dataset import LabelledQuery


@dataclass(frozen=True, slots=True)
class Split:
    """Requests by whether the tools that serve them were held out.

    Args:
        seen: served only by tools that were not held out; requests no tool serves are here.
        unseen: served only by tools that were held out.
        straddling: served by tools of both sides, or by a twin of a tool of the other side.
        held_out: ids of the tools held out.
    """

    seen: tuple[LabelledQuery, ...]
    unseen: tuple[LabelledQuery, ...]
    straddling: tuple[LabelledQuery, ...]
    held_out: frozenset[str]


def twin_key(tool: Tool) -> str:
    """What twins share: name and description, letters and digits only, whatever the server."""
    return re.sub(r"[\W_]+", " ", f"{tool.name} {tool.description}".casefold()).strip()


def hold_out(
    catalog: Catalog,
    queries: Sequence[LabelledQuery],
    *,
    by: Literal["tool", "server"],
    share: float,
    seed: int = 0,
) -> Split:
    """Split requests by tools held out, whole servers at a time or tool by tool.

    Args:
        catalog: the tools the requests are labelled with.
        queries: labelled requests.
        by: what is held out together: a tool with its twins, or all tools of a server. By server, a
            twin of a held-out tool may remain on another server; its requests straddle.
        share: share of tools or servers to hold out, 0 to 1; met on average, as each is drawn by
            itself.
        seed: random seed of the draw.

    Raises:
        RequestError: the share is outside 0..1.
    """
    if not 0.0 <= share <= 1.0:
        raise RequestError(f"share must be from 0 to 1, not {share!r}")
    family_numbers = {tool.id: twin_key(tool) for tool in catalog}
    unit = {
        tool.id: f"server {tool.server}"
        if by == "server" and tool.server
        else family_numbers[tool.id]
        for tool in catalog
    }
    held_out = frozenset(tool_id for tool_id, group in unit.items() if _drawn(group, share, seed))
    sides = _sides(family_numbers, held_out)
    seen: list[LabelledQuery] = []
    unseen: list[LabelledQuery] = []
    straddling: list[LabelledQuery] = []
    for query in queries:
        touched = set().union(*(sides[family_numbers[tool_id]] for tool_id in query.relevant))
        if touched == {True, False}:
            straddling.append(query)
        else:
            (unseen if True in touched else seen).append(query)
    return Split(tuple(seen), tuple(unseen), tuple(straddling), held_out)


def _sides(family_numbers: dict[str, str], held_out: Iterable[str]) -> dict[str, set[bool]]:
    out = frozenset(held_out)
    sides: dict[str, set[bool]] = {}
    for tool_id, family in family_numbers.items():
        sides.setdefault(family, set()).add(tool_id in out)
    return sides


def _drawn(group: str, share: float, seed: int) -> bool:
    digest = blake2b(f"{seed}\0{group}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64
