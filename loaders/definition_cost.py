"""Whether a catalog is so small that it is simply shown."""

from __future__ import annotations

from typing import Final

from ..catalog import Catalog
from .counting import bundled_counter
from .detail import definition_text
from .lru_cache import LruCache

_decided: Final[LruCache[tuple[str, frozenset[str], int], bool]] = LruCache(64)
"""Answers kept: every session over a version of a catalog asks the same."""


def costs_at_most(catalog: Catalog, limit: int, *, withheld: frozenset[str] = frozenset()) -> bool:
    """Whether all definitions together take no more tokens than this; counts no further.

    Args:
        catalog: one version.
        limit: tokens; nothing costs as little as 0.
        withheld: ids left out.
    """
    key = catalog.fingerprint, withheld, limit
    known = _decided.get(key)
    return _decided.put(key, _costs_at_most(catalog, limit, withheld)) if known is None else known


def _costs_at_most(catalog: Catalog, limit: int, withheld: frozenset[str]) -> bool:
    counter, total = bundled_counter(), 0
    for tool in catalog:
        if tool.id not in withheld:
            total += counter.count(definition_text(tool.id, tool.description, tool.input_schema))
        if total > limit:
            return False
    return limit > 0
