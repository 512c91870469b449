"""What the arms share: engines, writers, a counter and the tasks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ...catalog import Catalog
from ...gating import Gate
from ...loaders import EntryWriter, PoolWriter, SchemaLoader
from ...loaders.render import renderer_for
from ...models import Encoder, TokenCounter
from ...trust import Trust
from .arm import Arm, text_of
from .plain_arms import RETRIEVED_TOOLS, Discovery, Retrieval, Standing, curated, definition
from .remembering import RememberingEngine
from .replay import Outcome, figures, replay
from .stock import THRESHOLD, Requests, StockRouter, load_stock, published_summary
from .tasks import Script
from .transcript import Prices, TextTokens
from .two_phase import FORMAT, Settings, TwoPhase

TRUSTING = {"scan": False}
"""Trust of the engines, which hold back nothing by themselves; the arm `trusted` does."""


class Workbench:
    """Arms over one catalog, and their figures.

    Args:
        catalog: the tools.
        scripts: the tasks.
        engine: over the catalog; made when absent.
        settings: of a Config, for the engine that is made, which by itself trusts every definition.
    """

    def __init__(
        self,
        catalog: Catalog,
        scripts: Sequence[Script],
        *,
        engine: RememberingEngine | None = None,
        **settings: Any,
    ) -> None:
        self.catalog = catalog
        self.scripts = scripts
        self.prices = Prices()
        self._counter = TokenCounter()
        self.count = TextTokens(self._counter)
        self.engine = engine or RememberingEngine.from_tools(catalog, trust=TRUSTING, **settings)
        self._schemas = SchemaLoader()
        self._entries = EntryWriter(renderer_for(FORMAT), self._counter)

    def outcomes(self, arm: Arm, scripts: Sequence[Script] | None = None) -> list[Outcome]:
        """Every turn of the tasks under an arm."""
        return replay(arm, self.scripts if scripts is None else scripts, self.count, self.prices)

    def figures(self, arm: Arm, scripts: Sequence[Script] | None = None) -> dict[str, Any]:
        """What the tasks come to under an arm."""
        return figures(self.outcomes(arm, scripts))

    def full(self) -> Arm:
        """Every full schema in every turn."""
        return Standing(self.catalog)

    def static(self) -> Arm:
        """Thirty full schemas that stay."""
        return Standing(curated(self.catalog, self.scripts))

    def discovery(self) -> Arm:
        """Tools as commands, asked about by an oracle."""
        return Discovery(self.catalog)

    def retrieval(self, *, tier: str = "embed", k: int = RETRIEVED_TOOLS) -> Arm:
        """Ten full schemas for what was said last, by the engine."""

        def search(request: str) -> list[str]:
            found = self.engine.search_many([request], tier=tier, k=k)[0]
            return [hit.id for hit in found.hits]

        return Retrieval(self.catalog, search)

    def stock_retrieval(self, *, k: int = RETRIEVED_TOOLS) -> Arm:
        """The same by the stock encoder over full definitions."""
        return Retrieval(self.catalog, lambda request: self._over_definitions.search(request, k))

    def as_published(self, *, k: int = RETRIEVED_TOOLS, threshold: float = THRESHOLD) -> Arm:
        """Its own two phases: a pool of cut descriptions, ten schemas above a cosine."""
        return Retrieval(
            self.catalog,
            lambda request: self._over_summaries.search(request, k, threshold),
            text_of(self._summaries),
        )

    def two_phase(
        self,
        settings: Settings,
        *,
        withheld: frozenset[str] = frozenset(),
    ) -> TwoPhase:
        """A Session and a Prompt."""
        return TwoPhase(
            self.engine,
            settings,
            pools=PoolWriter(budget=settings.pool_budget, counter=self._counter, top=settings.top),
            schemas=self._schemas,
            entries=self._entries,
            withheld=withheld,
        )

    def trusted(self, settings: Settings) -> TwoPhase:
        """The same with what reads like orders held back."""
        reasons = Trust().quarantined(self.catalog)
        self.engine.quarantine(reasons)
        return self.two_phase(settings, withheld=frozenset(reasons))

    def gated(self, gate: Gate) -> Workbench:
        """The same under rules, over the same vectors."""
        config = self.engine.config.model_copy(update={"gate": gate})
        return Workbench(
            self.catalog, self.scripts, engine=RememberingEngine.from_tools(self.catalog, config)
        )

    @cached_property
    def _stock(self) -> Encoder:
        return load_stock()

    @cached_property
    def _requests(self) -> Requests:
        users = sorted({turn.user for script in self.scripts for turn in script.turns})
        return dict(zip(users, self._stock.encode(users, query=True), strict=True))

    @cached_property
    def _summaries(self) -> list[str]:
        return [published_summary(tool, self._counter) for tool in self.catalog]

    @cached_property
    def _over_summaries(self) -> StockRouter:
        return StockRouter(self.catalog, self._stock.encode(self._summaries), self._requests)

    @cached_property
    def _over_definitions(self) -> StockRouter:
        texts = [definition(tool) for tool in self.catalog]
        return StockRouter(self.catalog, self._stock.encode(texts), self._requests)
