"""The layout of a prompt: a stable prefix, and the tools appended to it turn by turn.

A `Layout` has the parts of a prompt about tools, in no provider's format. A renderer writes it
as the system prompt, list of tools and messages of a request. A `Batch` has the tools of one turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from .detail import Detail


class RenderedTool(NamedTuple):
    """How one tool is written.

    Attributes:
        text: the text that is counted; for tools in messages, also the text of the message.
        provider_object: the tool as the provider takes it; None for tools that are written as text.
    """

    text: str
    provider_object: Mapping[str, Any] | None = None


class ToolEntry(NamedTuple):
    """One tool at one level of detail in one format.

    Attributes:
        tool_id: id of the tool.
        detail: level of detail.
        text: the text that is counted, one line.
        provider_object: the tool as the provider takes it; None for tools that are written as text.
        tokens: tokens of the text and its newline; 0 for a deferred tool.
    """

    tool_id: str
    detail: Detail
    text: str
    provider_object: Mapping[str, Any] | None
    tokens: int


Batch = tuple[ToolEntry, ...]
"""The tools that one turn added to a prompt, in order."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The parts of a prompt about tools, in order; immutable.

    Args:
        operator: the operator's text; comes first.
        pool: the text of the pool.
        prefix_tools: tools with full definitions in the prefix: a search tool, or the whole
            catalog.
        batches: promoted tools, one batch per turn with promotions.
        servers_in_use_text: lines for the tools of the servers in use, after the prefix.
        deferred: tools of the list that the model reads only after a search found them, in formats
            of providers that defer tools.
    """

    operator: str
    pool: str
    prefix_tools: tuple[ToolEntry, ...] = ()
    batches: tuple[Batch, ...] = ()
    servers_in_use_text: str = ""
    deferred: tuple[ToolEntry, ...] = ()

    @property
    def prefix_text(self) -> str:
        """The text of the prefix: the operator's text and the pool."""
        return "\n\n".join(part for part in (self.operator, self.pool) if part)

    @property
    def promoted(self) -> Iterator[ToolEntry]:
        """All entries promoted, in order."""
        return (entry for batch in self.batches for entry in batch)

    @property
    def tokens(self) -> int:
        """Tokens of all entries promoted."""
        return sum(entry.tokens for entry in self.promoted)

    def promote(self, entries: Iterable[ToolEntry]) -> Layout:
        """A new layout with a batch of further tools at the end. Earlier entries do not move."""
        batch = tuple(entries)
        return replace(self, batches=(*self.batches, batch)) if batch else self

    def rebuild(self, entries: Iterable[ToolEntry]) -> Layout:
        """A new layout with one batch instead of all earlier ones. The prefix does not change."""
        return replace(self, batches=()).promote(entries)
