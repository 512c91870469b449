"""What one client of the gateway may use, and how tools are shown to it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Profile:
    """What one client may use, and how tools are shown to it.

    Args:
        allowed: ids or globs; None for all tools.
        scopes: granted to the client.
        pinned: ids or globs of tools that are shown directly.
        pass_through: share of the context below which all tools are shown directly.
        context_tokens: of the client's model.
        result_tokens: tokens of a result up to which it is passed through unchanged.
        operator: text in the description of `search_tools`.
    """

    allowed: tuple[str, ...] | None = None
    scopes: frozenset[str] = frozenset()
    pinned: tuple[str, ...] = ()
    pass_through: float = 0.03
    context_tokens: int = 200_000
    result_tokens: int = 10_000
    operator: str = ""
