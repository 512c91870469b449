"""The shared token counter (cl100k_base)."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

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
def bundled_count(text: str) -> int:
    """Tokens of a text that many sessions share, such as a pool. Cached."""
    return bundled_counter().count(text)
