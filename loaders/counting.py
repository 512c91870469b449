"""The shared token counter (cl100k_base)."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

from ..catalog import Catalog
from .levels import definition_text

if TYPE_CHECKING:
    from ..models import TokenCounter


@cache
def bundled_counter() -> TokenCounter:
    """The `cl100k_base` counter of the process.

    Loading its vocabulary takes a third of a second.
    """
    from ..models import TokenCounter

    return TokenCounter()


@lru_cache(64)
def cached_token_count(text: str) -> int:
    """Tokens of a text that many sessions share, such as a pool. Cached."""
    return bundled_counter().count(text)


# All sessions over a catalog version ask the same.
@lru_cache(16)
def definitions_take_at_most(
    catalog: Catalog, limit: int, *, withheld: frozenset[str] = frozenset()
) -> bool:
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
