"""The result of one turn of a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..retrieval import Hit
from .conversation_search import SearchResults

if TYPE_CHECKING:
    from ..loaders import Departure, Shown


@dataclass(frozen=True, slots=True)
class Turn:
    """The result of one turn: the tools, and what to send to the model.

    Args:
        number: number of the turn in its session, from 1.
        hits: tools that fit the message, best first; none when abstaining.
        results: what was searched for and found, of which `hits` are offered.
        messages: messages to add to the conversation: the user's message, then `append`.
        append: messages to add after the answers of tools. After a search of the model, its answer
            comes first, if `search` was given the call's id.
        called: id of the tool whose result was read; None for a user's message.
        ok: whether that call succeeded; None for a user's message.
        added: ids newly active, in order.
        active: ids of all active tools, in the order they came.
        left: tools that are no longer active, with the reason.
        changed: ids of active tools whose definition changed since they were offered last.
        warnings: active tools that a scan warns about: id to codes such as `puts_itself_first`.
        abstained: whether no tool is offered because none fits.
        reason: why it abstained, or why there was no decision; else None.
        fits: probability that any tool fits the message; None without a decision.
        shown: what the turn shows the model; None without a provider.
        callable: ids of the tools that the model may call: it has read their arguments.
        timings: milliseconds: `search` in the engine, `session` for the rest.

    Example:
        >>> from shortlist import Engine, Tool
        >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
        >>> turn = engine.session("openai").turn("list the invoices")
        >>> turn.ids, turn.number, turn.messages[0]
        (('billing/list_invoices',), 1, {'role': 'user', 'content': 'list the invoices'})
    """

    number: int
    hits: tuple[Hit, ...]
    results: SearchResults
    messages: tuple[dict[str, Any], ...] = ()
    append: tuple[dict[str, Any], ...] = ()
    called: str | None = None
    ok: bool | None = None
    added: tuple[str, ...] = ()
    active: tuple[str, ...] = ()
    left: tuple[Departure, ...] = ()
    changed: tuple[str, ...] = ()
    warnings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    abstained: bool = False
    reason: str | None = None
    fits: float | None = None
    shown: Shown | None = None
    callable: frozenset[str] = frozenset()
    timings: Mapping[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        tools = ", ".join(self.ids) or self.reason or "no tool"
        return f"Turn({self.number}: {tools})"

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the tools that fit the message, best first."""
        return tuple(hit.id for hit in self.hits)
