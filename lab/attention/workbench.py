"""One catalog with the tasks, the engine and the compared methods."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ...catalog import Catalog
from ...gating import Gate
from ...models import Encoder, TokenCounter
from ...trust import Trust, quarantined
from .arm import Arm, text_of
from .plain_arms import RETRIEVED_TOOLS, Discovery, Retrieval, Standing, curated, definition
from .remembering import Encoders, RememberingEngine
from .replay import TurnOutcome, figures, replay
from .settings import Settings
from .stock import STOCK_THREADS, THRESHOLD, Requests, StockRouter, published_summary, stock_spec
from .tasks import TaskScript
from .transcript import Prices, TextTokens
from .two_phase import TwoPhase

TRUSTING = {"scan": False}
"""Trust settings of the engines: they quarantine nothing. Only the arm `trusted` does."""


class Shared:
    """Encoders and token counts of a run, which its workbenches share."""

    def __init__(self) -> None:
        self.encoders = Encoders()
        self.counter = TokenCounter()
        self.count = TextTokens(self.counter)

    def engine(self, catalog: Catalog, **settings: Any) -> RememberingEngine:
        """An engine over a catalog that trusts every definition.

        Args:
            catalog: the tools.
            settings: settings of a Config.
        """
        return RememberingEngine.over(catalog, self.encoders, trust=TRUSTING, **settings)


class Workbench:
    """Arms over one catalog, and their figures.

    Args:
        catalog: the tools.
        scripts: the tasks.
        shared: encoders and token counts of this run.
        engine: engine with the catalog; created when absent.
    """

    def __init__(
        self,
        catalog: Catalog,
        scripts: Sequence[TaskScript],
        shared: Shared,
        *,
        engine: RememberingEngine | None = None,
    ) -> None:
        self.catalog = catalog
        self.scripts = scripts
        self.shared = shared
        self.prices = Prices()
        self.engine = engine or shared.engine(catalog)

    def outcomes(self, arm: Arm, scripts: Sequence[TaskScript] | None = None) -> list[TurnOutcome]:
        """Outcomes of all turns with an arm."""
        return replay(
            arm, self.scripts if scripts is None else scripts, self.shared.count, self.prices
        )

    def figures(self, arm: Arm, scripts: Sequence[TaskScript] | None = None) -> dict[str, Any]:
        """Figures of all tasks with an arm; see `replay.figures`."""
        return figures(self.outcomes(arm, scripts))

    def full(self) -> Arm:
        """Every full schema in every turn."""
        return Standing(self.catalog)

    def static(self) -> Arm:
        """The same thirty full schemas in every turn."""
        return Standing(curated(self.catalog, self.scripts))

    def discovery(self) -> Arm:
        """Tools as commands. An oracle asks about exactly the needed ones."""
        return Discovery(self.catalog)

    def retrieval(self, *, tier: str = "embed", k: int = RETRIEVED_TOOLS) -> Arm:
        """Full schemas of the best hits for the last user message, searched by the engine."""

        def search(request: str) -> list[str]:
            [found] = self.engine.view().search_many([request], tier=tier, k=k)
            return [hit.id for hit in found.hits]

        return Retrieval(self.catalog, search)

    def stock_retrieval(self, *, k: int = RETRIEVED_TOOLS) -> Arm:
        """The same, with the stock encoder and full definitions."""
        return Retrieval(self.catalog, lambda request: self._over_definitions.search(request, k))

    def as_published(self, *, k: int = RETRIEVED_TOOLS, threshold: float = THRESHOLD) -> Arm:
        """The published method: cut descriptions of all tools, and ten schemas above a cosine."""
        return Retrieval(
            self.catalog,
            lambda request: self._over_summaries.search(request, k, threshold),
            text_of(self._summaries),
        )

    def two_phase(self, settings: Settings) -> TwoPhase:
        """Sessions with these settings, used as an agent loop uses them."""
        return TwoPhase(self.engine, settings)

    def trusted(self, settings: Settings) -> TwoPhase:
        """The same, without the tools that the scan quarantines."""
        flags = quarantined(Trust().flags(self.catalog))
        self.engine.quarantine({id_: flag.sentence for id_, flag in flags.items()})
        return self.two_phase(settings)

    def gated(self, gate: Gate) -> Workbench:
        """The same with permission rules and the same vectors."""
        engine = self.shared.engine(self.catalog, gate=gate)
        return Workbench(self.catalog, self.scripts, self.shared, engine=engine)

    @cached_property
    def _stock(self) -> Encoder:
        return self.shared.encoders.load(stock_spec(), STOCK_THREADS)

    @cached_property
    def _requests(self) -> Requests:
        users = sorted({turn.user for script in self.scripts for turn in script.turns})
        return dict(zip(users, self._stock.encode(users, query=True), strict=True))

    @cached_property
    def _summaries(self) -> list[str]:
        return [published_summary(tool, self.shared.counter) for tool in self.catalog]

    @cached_property
    def _over_summaries(self) -> StockRouter:
        return StockRouter(self.catalog, self._stock.encode(self._summaries), self._requests)

    @cached_property
    def _over_definitions(self) -> StockRouter:
        texts = [definition(tool) for tool in self.catalog]
        return StockRouter(self.catalog, self._stock.encode(texts), self._requests)
