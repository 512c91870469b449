"""Engine: the stages composed from a Config, and a request's way through them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .builder import Builder, Progress
from .catalog import Catalog, Tool
from .config import Config
from .errors import RequestError, UnknownToolError
from .gating import Admission, Gate, Refusal, State, Votes
from .gating.gatekeeper import Gatekeeper
from .gating.problem import Problem
from .gating.quarantine import Quarantine
from .retrieval import Selection, Strategy
from .retrieval.explain import Explanation
from .retrieval.held_out import DEPTH
from .retrieval.index import Index
from .retrieval.learned import Learned
from .retrieval.learning import LearningReport, learn
from .retrieval.searcher import Searcher
from .retrieval.tiers import Tiers
from .retrieval.usage import Event


class Engine:
    """Finds the tools a request needs in a catalog.

    Make one with `from_tools`, `from_config` or `open`. An engine may be used from many threads
    while `update` replaces its catalog: a request is answered from one version.
    """

    def __init__(self, builder: Builder, index: Index) -> None:
        self._builder = builder
        self._index = index
        self._tiers = Tiers(builder.strategies(), builder.config.default_tier)
        self._searcher = Searcher(self._tiers, builder.config.k)
        self._gatekeeper = Gatekeeper(builder.config.gate)
        self._gatekeeper.over(index)
        self._quarantine = Quarantine(judged=builder.screening.held(index.catalog))
        self._updating = Lock()
        # A request reads, and a change replaces, the version and its quarantine together.
        self._offering = Lock()

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
            PinsError: the file of pins cannot be read.
        """
        builder = Builder(Config.of(config, settings))
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
            PinsError: the file of pins cannot be read.
        """
        builder = Builder(Config.of(config, settings))
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

    def update(
        self,
        tools: Iterable[Tool],
        *,
        server: str | None = None,
        quarantined: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Replace the catalog, or one server's tools; the work is that of what differs.

        Requests already under way are answered from the old version, later ones from the new.

        Args:
            tools: the catalog as it is now, or with `server` all tools of that server.
            server: the server whose tools these are, in the place of its first one; with no tools
                it is removed.
            quarantined: in place of what `quarantine` was told, from the moment these tools are
                offered; as it was when absent. What trust says of them is found anew.
            progress: called with (tools encoded, tools to encode).

        Raises:
            RequestError: `quarantined` is no mapping of ids to reasons.
            CatalogError: a tool belongs to another server than `server`.
            PinsError: the file of pins cannot be read; nothing has changed then.
        """
        told = None if quarantined is None else Quarantine(quarantined).reasons
        with self._updating:
            index = self._index
            catalog = (
                _catalog(tools) if server is None else index.catalog.replace_server(server, tools)
            )
            index = self._builder.updated(index, catalog, progress=progress)
            judged = self._builder.screening.held(index.catalog)
            self._offer(index, told, judged)

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
                self._offer(self._builder.taught(index, learned))
        return report

    def forget(self) -> None:
        """Search the encoder's own vectors again."""
        with self._updating:
            if self._index.learned is not None:
                self._offer(self._builder.taught(self._index, None))

    def search(
        self,
        query: str,
        *,
        tier: str | Strategy | None = None,
        k: int | None = None,
        allowed: Iterable[str] | None = None,
        budget_ms: float | None = None,
        state: State | None = None,
        votes: Votes | None = None,
        admission: Admission | None = None,
    ) -> Selection:
        """The tools a request needs, best first.

        Args:
            query: the request in any words; what exceeds 8,000 characters is not read.
            tier: name of a tier or a strategy of one's own; the configured default when absent.
            k: how many hits at most; the configured number when absent.
            allowed: ids that may be returned, all when absent; ids not in the catalog are ignored.
            budget_ms: milliseconds the answer may take; a reranker takes fewer candidates, and a
                cheaper tier runs where the asked one would take longer.
            state: what the agent holds; nothing when absent.
            votes: what servers say of their tools for this turn.
            admission: made before from the last three, in place of them; the request is answered
                from the catalog version it was made for.

        Raises:
            RequestError: an argument is of the wrong type or out of range, or no such tier.
        """
        start = perf_counter()
        admission = self._admission(state, allowed, votes, admission)
        return self._searcher.search(
            admission, query, tier=tier, k=k, budget_ms=budget_ms, start=start
        )

    def search_many(
        self,
        queries: Sequence[str],
        *,
        tier: str | Strategy | None = None,
        k: int | None = None,
        allowed: Iterable[str] | None = None,
        state: State | None = None,
        votes: Votes | None = None,
        admission: Admission | None = None,
    ) -> list[Selection]:
        """One selection per request, all from one catalog version; requests are encoded together.

        Raises:
            RequestError: as `search`.
        """
        admission = self._admission(state, allowed, votes, admission)
        return self._searcher.search_many(admission, queries, tier=tier, k=k)

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
        state: State | None = None,
        votes: Votes | None = None,
        admission: Admission | None = None,
    ) -> Explanation:
        """Where each stage places one tool for a request, and why it is offered or is not.

        Raises:
            UnknownToolError: no such tool; names the nearest ones that the request may use.
            RequestError: as `search`.
        """
        admission = self._admission(state, allowed, votes, admission)
        return self._searcher.explain(admission, query, tool_id, tier=tier, k=k)

    def admission(
        self,
        state: State | None = None,
        *,
        allowed: Iterable[str] | None = None,
        votes: Votes | None = None,
    ) -> Admission:
        """What a request may use: the one decision for search, details and calls.

        Args:
            state: what the agent holds; nothing when absent.
            allowed: ids the request is limited to, all when absent.
            votes: what servers say of their tools for this turn.

        Raises:
            RequestError: an argument of the wrong type.
        """
        with self._offering:
            index, quarantine = self._index, self._quarantine
        return self._gatekeeper.admission(index, quarantine, state, allowed, votes)

    def quarantine(self, reasons: Mapping[str, str]) -> None:
        """Hold back these tools, besides those that trust does, whatever a request's state.

        Args:
            reasons: tool id to the reason, in place of those told before; an id the catalog lacks
                is held back once it comes.

        Raises:
            RequestError: no mapping of ids to reasons.
        """
        with self._offering:
            self._quarantine = self._quarantine.replaced(reasons)

    @property
    def quarantined(self) -> Mapping[str, str]:
        """Tool id to the reason, for all that is held back until someone approves it."""
        return self._quarantine.reasons

    def after_call(self, state: State, tool_id: str) -> State:
        """The state once a call of this tool succeeded, with the milestones rules say it reaches.

        Scopes and facts that rules say it provides are for the caller to grant and to fill in.
        """
        return self._gatekeeper.over(self._index).after_call(state, tool_id)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the gate's rules for the present catalog; empty is well."""
        return self._gatekeeper.problems(self._index)

    def details(
        self,
        ids: Iterable[str],
        *,
        state: State | None = None,
        allowed: Iterable[str] | None = None,
        votes: Votes | None = None,
        admission: Admission | None = None,
    ) -> list[Tool | Refusal | UnknownToolError]:
        """For each id or name the tool, or why it may not be used, or that there is none.

        Raises:
            RequestError: as `search`, or `ids` is one text.
        """
        if isinstance(ids, str):
            raise RequestError("ids: a list of ids, not one text")
        admission = self._admission(state, allowed, votes, admission)
        return [admission.resolve(tool_id) for tool_id in ids]

    def _offer(self, index: Index, *reasons: Mapping[str, str] | None) -> None:
        """Answer from this version from now on, with other reasons of `Quarantine.replaced`."""
        self._gatekeeper.over(index)
        with self._offering:
            self._index = index
            self._quarantine = self._quarantine.replaced(*reasons)

    def _admission(
        self,
        state: State | None,
        allowed: Iterable[str] | None,
        votes: Votes | None,
        admission: Admission | None,
    ) -> Admission:
        if admission is None:
            return self.admission(state, allowed=allowed, votes=votes)
        if not (state is None and allowed is None and votes is None):
            raise RequestError("admission: stands in place of state, allowed and votes")
        return self._gatekeeper.own(admission)

    def _ranked(
        self,
        index: Index,
        learned: Learned | None,
        queries: Sequence[str],
        vectors: NDArray[np.float32],
    ) -> list[NDArray[np.int64]]:
        index = self._builder.taught(index, learned)
        everything = Gatekeeper(Gate()).admission(index, Quarantine())
        found = (
            self._searcher.search(everything, query, k=DEPTH, vector=vector)
            for query, vector in zip(queries, vectors, strict=True)
        )
        return [np.array([index.rows[hit.id] for hit in one], np.int64) for one in found]


def _catalog(tools: Iterable[Tool]) -> Catalog:
    return tools if isinstance(tools, Catalog) else Catalog(tools)
