"""Decides which of the found tools a turn offers, or none."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from ..config import SessionConfig
from ..retrieval import Hit
from ..text import terms
from ..view import View
from .conversation import Conversation
from .conversation_search import Found, find
from .intents import asks_nothing
from .session_prompt import SessionPrompt

# Logistic regression of "a follow-up, not a turn apart from the conversation" on conversations and
# on requests that no tool serves put after others' conversations. The threshold is the largest that
# turns away fewer than 3 % of the development set's follow-ups.
_TERMS, _LETTERS, _FITS, _INTERCEPT, _FOLLOWS = -2.2, -0.71, 0.6, 8.0, 0.1


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools that a turn offers, out of those found.

    Args:
        hits: best first; none when abstaining.
        abstained: whether no tool is offered because none fits.
        reason: why nothing is offered, or why there was no decision.
        fits: probability that any tool fits the query; None without a decision.
        dropped: number of tools found that the tier's threshold dropped.
    """

    hits: tuple[Hit, ...]
    abstained: bool
    reason: str | None = None
    fits: float | None = None
    dropped: int = 0


def offer(found: Found, decider: View | None, k: int) -> Offer:
    """The tools to offer out of those found.

    The decision reads the hits for the whole message, with context if the message is a follow-up.

    Args:
        found: results of the turn's searches.
        decider: decides whether any tool fits; without one, `k` tools are offered.
        k: maximum number of tools.
    """
    hits, dropped = found.merged.hits, len(found.merged.dropped)
    if not hits:
        reason = found.judged.reason or "the search found no tool"
        return Offer((), True, reason, dropped=dropped)
    if decider is None:
        return Offer(hits[:k], False, dropped=dropped)
    alone = found.selections[0]
    judged = decider.decision(found.judged)
    if found.judged is not alone and not judged.abstained:
        by_itself = decider.decision(alone)
        if by_itself.abstained and _apart(alone.query, by_itself.fits):
            judged = by_itself
    offered = () if judged.abstained else hits[:k]
    return Offer(offered, judged.abstained, judged.reason, judged.fits, dropped)


def look(
    view: View,
    said: Conversation,
    in_context: str,
    *,
    k: int,
    settings: SessionConfig,
    prompt: SessionPrompt | None,
    context: float | None,
    called: Collection[str],
    answered: bool,
) -> tuple[Found | None, Offer]:
    """Search for the present message, and decide which tools to offer.

    Args:
        view: the tools that may be found.
        said: the conversation.
        in_context: the message with its context.
        k: maximum number of tools to offer.
        settings: settings of the session.
        prompt: the session's prompt; None if nothing is rendered.
        context: weight of the search with context; computed from both searches when absent.
        called: ids of recently called tools.
        answered: whether the new message is the result of a tool.
    """
    request = said.request
    if not request:
        return None, Offer((), False, "nothing was asked yet")
    if not answered and said.earlier and asks_nothing(request, said.answered):
        return None, Offer((), True, "the user asks for nothing more")
    found = find(
        view,
        request,
        in_context,
        tier=settings.tier,
        k=max(k, 0 if prompt is None else prompt.depth),
        context=context,
        called=called,
    )
    whole = prompt is not None and prompt.passes_through
    judge = view if settings.abstain and not whole else None
    return found, offer(found, judge, k)


def scores(found: Found | None, offered: Offer, depth: int) -> dict[str, float]:
    """Id to score of the tools a turn offers, and of the best `depth` tools it found."""
    if found is None or offered.abstained:
        return {}
    ids = [hit.id for hit in offered.hits]
    ids += [hit.id for hit in found.merged.hits[:depth]]
    return {tool_id: 1.0 / rank for rank, tool_id in enumerate(dict.fromkeys(ids), 1)}


def _apart(request: str, fits: float | None) -> bool:
    """Whether a message that looks like a follow-up has too much content to be one.

    Context adds hits to any text, also to small talk and general questions.

    Args:
        request: the message of the user.
        fits: probability that a tool fits the message alone; None without a decision.
    """
    sure = min(max(1e-4 if fits is None else fits, 1e-4), 1 - 1e-4)
    evidence = (
        _TERMS * math.log1p(len(set(terms(request))))
        + _LETTERS * math.log1p(len(request))
        + _FITS * math.log(sure / (1 - sure))
        + _INTERCEPT
    )
    return 1 / (1 + math.exp(-evidence)) < _FOLLOWS
