"""Engine: indexes a catalog of tools, searches it, and makes views and sessions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakMethod

from .builder import Builder, ranked
from .catalog import Catalog, Tools
from .config import Config
from .decision.decider import decider_for
from .encoding import BackgroundEncoding, Ready
from .errors import ModelError, RequestError
from .gating import Gate, State, Votes
from .gating.gatekeeper import Gatekeeper
from .gating.problem import Problem
from .gating.quarantine import Quarantine
from .processes import GuardedLock
from .retrieval import Selection, Strategy
from .retrieval.batch import Read
from .retrieval.index import Index
from .retrieval.searcher import Searcher
from .retrieval.tiers import Tiers
from .retrieval.usage import UsageEvent, checked_events
from .stages import Progress
from .strategies import rerankers, thresholds
from .view import View

if TYPE_CHECKING:
    from .loaders import SchemaLoader
    from .retrieval.learning import LearningReport
    from .session import Session
    from .trust import Flag

_LOG = logging.getLogger(__name__)
# Tools encoded before they are searched so, and versions that a large catalog goes through at most.
_BATCH, _VERSIONS = 64, 64
# Texts after which the encoding can stop.
_TEXTS = 16


class Engine:
    """Indexes a catalog of tools and searches it.

    Make one with `from_tools`, `from_config` or `open`. With `wait=False` these return at once: new
    tools are searched by static vectors, and a thread encodes them; see `ready`, `wait` and
    `close`. An engine may be used from many threads
    while `update` replaces its catalog: a search uses one version. It belongs to the
    process that made it: in a fork of that process its methods raise `ProcessError`.

    Example:
        >>> from shortlist import Engine, Tool
        >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
        >>> engine.search("list the invoices").ids
        ('billing/list_invoices',)
    """

    def __init__(
        self,
        builder: Builder,
        index: Index,
        quarantined: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self._builder = builder
        self._index = index
        # Of the version on disk that takes what is encoded from now on.
        self._folder = folder
        self._saving = GuardedLock("engine")
        self._used: dict[str, None] = {}
        self._tiers = Tiers(builder.strategies(), builder.config.default_tier)
        self._gatekeeper = Gatekeeper(builder.config.gate)
        self._gatekeeper.over(index)
        self._quarantine = Quarantine(quarantined, builder.flags(index.catalog))
        self._updating = GuardedLock("engine")
        # A request reads, and a change replaces, the version and its quarantine together.
        self._offering = GuardedLock("engine")
        encoder = None if index.encoder is None else index.encoder.fingerprint
        config = builder.config
        self._decider = decider_for(config.decision, encoder, rerankers(config))
        self._searcher = Searcher(self._tiers, config.k, thresholds(config, self._decider))
        wanted = builder.stages.models.wanted()
        self._encoding = BackgroundEncoding(WeakMethod(self._encode_some), wanted)
        if index.pending or wanted is not None:
            self._encoding.start()

    @classmethod
    def from_tools(
        cls,
        tools: Tools,
        config: Config | None = None,
        *,
        progress: Progress | None = None,
        wait: bool = True,
        **settings: Any,
    ) -> Self:
        """An engine over these tools.

        Args:
            tools: a Catalog, or anything that `Catalog` accepts: Tool objects, definitions, objects
                of the MCP SDK.
            config: all settings; the defaults when absent.
            progress: called with (tools encoded, tools to encode).
            wait: whether to return only when all tools are encoded. False returns at once, see
                `docs/instant.md`.
            settings: single settings of a Config, in place of `config`.

        Raises:
            ConfigError: a setting is wrong.
            ModelError: the encoder cannot be loaded.
            PinsError: the file of pins is missing or cannot be read.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> len(engine.catalog)
            1
        """
        builder = Builder(Config.of(config, settings), wait=wait)
        return cls(builder, builder.build(_catalog(tools), progress=progress))

    @classmethod
    def from_config(
        cls, source: str | Path | Mapping[str, Any], tools: Tools, *, wait: bool = True
    ) -> Self:
        """An engine over these tools, with a configuration from a file or a mapping.

        Args:
            source: a path, or a mapping of settings.
            tools: as for `from_tools`.
            wait: as for `from_tools`.

        Example:
            >>> from shortlist import Engine, Tool
            >>> tools = [Tool("list_invoices", "billing")]
            >>> Engine.from_config({"tiers": ["lexical"], "k": 5}, tools).config.k
            5
        """
        return cls.from_tools(tools, Config.read(source), wait=wait)

    @classmethod
    def open(
        cls,
        folder: str | Path,
        tools: Tools | None = None,
        config: Config | None = None,
        *,
        progress: Progress | None = None,
        wait: bool = True,
        **settings: Any,
    ) -> Self:
        """Open a saved index, with its quarantined tools.

        Args:
            folder: the folder that `save` wrote.
            tools: the present catalog, if it may have changed. Only tools whose text changed are
                encoded again.
            config: all settings; the defaults when absent. Parts that were saved with other
                settings are built again, from the saved tools, and from the saved vectors if the
                encoder is the same.
            progress: called with (tools encoded, tools to encode).
            wait: as for `from_tools`. With False, the encoder is also loaded later, and new vectors
                are saved next to the index.
            settings: single settings of a Config, in place of `config`.

        Raises:
            StoreError: the folder has no readable index.
            PinsError: the file of pins is missing or cannot be read.

        Example:
            >>> from tempfile import mkdtemp
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> folder = mkdtemp()
            >>> engine.save(folder)
            >>> Engine.open(folder, tiers=["lexical"]).search("list invoices").ids
            ('billing/list_invoices',)
        """
        builder = Builder(Config.of(config, settings), wait=wait)
        catalog = None if tools is None else _catalog(tools)
        index, saved = builder.open(folder, catalog, progress=progress)
        return cls(builder, index, saved.quarantined, saved.folder)

    def save(self, folder: str | Path) -> None:
        """Save the index to a folder, atomically.

        The tools given to `quarantine` are saved too. A save that fails or is interrupted removes
        its own files, and the previous version stays current.

        Raises:
            StoreError: another process is writing, or a file cannot be written.

        Example:
            >>> from tempfile import mkdtemp
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> folder = mkdtemp()
            >>> engine.save(folder)
            >>> len(Engine.open(folder, tiers=["lexical"]).catalog)
            1
        """
        with self._saving:
            with self._offering:
                index, quarantine = self._index, self._quarantine
            self._folder = self._builder.save(index, folder, quarantine.given)

    @property
    def config(self) -> Config:
        """The settings of the engine."""
        return self._builder.config

    @property
    def catalog(self) -> Catalog:
        """The present catalog version."""
        return self._index.catalog

    @property
    def encoded(self) -> int:
        """Number of tools that were encoded to make the present index."""
        return self._index.encoded

    @property
    def ready(self) -> Ready:
        """How far the encoder is with the tools.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], wait=False)
            >>> engine.wait().done
            True
        """
        index = self._index
        total = len(index.tools)
        return Ready(total, max(0, total - index.pending), self._encoding.error)

    def wait(self, timeout_s: float | None = None) -> Ready:
        """Wait until the encoder is loaded and has read all tools, or fails; see `ready`.

        Args:
            timeout_s: seconds to wait at most; None for no limit.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], wait=False)
            >>> engine.wait(60).fraction
            1.0
        """
        self._offering.check()
        self._encoding.wait(timeout_s)
        return self.ready

    def close(self) -> None:
        """Stop encoding in the background. The engine still answers searches.

        Example:
            >>> from shortlist import Engine, Tool
            >>> with Engine.from_tools([Tool("list_invoices", "billing")], wait=False) as engine:
            ...     found = engine.search("list the invoices")  # closed at the end of the block
        """
        self._encoding.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def tiers(self) -> tuple[str, ...]:
        """Names of the tiers that a search can ask for."""
        return self._tiers.names

    def update(
        self,
        tools: Tools,
        *,
        server: str | None = None,
        quarantined: Mapping[str, str] | None = None,
        progress: Progress | None = None,
        wait: bool | None = None,
    ) -> None:
        """Replace the catalog, or the tools of one server. Only changed tools are indexed again.

        Searches that are already running use the old version, later ones the new.

        Args:
            tools: the whole new catalog, or with `server` all tools of that server.
            server: replace only the tools of this server. They take the position of its first tool.
                An empty list removes the server.
            quarantined: tool id to reason. Replaces the tools given to `quarantine`, in the same
                step as the catalog; None keeps them. Trust checks the new definitions in any case.
            progress: called with (tools encoded, tools to encode).
            wait: whether to return only when all tools are encoded; as the engine was made, when
                absent.

        Raises:
            ModelError: the encoder fails; nothing has changed then, but for tools that wait for it.
            RequestError: `quarantined` is not a mapping of ids to reasons.
            CatalogError: a tool belongs to another server than `server`.
            PinsError: the file of pins is missing or cannot be read. Nothing has changed in that
                case.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> engine.update([Tool("pay_invoice", "billing")], server="billing")
            >>> [tool.id for tool in engine.catalog]
            ['billing/pay_invoice']
        """
        told = None if quarantined is None else Quarantine(quarantined).reasons
        with self._updating:
            old = self._index
            given = _catalog(tools) if server is None else old.catalog.replace_server(server, tools)
            # While other tools wait for the encoder, these join them.
            at_once = False if old.pending else wait
            index = self._builder.updated(old, given, progress=progress, wait=at_once)
            self._offer(index, told, self._builder.flags(index.catalog, self._quarantine.flags))
        if index.pending:
            self._encoding.start()
            if wait and (error := self.wait().error):
                raise ModelError(error)

    @property
    def learned(self) -> Mapping[str, Any] | None:
        """How many events `learn` took in, under `events`; None if nothing was learned."""
        learned = self._index.learned
        return None if learned is None else learned.to_dict()

    def learn(self, events: Iterable[UsageEvent]) -> LearningReport:
        """Improve the search from recorded queries and the tools that were right for them.

        The result replaces that of an earlier call, but only if it makes the default tier better on
        held-out events. Searches that are already running use the old version.

        Args:
            events: all recorded events, also those of earlier calls;
                `evals.dataset.read_queries` reads them from files.

        Raises:
            ModelError: tools wait for the encoder, and it fails.
            RequestError: `events` is not a list of events, no tier uses vectors, or no event names
                a tool of the catalog.

        Example:
            >>> from shortlist import Engine
            >>> from shortlist.demo import load_catalog
            >>> from shortlist.retrieval.usage import UsageEvent
            >>> engine = Engine.from_tools(load_catalog())
            >>> report = engine.learn([UsageEvent("tell the team", ("slack/post_message",))])
            >>> report.accepted, report.events
            (False, 1)
        """
        if self._index.pending and (error := self.wait().error):
            raise ModelError(error)
        from .retrieval.learning import learn

        with self._updating:
            index = self._index
            again = partial(ranked, self._builder, self._searcher, index)
            tier, _ = self._tiers.asked(None)
            report, learned = learn(index, checked_events(events), tier=tier, ranked=again)
            if learned is not None:
                self._offer(self._builder.taught(index, learned))
        return report

    def forget(self) -> None:
        """Undo `learn`.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> engine.forget()
            >>> engine.learned is None
            True
        """
        with self._updating:
            if self._index.learned is not None:
                self._offer(self._builder.taught(self._index, None))

    def view(
        self,
        state: State | None = None,
        *,
        allowed: Iterable[str] | None = None,
        votes: Votes | None = None,
        rules: Gate | None = None,
    ) -> View:
        """The tools that one caller may use now, to search them and to check calls.

        Args:
            state: scopes, earlier calls, milestones and facts of the agent; empty when absent.
            allowed: ids or globs such as `billing/*` that the caller is limited to; all tools when
                absent. Globs match exactly, letter case included.
            votes: votes of servers on their own tools for this turn.
            rules: further rules for this caller. The rules of the engine must hold too.

        Raises:
            RequestError: an argument of the wrong type.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> engine.view(allowed=["billing/*"]).permits("billing/list_invoices")
            True
        """
        with self._offering:
            index, quarantine = self._index, self._quarantine
        keeper = self._gatekeeper.joined(rules)
        admission = keeper.admission(index, quarantine, state, allowed, votes)
        return View(admission, self._searcher, self._decider)

    def session(
        self,
        *,
        format: str | None = None,  # noqa: A002 - the field's word
        state: State | None = None,
        allowed: Iterable[str] | None = None,
        schemas: SchemaLoader | None = None,
        session_id: str | None = None,
        **settings: Any,
    ) -> Session:
        """A new session for one conversation.

        Args:
            format: the provider's format in which tools are rendered: `openai`, `anthropic`,
                `anthropic_search`, `openai_call_tool`, `anthropic_call_tool` or `text`; nothing is
                rendered if absent.
            state: scopes, earlier calls, milestones and facts of the agent; empty when absent.
            allowed: ids or globs the session is limited to; all tools when absent.
            schemas: loads definitions that the catalog lacks.
            session_id: names the session in events; random when absent.
            settings: single settings of `SessionConfig`, in place of those of the engine's config.

        Raises:
            ConfigError: an unknown setting, or a wrong value.
            RequestError: there is no such format or tier.
            UnknownToolError: a tool of the setting `pinned` is not in the catalog.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> session = engine.session(format="openai")
            >>> turn = session.turn("which invoices are overdue?")
            >>> [tool["function"]["name"] for tool in turn.tools]
            ['billing__list_invoices']
        """
        from .session import Session
        from .session.data import SessionData, checked_allowed, new_id

        self._offering.check()
        data = SessionData(
            id=new_id() if session_id is None else session_id,
            format=format,
            state=State() if state is None else state,
            allowed=checked_allowed(allowed),
        )
        return Session(self, self.config.session.changed(settings), data, schemas)

    def resume(
        self,
        saved: Mapping[str, Any],
        *,
        schemas: SchemaLoader | None = None,
        **settings: Any,
    ) -> Session:
        """A session continued from the result of `Session.save`, also over a newer catalog.

        Args:
            saved: the result of `Session.save`.
            schemas: as for `session`.
            settings: as for `session`, in place of the saved ones. `events` is never saved: give it
                again.

        Raises:
            RequestError: `saved` is damaged, or another version of shortlist wrote it.
            ConfigError: an unknown setting, or a wrong value.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> session = engine.session()
            >>> turn = session.turn("list the invoices")
            >>> engine.resume(session.save()).active
            ('billing/list_invoices',)
        """
        from .session import Session

        self._offering.check()
        return Session.resumed(self, saved, settings, schemas)

    def search(
        self,
        query: str,
        *,
        tier: str | Strategy | None = None,
        k: int | None = None,
        budget_ms: float | None = None,
    ) -> Selection:
        """The tools that fit a query, best first, for an agent without scopes or earlier calls.

        Args:
            query: what to search for, in any words.
            tier: name of a tier, `auto` for the best that fits `budget_ms`, or a strategy of your
                own; the configured default when absent.
            k: number of hits at most; the configured number when absent.
            budget_ms: time limit of the answer in milliseconds; see `View.search`.

        Raises:
            RequestError: an argument is of the wrong type or out of range, or no such tier exists.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> engine.search("overdue invoices", k=5).ids
            ('billing/list_invoices',)
        """
        start, seen = perf_counter(), self.view().admission
        return self._searcher.search(seen, query, tier=tier, k=k, budget_ms=budget_ms, start=start)

    def quarantine(self, reasons: Mapping[str, str]) -> None:
        """Deny these tools until an operator approves them.

        They are added to those that trust quarantines. `save` saves them.

        Args:
            reasons: tool id to the reason, which only operators see. Replaces the tools of an
                earlier call. An id that is not in the catalog yet is quarantined when it is added.

        Raises:
            RequestError: `reasons` is not a mapping of ids to reasons.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> engine.quarantine({"billing/list_invoices": "under review"})
            >>> engine.view().refusal("billing/list_invoices").kind
            'quarantined'
        """
        with self._offering:
            self._quarantine = self._quarantine.replaced(reasons)

    @property
    def quarantined(self) -> Mapping[str, str]:
        """Tool id to the reason, for each tool that is quarantined."""
        return self._quarantine.reasons

    @property
    def flags(self) -> Mapping[str, Flag]:
        """Tool id to the findings of trust, with warnings. For operators: it quotes definitions."""
        return self._quarantine.flags

    def after_call(self, state: State, tool_id: str, *, rules: Gate | None = None) -> State:
        """The state after a successful call of a tool, with the milestones that the call reaches.

        Scopes and facts in a rule's `provides` are not added: the caller must grant and set them.
        `rules` are further rules of the caller, as for `view`.

        Example:
            >>> from shortlist import Engine, Tool
            >>> from shortlist import State
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> engine.after_call(State(), "billing/list_invoices").called
            ('billing/list_invoices',)
        """
        if not isinstance(state, State):
            raise RequestError(f"state: a State, not {type(state).__name__}")
        if not isinstance(tool_id, str):
            raise RequestError(f"tool_id: an id, not {type(tool_id).__name__}")
        if self._index.pending:
            self._used[tool_id] = None
        return self._gatekeeper.joined(rules).over(self._index).after_call(state, tool_id)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Problems of the gate's rules with the present catalog; empty if there are none."""
        return self._gatekeeper.problems(self._index)

    def _encode_some(self, stopped: Callable[[], bool]) -> bool:
        """Encode one batch of tools that wait for it; whether others do."""
        index = self._index
        first = (*self.config.session.pinned, *reversed(list(self._used)))
        batch = self._builder.batch(index, first, max(_BATCH, len(index.tools) // _VERSIONS))
        if batch is None:
            self._builder.stages.load_encoder()
            return False
        parts = []
        for part in batch.parts(_TEXTS):
            if stopped():
                break
            parts.append(self._builder.stages.read(part))
        if not parts:
            return True
        read = Read.joined(parts)
        with self._updating:
            index = self._builder.filled(self._index, read)
            self._offer(index)
        with self._saving:
            if self._folder is not None:
                try:
                    read.append(self._folder)
                except OSError as error:
                    _LOG.info("%s: encoded vectors cannot be saved: %s", self._folder, error)
                    self._folder = None
        return index.pending > 0

    def _offer(self, index: Index, *changes: Mapping[str, Any] | None) -> None:
        """Use this version from now on. `changes` are arguments of `Quarantine.replaced`."""
        self._gatekeeper.over(index)
        with self._offering:
            self._index = index
            self._quarantine = self._quarantine.replaced(*changes)


def _catalog(tools: Tools) -> Catalog:
    return tools if isinstance(tools, Catalog) else Catalog(tools)
