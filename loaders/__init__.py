"""Prompts: renders summaries, signatures and definitions of tools within a token budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from .detail import Detail
    from .prompt import PromptTurn
    from .schemas import DefinitionSource

_MODULE_OF_NAME = {"DefinitionSource": ".schemas", "Detail": ".detail", "PromptTurn": ".prompt"}
__all__ = ["DefinitionSource", "Detail", "PromptTurn"]

__getattr__, __dir__ = lazy_names(__name__, _MODULE_OF_NAME, __all__)
