"""Tools held back until someone approves them, whatever a request's state."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from ..errors import RequestError
from ..retrieval.index import Index
from .condition import Mask


class Quarantine:
    """Tool ids with the reason each is held back; immutable.

    Args:
        given: id to reason, as told; an id that a catalog lacks is held back once it comes.
        judged: id to reason, as `Screening` finds in a catalog version.

    Attributes:
        given: id to reason, as told.
        reasons: both together.

    Raises:
        RequestError: no mapping of ids to reasons.
    """

    __slots__ = ("_held", "_judged", "given", "reasons")

    def __init__(
        self, given: Mapping[str, str] | None = None, judged: Mapping[str, str] | None = None
    ) -> None:
        told = {} if given is None else given
        if not isinstance(told, Mapping) or not all(
            isinstance(text, str) for pair in told.items() for text in pair
        ):
            raise RequestError("quarantined: a mapping of tool ids to reasons")
        self.given: Mapping[str, str] = MappingProxyType(dict(told))
        self._judged = dict(judged or {})
        self.reasons: Mapping[str, str] = MappingProxyType(self._judged | dict(told))
        self._held: tuple[Index | None, Mask | None] = (None, None)

    def replaced(
        self, given: Mapping[str, str] | None = None, judged: Mapping[str, str] | None = None
    ) -> Quarantine:
        """This one with other reasons of a kind; those not given stay as they are.

        Raises:
            RequestError: no mapping of ids to reasons.
        """
        return Quarantine(
            self.given if given is None else given, self._judged if judged is None else judged
        )

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
