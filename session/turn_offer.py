"""Decides which of the found tools a turn offers, or none."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from ..config import SessionConfig
from ..decision.decider import NO_HIT, Decision, judge_selection, threshold_decision
from ..retrieval import Hit
from ..retrieval.selection import NEAREST_HITS
from ..text import search_terms
from ..view import View
from .conversation import Conversation
from .conversation_search import SearchResults, search_message
from .intents import asks_nothing

# Logistic regression of "a follow-up, not a turn apart from the conversation" on conversations and
# on requests that no tool serves put after others' conversations. The threshold is the largest that
# turns away fewer than 3 % of the development set's follow-ups.
_TERMS_WEIGHT, _LETTERS_WEIGHT, _FITS_WEIGHT, _INTERCEPT = -2.2, -0.71, 0.6, 8.0
_MIN_FOLLOW_UP_PROBABILITY = 0.1


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools that a turn offers, out of those found.

    Args:
        hits: best first; none when abstaining.
        decision: whether any tool fits the message.
        nearest: the best tools found, at most three, if none is offered although some were found.
    """

    hits: tuple[Hit, ...]
    decision: Decision
    nearest: tuple[Hit, ...] = ()


def choose_offer(results: SearchResults, view: View | None, k: int) -> Offer:
    """The tools to offer out of those found.

    The decision reads the hits for the whole message, with context if the message is a follow-up.

    Args:
        results: results of the turn's searches.
        view: what was searched, with the model that decides whether any tool fits; if None, the
            best `k` tools are offered.
        k: maximum number of tools.
    """
    hits = results.ranked
    nearest = results.merged_selection.hits_and_dropped[:NEAREST_HITS]
    if not hits:
        decision = threshold_decision(results.judged_selection) or NO_HIT
        return Offer((), decision, nearest)
    if view is None:
        return Offer(hits[:k], Decision(False, "not_judged"))
    alone = results.selections[0]
    decision = judge_selection(
        view.decider, results.judged_selection, view.admission.permitted_count
    )
    if results.judged_selection is not alone and not decision.abstained:
        decision_alone = judge_selection(view.decider, alone, view.admission.permitted_count)
        if decision_alone.abstained and _stands_apart(alone.query, decision_alone.fits):
            decision = decision_alone
    if decision.abstained:
        return Offer((), decision, nearest)
    return Offer(hits[:k], decision)


def search_and_offer(
    view: View,
    conversation: Conversation,
    in_context: str,
    *,
    k: int,
    settings: SessionConfig,
    max_lines: int,
    shows_all: bool,
    context_weight: float | None,
    called_ids: Collection[str],
    answered: bool,
) -> tuple[SearchResults, Offer]:
    """Search for the present message, and decide which tools to offer.

    Args:
        view: the tools that may be found.
        conversation: the conversation.
        in_context: the message with its context.
        k: maximum number of tools to offer.
        settings: settings of the session.
        max_lines: most further tools found that may get a line.
        shows_all: whether the model has the definitions of all tools, so that it decides itself.
        context_weight: weight of the search with context; computed from both searches when absent.
        called_ids: ids of recently called tools.
        answered: whether the new message is the result of a tool.
    """
    request = conversation.request
    nothing = SearchResults.without_search(request)
    if not request:
        return nothing, Offer((), Decision(False, "nothing_asked", reason="nothing was asked yet"))
    if not answered and conversation.earlier and asks_nothing(request, conversation.last_answer):
        reason = "the user asks for nothing more"
        return nothing, Offer((), Decision(True, "nothing_asked", reason=reason))
    results = search_message(
        view,
        request,
        in_context,
        tier=settings.tier,
        k=max(k, max_lines),
        context_weight=context_weight,
        called_ids=called_ids,
    )
    judged_by = view if settings.abstain and not shows_all else None
    return results, choose_offer(results, judged_by, k)


def _stands_apart(request: str, fit_probability: float | None) -> bool:
    """Whether a message that looks like a follow-up has too much content to be one.

    Context adds hits to any text, also to small talk and general questions.

    Args:
        request: the message of the user.
        fit_probability: probability that a tool fits the message alone; None without a decision.
    """
    probability = min(max(1e-4 if fit_probability is None else fit_probability, 1e-4), 1 - 1e-4)
    evidence = (
        _TERMS_WEIGHT * math.log1p(len(set(search_terms(request))))
        + _LETTERS_WEIGHT * math.log1p(len(request))
        + _FITS_WEIGHT * math.log(probability / (1 - probability))
        + _INTERCEPT
    )
    return 1 / (1 + math.exp(-evidence)) < _MIN_FOLLOW_UP_PROBABILITY
