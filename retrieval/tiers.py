"""The tiers of an engine: which one a request gets, and what each costs here."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter

from ..errors import MissingExtraError, ModelError, RequestError
from .query import Ranking
from .run import BudgetExceeded, Run, Strategy

# Weight of the newest request in a tier's running time.
_SMOOTHING = 0.2


class Tiers:
    """Strategies by name, with the running time of each; a tier that cannot run falls back.

    Args:
        strategies: tier name to what it does.
        default: tier of a request that names none.
    """

    def __init__(self, strategies: Mapping[str, Strategy], default: str) -> None:
        self._strategies = strategies
        self._default = default
        self._ms: dict[str, float] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The tiers a request may ask for."""
        return tuple(self._strategies)

    def asked(self, tier: str | Strategy | None) -> tuple[str, Strategy]:
        """Name and strategy of what a request asks for.

        Raises:
            RequestError: no such tier, or an object that is no strategy.
        """
        if tier is None:
            tier = self._default
        if not isinstance(tier, str):
            if not (callable(getattr(tier, "rank", None)) and hasattr(tier, "fallback")):
                raise RequestError(
                    f"tier: {tier!r} is neither a name nor a Strategy, which has `rank(run)` "
                    "and `fallback`"
                )
            return type(tier).__name__, tier
        if tier not in self._strategies:
            raise RequestError(f"tier: no {tier!r}; there are: {', '.join(self._strategies)}")
        return tier, self._strategies[tier]

    def rank(self, run: Run, asked: str, strategy: Strategy) -> tuple[Ranking, str, str | None]:
        """The ranking of the asked tier or of the first it falls back to that can run.

        Returns:
            The ranking, the name of the tier that ran, and why if it is not the one asked for.

        Raises:
            ModelError, MissingExtraError, BudgetExceeded: no tier of the chain can run.
        """
        if not run.query.text.strip():
            return Ranking.empty(), asked, None
        name = asked
        reasons: list[str] = []
        while True:
            fallback = strategy.fallback
            try:
                if fallback is not None:
                    self._check_budget(name, run)
                start = perf_counter()
                ranking = strategy.rank(run)
                self._measured(name, start, run)
                return ranking, name, "; ".join(reasons) or None
            except (ModelError, MissingExtraError, BudgetExceeded) as error:
                if fallback is None or fallback not in self._strategies:
                    raise
                reasons.append(f"{name} -> {fallback}: {error}")
                name, strategy = fallback, self._strategies[fallback]

    def _check_budget(self, name: str, run: Run) -> None:
        expected = self._ms.get(name, 0.0)
        if run.deadline is not None and perf_counter() + expected / 1e3 > run.deadline:
            # Forgotten by and by, so that one slow request does not shut the tier out for good.
            self._ms[name] = expected * (1 - _SMOOTHING)
            raise BudgetExceeded(f"tier {name!r} takes {expected:.1f} ms here")

    def _measured(self, name: str, start: float, run: Run) -> None:
        # Without the reranker's share, which adapts to the time left by itself.
        spent = (perf_counter() - start) * 1e3 - run.timings.get("rerank", 0.0)
        before = self._ms.get(name, spent)
        self._ms[name] = before + _SMOOTHING * (spent - before)
