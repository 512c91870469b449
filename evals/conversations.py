"""The whole decision measured: every query put to a session of its own."""

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
    """A session of a tier as a method: conversation, parts of a request, gate and decision.

    Each query meets a session that holds nothing; one with messages is the conversation so far. The
    time is the turn's, search included.

    Args:
        engine: searched; its configured rules apply, in an empty state.
        tier: name of the tier.
        k: tools at most.
        abstain: whether the engine's decision may abstain; if not, only turns that ask for nothing
            are abstained on.
        cut: whether the decision also says how many tools are offered.
        pooled: restrict each query to its own pool.
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
