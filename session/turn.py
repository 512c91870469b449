"""The result of one turn of a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..retrieval import Hit, Selection

if TYPE_CHECKING:
    from ..loaders import Departure, Shown
    from ..loaders.providers.provider import SearchContent


@dataclass(frozen=True, slots=True)
class Turn:
    """The result of one turn: the tools, and what to send to the model.

    Args:
        number: number of the turn in its session, from 1.
        queries: texts searched for: the message, the message with its context, its parts.
        selections: the result of each query.
        hits: tools that fit the message, best first; none when abstaining.
        ranked: all tools found, best first, of which `hits` are offered.
        called: id of the tool whose result was read; None for a user's message.
        ok: whether that call succeeded; None for a user's message.
        intents: parts of the message with different tools; empty for a single intent.
        context: weight of the earlier conversation, from 0 to 1.
        added: ids newly active, in order.
        active: ids of all active tools, in the order they came.
        left: tools that are no longer active, with the reason.
        changed: ids of active tools whose definition changed since they were offered last.
        warnings: active tools that a scan warns about: id to codes such as `puts_itself_first`.
        abstained: whether no tool is offered because none fits.
        reason: why it abstained, or why there was no decision; else None.
        fits: probability that any tool fits the message; None without a decision.
        dropped: number of tools found that the tier's threshold dropped.
        unmatched: entries of `allowed` that match no tool of the catalog.
        shown: what the turn shows the model.
        callable: ids of the tools that the model may call: it has read their arguments.
        timings: milliseconds: `search` in the engine, `session` for the rest.
        request: the user's message, if `turn` was given it as a text.
        answers: the messages that answer a search of the model, if `search` was given its call.

    Example:
        >>> from shortlist import Engine, Tool
        >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
        >>> turn = engine.session("openai").turn("list the invoices")
        >>> turn.ids, turn.number, turn.messages[0]
        (('billing/list_invoices',), 1, {'role': 'user', 'content': 'list the invoices'})
    """

    number: int
    queries: tuple[str, ...]
    selections: tuple[Selection, ...]
    hits: tuple[Hit, ...]
    ranked: tuple[Hit, ...] = ()
    called: str | None = None
    ok: bool | None = None
    intents: tuple[str, ...] = ()
    context: float = 0.0
    added: tuple[str, ...] = ()
    active: tuple[str, ...] = ()
    left: tuple[Departure, ...] = ()
    changed: tuple[str, ...] = ()
    warnings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    abstained: bool = False
    reason: str | None = None
    fits: float | None = None
    dropped: int = 0
    unmatched: tuple[str, ...] = ()
    shown: Shown | None = None
    callable: frozenset[str] = frozenset()
    timings: Mapping[str, float] = field(default_factory=dict)
    request: str | None = None
    answers: tuple[dict[str, Any], ...] = ()

    def __repr__(self) -> str:
        tools = ", ".join(self.ids) or self.reason or "no tool"
        return f"Turn({self.number}: {tools})"

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the tools that fit the message, best first."""
        return tuple(hit.id for hit in self.hits)

    @property
    def append(self) -> tuple[dict[str, Any], ...]:
        """Messages to add to the conversation, after the answers of tools.

        After a search of the model, its answer comes first, if `search` was given the call's id.
        """
        return (*self.answers, *(() if self.shown is None else self.shown.messages))

    @property
    def answer(self) -> SearchContent | None:
        """Content of the answer to a search of the model, as its provider takes it.

        A text, or a list of the provider's objects. None for other turns, and without a provider.
        """
        return None if self.shown is None else self.shown.answer

    @property
    def messages(self) -> tuple[dict[str, Any], ...]:
        """Messages to add to the conversation: the user's message, then `append`."""
        if self.request is None:
            return self.append
        return ({"role": "user", "content": self.request}, *self.append)

    @property
    def tokens(self) -> int | None:
        """Tokens of all text about tools in the next request; None without a provider."""
        if self.shown is None:
            return None
        return self.shown.head_tokens + self.shown.message_tokens
