"""An engine that answers a search it has answered before from memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...engine import Engine
from ...gating import Admission, State, Votes
from ...retrieval import Selection, Strategy


class RememberingEngine(Engine):
    """The same answers, each found once: variants of the benchmark share their searches.

    An answer depends on nothing but the catalog version, the queries, the tier, `k` and what is
    admitted, so that the figures are those of an engine that searches anew. Times are not.
    """

    _answers: dict[Any, list[Selection]]

    def search_many(
        self,
        queries: Sequence[str],
        *,
        tier: str | Strategy | None = None,
        k: int | None = None,
        allowed: Iterable[str] | None = None,
        state: State | None = None,
        votes: Votes | None = None,
        admission: Admission | None = None,
    ) -> list[Selection]:
        """As in an engine."""
        if admission is None:
            admission = self.admission(state, allowed=allowed, votes=votes)
        mask = None if admission.mask is None else admission.mask.tobytes()
        key = self.catalog.fingerprint, tuple(queries), tier, k, mask
        memory = self.__dict__.setdefault("_answers", {})
        if key not in memory:
            memory[key] = super().search_many(queries, tier=tier, k=k, admission=admission)
        return list(memory[key])
