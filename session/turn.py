"""The result of one turn of a conversation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..retrieval import Hit
from .conversation_search import SearchResults

if TYPE_CHECKING:
    from ..loaders import Departure, Shown


@dataclass(frozen=True, slots=True)
class Turn:
    """The result of one turn: the tools, and what to send to the model.

    Args:
        hits: tools that fit the message, best first; none when abstaining.
        results: what was searched for and found, of which `hits` are offered.
        messages: messages to add to the conversation: the user's message, then `append`.
        append: messages to add after the answers of tools. After a search of the model, its answer
            comes first, if `search` was given the call's id.
        active: ids of all active tools, in the order they came.
        left: tools that are no longer active, with the reason.
        changed: ids of active tools whose definition changed since they were offered last.
        abstained: whether no tool is offered because none fits.
        reason: why it abstained, or why there was no decision; else None.
        shown: what the turn shows the model; None without a provider.

    Example:
        >>> from shortlist import Engine, Tool
        >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
        >>> turn = engine.session("openai").turn("list the invoices")
        >>> turn.ids, turn.messages[0]
        (('billing/list_invoices',), {'role': 'user', 'content': 'list the invoices'})
    """

    hits: tuple[Hit, ...]
    results: SearchResults
    messages: tuple[dict[str, Any], ...] = ()
    append: tuple[dict[str, Any], ...] = ()
    active: tuple[str, ...] = ()
    left: tuple[Departure, ...] = ()
    changed: tuple[str, ...] = ()
    abstained: bool = False
    reason: str | None = None
    shown: Shown | None = None

    def __repr__(self) -> str:
        tools = ", ".join(self.ids) or self.reason or "no tool"
        return f"Turn({tools})"

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the tools that fit the message, best first."""
        return tuple(hit.id for hit in self.hits)
