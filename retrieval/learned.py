"""What usage taught about a catalog, kept apart from the vectors it changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..catalog import Tool
from .vectors import Vectors

_ARRAYS = ("map", "targets", "pulls")


@dataclass(frozen=True, slots=True)
class Strengths:
    """How far usage may change an index.

    Args:
        shared: share of the trained map that every tool vector goes through, 0 to 1.
        own: share of the way to its requests that a tool with countless events moves, 0 to 1.
        patience: events after which a tool has moved half as far.
        lexical: factor of the lexical score in a fusion of scores.
    """

    shared: float = 0.0
    own: float = 0.0
    patience: float = 1.0
    lexical: float = 1.0

    def pulls(self, counts: NDArray[np.int64]) -> NDArray[np.float32]:
        """Share of its way that a tool of each count of events goes: own * n / (n + patience)."""
        pulls: NDArray[np.float32] = (self.own * counts / (counts + self.patience)).astype(
            np.float32
        )
        return pulls


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """Changes of tool vectors and of the fusion; `vectors` applies them to the encoder's own.

    Every vector goes through the map, v + map v, which holds for tools without events and for
    tools to come; those with events then move towards where their requests lie.

    Args:
        map: shape (dim, dim).
        targets: shape (m, dim); where the requests of each moved tool lie.
        pulls: shape (m,); share of the way to it.
        ids: of the moved tools.
        keys: hash of the text each of them had, see `Vectors`.
        model: fingerprint of the encoder.
        lexical: factor of the lexical score in a fusion of scores.
        events: how many events it was learned from.
    """

    map: NDArray[np.float32]
    targets: NDArray[np.float32]
    pulls: NDArray[np.float32]
    ids: tuple[str, ...]
    keys: tuple[bytes, ...]
    model: str
    lexical: float
    events: int

    def vectors(self, tools: Sequence[Tool], values: NDArray[np.float32]) -> NDArray[np.float32]:
        """The vectors of some tools with what was learned, shape (n, dim), L2-normalised.

        Args:
            tools: any of the catalog.
            values: what the encoder made of them, shape (n, dim).
        """
        row = {tool.id: number for number, tool in enumerate(tools)}
        here = [place for place, tool_id in enumerate(self.ids) if tool_id in row]
        rows = np.array([row[self.ids[place]] for place in here], np.int64)
        return moved(mapped(values, self.map), rows, self.targets[here], self.pulls[here])

    def fitting(self, tools: Sequence[Tool], base: Vectors) -> Learned | None:
        """What still holds of it: tools that went or whose text changed are no longer moved.

        None where the encoder is another one.
        """
        if base.model != self.model:
            return None
        held = {tool.id: key for tool, key in zip(tools, base.keys, strict=True)}
        kept = [
            number
            for number, (tool_id, key) in enumerate(zip(self.ids, self.keys, strict=True))
            if held.get(tool_id) == key
        ]
        if len(kept) == len(self.ids):
            return self
        return replace(
            self,
            targets=self.targets[kept],
            pulls=self.pulls[kept],
            ids=tuple(self.ids[number] for number in kept),
            keys=tuple(self.keys[number] for number in kept),
        )

    def to_dict(self) -> dict[str, Any]:
        """What it amounts to, without the vectors; JSON form."""
        return {"events": self.events, "moved": len(self.ids), "lexical": self.lexical}

    def save(self, folder: Path) -> None:
        """Write it into an existing folder."""
        for name in _ARRAYS:
            np.save(folder / f"{name}.npy", getattr(self, name))
        facts = {
            "ids": self.ids,
            "keys": [key.hex() for key in self.keys],
            "model": self.model,
            "lexical": self.lexical,
            "events": self.events,
        }
        (folder / "learned.json").write_text(json.dumps(facts), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """What `save` wrote.

        Raises:
            ValueError: its parts do not belong together.
            KeyError, OSError: a part is missing.
        """
        facts = json.loads((folder / "learned.json").read_text(encoding="utf-8"))
        arrays = {name: np.load(folder / f"{name}.npy") for name in _ARRAYS}
        ids, keys = tuple(facts["ids"]), tuple(bytes.fromhex(key) for key in facts["keys"])
        if not len(ids) == len(keys) == len(arrays["targets"]) == len(arrays["pulls"]):
            raise ValueError("learned: as many ids, keys, targets and pulls are due")
        return cls(
            **arrays,
            ids=ids,
            keys=keys,
            model=facts["model"],
            lexical=float(facts["lexical"]),
            events=int(facts["events"]),
        )


def mapped(values: NDArray[np.float32], change: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows v as v + change v, L2-normalised; shapes (n, dim) and (dim, dim)."""
    return _unit(values + values @ change.T)


def moved(
    values: NDArray[np.float32],
    rows: NDArray[np.int64],
    targets: NDArray[np.float32],
    pulls: NDArray[np.float32],
) -> NDArray[np.float32]:
    """A copy of `values` with some rows moved towards targets, L2-normalised.

    Args:
        values: shape (n, dim).
        rows: the rows to move, shape (m,).
        targets: shape (m, dim).
        pulls: share of the way, shape (m,).
    """
    result = values.copy()
    result[rows] = _unit(values[rows] + pulls[:, None] * (targets - values[rows]))
    return result


def _unit(values: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    unit: NDArray[np.float32] = values / np.maximum(lengths, np.finfo(np.float32).tiny)
    return unit.astype(np.float32, copy=False)
