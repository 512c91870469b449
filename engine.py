"""Engine: the stages composed from a Config, and a request's way through them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .builder import Builder
from .catalog import Catalog, Tool
from .config import Config
from .errors import ConfigError, RequestError
from .retrieval import Query, Run, Selection, Strategy
from .retrieval.answer import hits_of, promoted
from .retrieval.explain import Explanation, explain
from .retrieval.held_out import DEPTH
from .retrieval.index import Index
from .retrieval.learned import Learned
from .retrieval.learning import LearningReport, learn
from .retrieval.query import MAX_QUERY_CHARS
from .retrieval.tiers import Tiers
from .retrieval.usage import Event

Progress = Callable[[int, int], None]


class Engine:
    """Finds the tools a request needs in a catalog.

    Make one with `from_tools`, `from_config` or `open`. An engine may be used from many threads
    while `update` replaces its catalog: a request is answered from one version.
    """

    def __init__(self, builder: Builder, index: Index) -> None:
        self._builder = builder
        self._index = index
        self._tiers = Tiers(builder.strategies(), builder.config.default_tier)
        self._updating = Lock()

    @classmethod
    def from_tools(
        cls,
        tools: Iterable[Tool],
        config: Config | None = None,
        *,
        progress: Progress | None = None,
        **settings: Any,
    ) -> Self:
        """Index tools.

        Args:
            tools: a Catalog, or tools to make one of.
            config: what the engine is made of; the defaults when absent.
            progress: called with (tools encoded, tools to encode).
            settings: single settings of a Config, in place of `config`.

        Raises:
            ConfigError: a setting is wrong.
            ModelError: the encoder cannot be loaded.
        """
        builder = Builder(_config(config, settings))
        return cls(builder, builder.build(_catalog(tools), progress=progress))

    @classmethod
    def from_config(cls, source: str | Path | Mapping[str, Any], tools: Iterable[Tool]) -> Self:
        """Index tools with a configuration from a TOML or JSON file or a mapping."""
        return cls.from_tools(tools, Config.read(source))

    @classmethod
    def open(
        cls,
        folder: str | Path,
        tools: Iterable[Tool] | None = None,
        config: Config | None = None,
        *,
        progress: Progress | None = None,
        **settings: Any,
    ) -> Self:
        """Open a saved index.

        Args:
            folder: where `save` put it.
            tools: the catalog as it is now, when it may have changed; only tools whose text
                changed are encoded anew.
            config: what the engine is made of. What the saved index was built with otherwise is
                built again from the saved tools and, if the model is the same, vectors.
            progress: called with (tools encoded, tools to encode).
            settings: single settings of a Config, in place of `config`.

        Raises:
            StoreError: nothing readable is saved there.
        """
        builder = Builder(_config(config, settings))
        catalog = None if tools is None else _catalog(tools)
        return cls(builder, builder.open(Path(folder), catalog, progress=progress))

    def save(self, folder: str | Path) -> None:
        """Write the index as the new current version of a folder, atomically.

        Raises:
            StoreError: another process is writing, or the disk refuses.
        """
        self._builder.save(self._index, Path(folder))

    @property
    def config(self) -> Config:
        """What the engine is made of."""
        return self._builder.config

    @property
    def catalog(self) -> Catalog:
        """The catalog version that answers now."""
        return self._index.catalog

    @property
    def encoded(self) -> int:
        """How many tools had to be encoded to make the present index."""
        return self._index.encoded

    @property
    def tiers(self) -> tuple[str, ...]:
        """Names of the tiers a request may ask for."""
        return self._tiers.names

    def update(self, tools: Iterable[Tool], *, progress: Progress | None = None) -> None:
        """Replace the catalog; only tools whose text changed are encoded.

        Requests already under way are answered from the old version, later ones from the new.
        """
        catalog = _catalog(tools)
        with self._updating:
            self._index = self._builder.build(
                catalog,
                known=self._index.vectors,
                learned=self._index.learned,
                progress=progress,
            )

    @property
    def learned(self) -> Mapping[str, Any] | None:
        """What of learning from usage is in force: events, moved tools, lexical factor; or None."""
        learned = self._index.learned
        return None if learned is None else learned.to_dict()

    def learn(self, events: Iterable[Event]) -> LearningReport:
        """Refine tool vectors and the fusion's weight from requests and the tools that served them.

        What is learned replaces what was learned before, and only if it makes the default tier
        better on held-out events; else nothing changes. Requests under way are answered as before.

        Args:
            events: all there are, see `retrieval.usage.read_events`.

        Raises:
            RequestError: no tier uses vectors, or no event names a tool of the catalog.
        """
        with self._updating:
            index = self._index
            tier, strategy = self._tiers.asked(None)
            report, learned = learn(
                index,
                list(events),
                tier=tier,
                strategy=strategy,
                ranked=partial(self._ranked, index),
            )
            if learned is not None:
                self._index = self._builder.taught(index, learned)
        return report

    def forget(self) -> None:
        """Search the encoder's own vectors again."""
        with self._updating:
            if self._index.learned is not None:
                self._index = self._builder.taught(self._index, None)

    def search(
        self,
        query: str,
        *,
        tier: str | Strategy | None = None,
        k: int | None = None,
        allowed: Iterable[str] | None = None,
        budget_ms: float | None = None,
    ) -> Selection:
        """The tools a request needs, best first.

        Args:
            query: the request in any words; what exceeds 8,000 characters is not read.
            tier: name of a tier or a strategy of one's own; the configured default when absent.
            k: how many hits at most; the configured number when absent.
            allowed: ids that may be returned, all when absent; ids not in the catalog are ignored.
            budget_ms: milliseconds the answer may take; a reranker takes fewer candidates, and a
                cheaper tier runs where the asked one would take longer.

        Raises:
            RequestError: an argument is of the wrong type or out of range, or no such tier.
        """
        start = perf_counter()
        index = self._index
        return self._answer(start, index, query, tier, k, index.mask(allowed), budget_ms)

    def search_many(
        self,
        queries: Sequence[str],
        *,
        tier: str | Strategy | None = None,
        k: int | None = None,
        allowed: Iterable[str] | None = None,
    ) -> list[Selection]:
        """One selection per request, all from one catalog version; requests are encoded together.

        Raises:
            RequestError: as `search`.
        """
        index = self._index
        if isinstance(queries, str):
            raise RequestError("queries: a list of texts, not one text; see `search`")
        texts = [_text(query) for query in queries]
        _, strategy = self._tiers.asked(tier)
        mask = index.mask(allowed)
        vectors: Sequence[Any] = [None] * len(texts)
        if index.encoder is not None and "dense" in getattr(strategy, "retrievers", ()):
            vectors = list(index.encoder.encode(texts, query=True))
        return [
            self._answer(perf_counter(), index, text, tier, k, mask, None, vector)
            for text, vector in zip(texts, vectors, strict=True)
        ]

    async def asearch(self, query: str, **arguments: Any) -> Selection:
        """`search` in a worker thread, for use in an event loop."""
        return await asyncio.to_thread(partial(self.search, query, **arguments))

    def explain(
        self,
        query: str,
        tool_id: str,
        *,
        tier: str | Strategy | None = None,
        k: int | None = None,
        allowed: Iterable[str] | None = None,
    ) -> Explanation:
        """Where each stage places one tool for a request, and why it is offered or is not.

        Raises:
            UnknownToolError: no such tool; names the nearest ones.
            RequestError: as `search`.
        """
        index = self._index
        index.catalog.get(tool_id)
        name, strategy = self._tiers.asked(tier)
        count = self._count(k)
        run = self._run(index, Query(_text(query), index.mask(allowed)), count, None)
        ranking, ran, reason = self._tiers.rank(run, name, strategy)
        ranking, _ = promoted(index, run.query, ranking)
        return explain(index, run, ranking, index.rows[tool_id], (name, ran, reason))

    def _answer(
        self,
        start: float,
        index: Index,
        query: str,
        tier: str | Strategy | None,
        k: int | None,
        allowed: NDArray[np.bool_] | None,
        budget_ms: float | None,
        vector: Any = None,
    ) -> Selection:
        text = _text(query)
        count = self._count(k)
        name, strategy = self._tiers.asked(tier)
        deadline = None if budget_ms is None else start + _milliseconds(budget_ms) / 1e3
        run = self._run(index, Query(text, allowed, vector), count, deadline)
        ranking, ran, reason = self._tiers.rank(run, name, strategy)
        ranking, exact = promoted(index, run.query, ranking)
        hits = hits_of(index, run, ranking.head(count), exact)
        return Selection(
            query=text,
            hits=hits,
            tier=ran,
            tier_asked=name,
            tier_reason=reason,
            timings=run.timings,
            total_ms=(perf_counter() - start) * 1e3,
            catalog=index.catalog.fingerprint,
        )

    def _ranked(
        self,
        index: Index,
        learned: Learned | None,
        queries: Sequence[str],
        vectors: NDArray[np.float32],
    ) -> list[NDArray[np.int64]]:
        index = self._builder.taught(index, learned)
        found = (
            self._answer(perf_counter(), index, query, None, DEPTH, None, None, vector)
            for query, vector in zip(queries, vectors, strict=True)
        )
        return [np.array([index.rows[hit.id] for hit in one], np.int64) for one in found]

    def _run(self, index: Index, query: Query, k: int, deadline: float | None) -> Run:
        return Run(query, k, index.retrievers, index.rerankers, deadline, index.scales)

    def _count(self, k: int | None) -> int:
        if k is None:
            return self.config.k
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise RequestError(f"k: {k!r}; a whole number of hits, at least 1")
        return k


def _config(config: Config | None, settings: Mapping[str, Any]) -> Config:
    if config is None:
        return Config.make(**settings)
    if settings:
        raise ConfigError(f"give a config or single settings ({', '.join(settings)}), not both")
    return config


def _catalog(tools: Iterable[Tool]) -> Catalog:
    return tools if isinstance(tools, Catalog) else Catalog(tools)


def _text(query: str) -> str:
    if not isinstance(query, str):
        raise RequestError(f"query: a text, not {type(query).__name__}")
    return query[:MAX_QUERY_CHARS]


def _milliseconds(budget: float) -> float:
    if isinstance(budget, bool) or not isinstance(budget, int | float) or not budget > 0:
        raise RequestError(f"budget_ms: {budget!r}; a number of milliseconds above 0")
    return budget
