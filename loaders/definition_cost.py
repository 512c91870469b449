"""Whether a catalog is small enough to be shown as a whole."""

from __future__ import annotations

from functools import lru_cache

from ..catalog import Catalog
from .counting import bundled_counter
from .detail import definition_text


# All sessions over a catalog version ask the same.
@lru_cache(16)
def costs_at_most(catalog: Catalog, limit: int, *, withheld: frozenset[str] = frozenset()) -> bool:
    """Whether all definitions together take at most this many tokens. Stops counting beyond it.

    Args:
        catalog: the catalog version.
        limit: number of tokens; with 0 the answer is False.
        withheld: ids that are left out.
    """
    counter, total = bundled_counter(), 0
    for tool in catalog:
        if tool.id not in withheld:
            total += counter.count(definition_text(tool.id, tool.description, tool.input_schema))
        if total > limit:
            return False
    return limit > 0
