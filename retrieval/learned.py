"""Adjustments learned from usage, separate from the vectors that they change."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """A linear change of all tool vectors, those of tools to come included.

    Args:
        map: a vector v becomes v + map v, L2-normalised; shape (dim, dim).
        model: fingerprint of the encoder.
        events: how many events it was learned from.
    """

    map: NDArray[np.float32]
    model: str
    events: int

    def vectors(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Vectors of tools with what was learned, from the encoder's; shape (n, dim)."""
        changed = values + values @ self.map.T
        lengths = np.linalg.norm(changed, axis=1, keepdims=True)
        unit: NDArray[np.float32] = changed / np.maximum(lengths, np.finfo(np.float32).tiny)
        return unit

    def to_dict(self) -> dict[str, Any]:
        """A summary in JSON form."""
        return {"events": self.events}

    def save(self, file: Path) -> None:
        """Write it to a new file."""
        with file.open("wb") as content:
            np.savez(content, map=self.map, model=self.model, events=self.events)

    @classmethod
    def load(cls, file: Path) -> Self:
        """What `save` wrote.

        Raises:
            ValueError, KeyError: it is damaged.
        """
        with np.load(file) as saved:
            return cls(saved["map"], str(saved["model"]), int(saved["events"]))
