"""What the model gets to read: the pool of summaries, full schemas, and where each stands."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .detail import Detail
    from .entry import EntryWriter
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
    "EntryWriter": ".entry",
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
    "EntryWriter",
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


def __getattr__(name: str) -> Any:
    """Load a public name from its module on first use (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
