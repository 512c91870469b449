"""The result of one turn of a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..retrieval import Hit, Selection
from .toolset import Departure

if TYPE_CHECKING:
    from ..loaders.prompt import PromptTurn
    from ..loaders.render.renderer import SearchContent


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
        shown: the rendered tools; None without a format.
        timings: milliseconds: `search` in the engine, `session` for the rest.
        provider_tools: tools that the model's provider runs.
        request: the user's message, if `turn` was given it as a text.
        answers: the messages that answer a search of the model, if `search` was given its call.

    Example:
        >>> from shortlist import Engine, Tool
        >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
        >>> turn = engine.session(format="openai").turn("list the invoices")
        >>> turn.ids, turn.number, len(turn.tools)
        (('billing/list_invoices',), 1, 1)
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
    shown: PromptTurn | None = None
    timings: Mapping[str, float] = field(default_factory=dict)
    provider_tools: tuple[Mapping[str, Any], ...] = ()
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
    def system(self) -> Any:
        """The system prompt, in the provider's shape; None without a format."""
        return None if self.shown is None else self.shown.rendered.system

    @property
    def tools(self) -> list[Mapping[str, Any]]:
        """The provider's list of tools; empty without a format."""
        if self.shown is None:
            return []
        return [*self.provider_tools, *self.shown.rendered.tools]

    @property
    def append(self) -> tuple[dict[str, Any], ...]:
        """Messages to add to the conversation, after the answers of tools.

        If `rebuilt`, these are all messages about tools: those added earlier may be dropped. After
        a search of the model, its answer comes first, if `search` was given the call's id.
        """
        return (*self.answers, *(() if self.shown is None else self.shown.appended))

    @property
    def answer(self) -> SearchContent | None:
        """Content of the answer to a search of the model, as its provider takes it.

        A text, or a list of the provider's objects. None for other turns, and without a format.
        """
        return None if self.shown is None else self.shown.answer

    @property
    def messages(self) -> tuple[dict[str, Any], ...]:
        """Messages to add to the conversation: the user's message, then `append`."""
        if self.request is None:
            return self.append
        return ({"role": "user", "content": self.request}, *self.append)

    @property
    def transient(self) -> tuple[dict[str, Any], ...]:
        """Messages to send last with the next model calls of this turn. Do not keep them.

        Lines of tools found, in catalogs that are too large to list; otherwise empty.
        """
        return () if self.shown is None else self.shown.transient

    @property
    def rebuilt(self) -> bool:
        """Whether all offered definitions were written again: one was removed or changed."""
        return self.shown is not None and self.shown.rebuilt

    @property
    def prefix_tokens(self) -> int | None:
        """Tokens of the pool and of tools that are always shown; None without a format."""
        return None if self.shown is None else self.shown.prefix_tokens

    @property
    def tokens(self) -> int | None:
        """Tokens of all text about tools in the prompt; None without a format."""
        if self.shown is None:
            return None
        return self.shown.prefix_tokens + self.shown.promoted_tokens + self.shown.line_tokens

    @property
    def callable(self) -> frozenset[str]:
        """Ids of the tools whose arguments the prompt shows."""
        return frozenset() if self.shown is None else self.shown.callable
