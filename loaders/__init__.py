"""Prompts: renders summaries, signatures and definitions of tools within a token budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import public

if TYPE_CHECKING:
    from .detail import Detail
    from .layout import Layout
    from .names import provider_name
    from .packing import Candidate, pack
    from .pool import Pool, PoolWriter
    from .prompt import Prompt
    from .prompt_turn import PromptTurn
    from .schemas import Loaded, Missing, SchemaLoader
    from .sources import FolderSource, McpSource, MemorySource, RoutedSource, SchemaSource
    from .summaries import Summaries
    from .summary import summarize
    from .working_set import WorkingSet

_HOMES = {
    "Candidate": ".packing",
    "Detail": ".detail",
    "FolderSource": ".sources",
    "Layout": ".layout",
    "Loaded": ".schemas",
    "McpSource": ".sources",
    "MemorySource": ".sources",
    "Missing": ".schemas",
    "Pool": ".pool",
    "PoolWriter": ".pool",
    "Prompt": ".prompt",
    "PromptTurn": ".prompt_turn",
    "RoutedSource": ".sources",
    "SchemaLoader": ".schemas",
    "SchemaSource": ".sources",
    "Summaries": ".summaries",
    "WorkingSet": ".working_set",
    "pack": ".packing",
    "provider_name": ".names",
    "summarize": ".summary",
}

__all__ = [
    "Candidate",
    "Detail",
    "FolderSource",
    "Layout",
    "Loaded",
    "McpSource",
    "MemorySource",
    "Missing",
    "Pool",
    "PoolWriter",
    "Prompt",
    "PromptTurn",
    "RoutedSource",
    "SchemaLoader",
    "SchemaSource",
    "Summaries",
    "WorkingSet",
    "pack",
    "provider_name",
    "summarize",
]

__getattr__, __dir__ = public(__name__, _HOMES, __all__)
