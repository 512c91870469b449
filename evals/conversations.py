"""Measures sessions: every query gets a new session, which may abstain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .dataset import LabelledQuery
from .runner import Answer, Method

if TYPE_CHECKING:
    from ..engine import Engine


def session_method(
    engine: Engine,
    tier: str,
    *,
    k: int,
    abstain: bool = True,
    cut: bool = False,
    pooled: bool = False,
) -> Method:
    """Sessions as a method to measure: with context, intents, rules and the decision.

    Each query gets a new session. A query with messages is the conversation so far. The time is
    that of the turn, search included.

    Args:
        engine: the engine; its rules apply, with an empty state.
        tier: name of the tier.
        k: maximum number of tools.
        abstain: whether the decision may abstain; if not, only messages such as "thanks" are
            abstained on.
        cut: whether the decision also limits the number of tools.
        pooled: whether each query is limited to its own pool.
    """

    def answer(query: LabelledQuery) -> Answer:
        allowed = query.pool if pooled else None
        session = engine.session(allowed=allowed, tier=tier, k=k, abstain=abstain, cut=cut)
        turn = session.turn(query.messages or query.text)
        first = turn.selections[0] if turn.selections else None
        return Answer(
            turn.ids,
            first.tier if first else None,
            first.tier_reason if first else None,
        )

    return answer
