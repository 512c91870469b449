"""The counter that everything here counts with."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..models import TokenCounter


@cache
def bundled_counter() -> TokenCounter:
    """One counter of `cl100k_base` for the process: its vocabulary takes a third of a second."""
    from ..models import TokenCounter

    return TokenCounter()


@lru_cache(64)
def bundled_count(text: str) -> int:
    """Tokens of a text that many sessions share, such as a pool."""
    return bundled_counter().count(text)
