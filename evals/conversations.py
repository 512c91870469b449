"""The whole decision measured: every query put to a session of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .dataset import Query
from .runner import Answer, Method

if TYPE_CHECKING:
    from ..engine import Engine
    from ..session.deciding import Decides


def session_method(
    engine: Engine,
    tier: str,
    *,
    k: int,
    decider: Decides | None = None,
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
        decider: abstains; without one, only turns that ask for nothing are abstained on.
        cut: whether it also says how many tools are offered.
        pooled: restrict each query to its own pool.
    """
    from ..session import Session

    def answer(query: Query) -> Answer:
        session = Session(engine, tier=tier, k=k, decider=decider, cut=cut)
        allowed = query.pool if pooled else None
        turn = session.turn(query.messages or query.text, allowed=allowed)
        first = turn.selections[0] if turn.selections else None
        return Answer(
            turn.ids,
            first.tier if first else None,
            first.tier_reason if first else None,
        )

    return answer
