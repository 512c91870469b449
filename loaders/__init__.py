"""Prompts: renders summaries, signatures and definitions of tools within a token budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import public

if TYPE_CHECKING:
    from .detail import Detail
    from .prompt import PromptTurn
    from .schemas import DefinitionSource

_HOMES = {"DefinitionSource": ".schemas", "Detail": ".detail", "PromptTurn": ".prompt"}
__all__ = ["DefinitionSource", "Detail", "PromptTurn"]

__getattr__, __dir__ = public(__name__, _HOMES, __all__)
