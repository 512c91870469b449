"""Tools held back until someone approves them, whatever a request's state."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from ..errors import RequestError
from ..retrieval.index import Index
from .matcher import Mask


class Quarantine:
    """Tool ids with the reason each is held back; immutable.

    Args:
        reasons: id to reason; an id that a catalog lacks is held back once it comes.

    Raises:
        RequestError: no mapping of ids to reasons.
    """

    __slots__ = ("_held", "reasons")

    def __init__(self, reasons: Mapping[str, str] | None = None) -> None:
        given = {} if reasons is None else reasons
        if not isinstance(given, Mapping) or not all(
            isinstance(text, str) for pair in given.items() for text in pair
        ):
            raise RequestError("quarantined: a mapping of tool ids to reasons")
        self.reasons: Mapping[str, str] = MappingProxyType(dict(given))
        self._held: tuple[Index | None, Mask | None] = (None, None)

    def spared(self, index: Index) -> Mask | None:
        """Rows of a catalog version that are not held back, shape (n,); None for all of them."""
        known, spared = self._held
        if known is not index:
            rows = [index.rows[tool_id] for tool_id in self.reasons if tool_id in index.rows]
            spared = None
            if rows:
                spared = np.ones(len(index.rows), np.bool_)
                spared[rows] = False
            # One version is asked about at a time, but for requests that are under way.
            self._held = (index, spared)
        return spared
