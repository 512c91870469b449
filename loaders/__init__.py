"""Prompts: renders summaries, signatures and definitions of tools within a token budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import public

if TYPE_CHECKING:
    from .detail import Detail
    from .pool import PoolWriter
    from .prompt import Prompt, PromptTurn
    from .schemas import SchemaLoader
    from .sources import FolderSource, McpSource, MemorySource, RoutedSource, SchemaSource
    from .summaries import Summaries
    from .summary import summarize
    from .working_set import WorkingSet

_SOURCES = ("FolderSource", "McpSource", "MemorySource", "RoutedSource", "SchemaSource")
_HOMES = dict.fromkeys(_SOURCES, ".sources") | {
    "Detail": ".detail",
    "PoolWriter": ".pool",
    "Prompt": ".prompt",
    "PromptTurn": ".prompt",
    "SchemaLoader": ".schemas",
    "Summaries": ".summaries",
    "WorkingSet": ".working_set",
    "summarize": ".summary",
}
__all__ = [
    "Detail",
    "FolderSource",
    "McpSource",
    "MemorySource",
    "PoolWriter",
    "Prompt",
    "PromptTurn",
    "RoutedSource",
    "SchemaLoader",
    "SchemaSource",
    "Summaries",
    "WorkingSet",
    "summarize",
]

__getattr__, __dir__ = public(__name__, _HOMES, __all__)
