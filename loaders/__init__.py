"""Prompts: renders summaries, signatures and definitions of tools within a token budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import public

if TYPE_CHECKING:
    from .detail import Detail
    from .pool import PoolWriter
    from .prompt import Prompt, PromptTurn
    from .schemas import DefinitionSource, FolderSource, McpSource, SchemaLoader
    from .summaries import Summaries, summarize
    from .working_set import WorkingSet

_SCHEMAS = ("DefinitionSource", "FolderSource", "McpSource", "SchemaLoader")
_HOMES = dict.fromkeys(_SCHEMAS, ".schemas") | {
    "Detail": ".detail",
    "PoolWriter": ".pool",
    "Prompt": ".prompt",
    "PromptTurn": ".prompt",
    "Summaries": ".summaries",
    "WorkingSet": ".working_set",
    "summarize": ".summaries",
}
__all__ = [
    "DefinitionSource",
    "Detail",
    "FolderSource",
    "McpSource",
    "PoolWriter",
    "Prompt",
    "PromptTurn",
    "SchemaLoader",
    "Summaries",
    "WorkingSet",
    "summarize",
]

__getattr__, __dir__ = public(__name__, _HOMES, __all__)
