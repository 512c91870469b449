"""Engine: indexes a catalog of tools, searches it, and makes views and sessions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Self, Unpack
from weakref import WeakMethod

from .catalog import Catalog, Tools
from .config import Config
from .decision.decider import decider_for
from .errors import CatalogError, RequestError
from .gating import Gate, State, Votes
from .gating.catalog_gate import RuleProblem
from .gating.gatekeeper import Gatekeeper
from .gating.quarantine import Quarantine
from .gating.votes import without_voting_tools
from .indexing.background import BackgroundBuild, BuildProgress
from .indexing.build import Build, Progress
from .indexing.builder import Builder
from .indexing.configured_tiers import rerankers, strategies, thresholds
from .processes import GuardedLock, paused_gc, return_freed_memory
from .retrieval import Selection, Strategy
from .retrieval.catalog_index import Index
from .retrieval.search.searcher import Searcher
from .retrieval.search.tiers import Tiers
from .retrieval.store.versions import folder_of, saved_settings
from .view import View

if TYPE_CHECKING:
    from .decision import Decider
    from .gating.condition import Mask
    from .loaders.providers import Way
    from .session import Session
    from .setting_types import ConfigSettings, SessionSettings
    from .trust import Flag

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EngineVersion:
    """What answers a request: one catalog version, with all that must fit it.

    An engine replaces the whole at once, so no request meets parts of two versions.

    Args:
        index: the tools and the stages built over them.
        quarantine: the quarantined tools.
        encoder: fingerprint of the encoder of the index; None without one.
        searcher: has the thresholds for the scores of this encoder.
        decider: the calibration for this encoder; None if the decision is off.
    """

    index: Index
    quarantine: Quarantine
    encoder: str | None
    searcher: Searcher
    decider: Decider | None


class Engine:
    """Indexes a catalog of tools and searches it.

    Make one with `from_tools`, `open` or `connect`. With `wait=False` these return at once: the
    first version answers without the encoder, and a thread builds the whole one; see
    `build_progress`, `wait` and `close`. An engine may be used from many threads while `replace`
    changes its catalog: a search uses one version. It belongs to the process that made it: in a
    fork of that process its methods raise `ProcessError`.

    Args:
        builder: builds, opens and saves the indexes, with the settings of a Config.
        build: the build of the first version, begun by `builder`.
        quarantined: tool id to an operator's reason; empty when absent.
        folder: folder of the saved version that `build` begins from; None for a new index.
        progress: called with (tools encoded, tools to encode).
        wait: whether to return only when all tools are encoded.

    Example:
        >>> from shortlist import Engine, Tool
        >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
        >>> engine.search("list the invoices").ids
        ('billing/list_invoices',)
    """

    def __init__(
        self,
        builder: Builder,
        build: Build,
        quarantined: Mapping[str, str] | None = None,
        folder: Path | None = None,
        *,
        progress: Progress | None = None,
        wait: bool = True,
    ) -> None:
        self._builder = builder
        self._wait = wait
        # Folder of a saved version, which takes what is encoded in the background from now on.
        self._folder = None if wait else folder
        self._save_lock = GuardedLock("engine")
        config = builder.config
        self._tiers = Tiers(
            strategies(config), config.default_tier, has_reranker=config.has_reranker
        )
        self._gatekeeper = Gatekeeper(config.gate)
        # The newest catalog, and the build of its index while that is not done.
        self._catalog = build.version.catalog
        self._build: Build | None = build
        self._tools_to_encode = build.tools_to_encode
        # One thread at a time builds, and one replaces the newest catalog.
        self._build_lock = GuardedLock("engine")
        self._update_lock = GuardedLock("engine")
        self._version_lock = GuardedLock("engine")
        self._background = BackgroundBuild(WeakMethod(self._step))
        if wait or not builder.build_runs_model:
            while build.encode_some(progress):
                pass
            index = builder.finish(build)
        else:
            index = builder.make_provisional(build)
        self._trusted_pin_ages = build.version.trusted_pin_ages
        quarantine = Quarantine(quarantined, builder.flags(self._catalog))
        self._version = self._version_of(index, quarantine)
        if index.is_provisional:
            self._background.start()
        else:
            self._build = None
        # Build of a version that another engine wrote, while its texts are encoded.
        self._followed_build: Build | None = None
        self._follower = builder.backend.follow(WeakMethod(self._refresh))

    @classmethod
    def from_tools(
        cls,
        tools: Tools,
        config: Config | None = None,
        *,
        progress: Progress | None = None,
        wait: bool = True,
        **settings: Unpack[ConfigSettings],
    ) -> Self:
        """An engine over these tools.

        Args:
            tools: a Catalog, or anything that `Catalog` accepts, also mixed: Tool objects,
                definitions of MCP, OpenAI or Anthropic, objects of the MCP SDK, tools of LangChain
                or pydantic-ai, Python functions; or a mapping of server to these.
            config: settings, such as those of a file; the defaults when absent.
            progress: called with (tools encoded, tools to encode).
            wait: whether to return only when all tools are encoded. With False, the first version
                answers in the tier `fast` or below until then, see `docs/speed.md`.
            settings: single settings of a Config, in place of those of `config`.

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
        builder = Builder(Config.of(config, settings))
        return cls(builder, builder.begin(_as_catalog(tools)), progress=progress, wait=wait)

    @classmethod
    def connect(
        cls,
        config: Config | None = None,
        *,
        progress: Progress | None = None,
        wait: bool = True,
        **settings: Unpack[ConfigSettings],
    ) -> Self:
        """An engine over the catalog that is in PostgreSQL, as other engines wrote it.

        Args:
            config: settings with `index.backend` "postgres"; see `docs/scale.md`.
            progress: called with (texts encoded, texts to encode).
            wait: as for `from_tools`.
            settings: single settings of a Config, in place of those of `config`.

        Raises:
            ConfigError: a setting is wrong.
            MissingExtraError: psycopg or pgvector is not installed.
            StoreError: the database cannot be reached, or `shortlist migrate` has not run.

        Example:
            >>> from shortlist import Config, Engine, ShortlistError
            >>> config = Config(index={"backend": "postgres", "dsn": "${UNSET_VARIABLE}"})
            >>> try:
            ...     engine = Engine.connect(config)
            ... except ShortlistError as error:
            ...     print(error)
            index.dsn: the environment variable UNSET_VARIABLE is not set
        """
        builder = Builder(Config.of(config, settings))
        return cls(builder, builder.connect(), progress=progress, wait=wait)

    @classmethod
    def open(
        cls,
        folder: str | Path,
        tools: Tools | None = None,
        config: Config | None = None,
        *,
        progress: Progress | None = None,
        wait: bool = True,
        **settings: Unpack[ConfigSettings],
    ) -> Self:
        """Open a saved index, with its quarantined tools.

        Args:
            folder: the folder that `save` wrote.
            tools: the present catalog, if it may have changed. Only tools whose text changed are
                encoded again.
            config: settings. The index remembers encoder, reranker, stages, tiers and example
                queries; what is set here replaces them. Parts that were saved with other settings
                are built again, from the saved tools, and from the saved vectors if the encoder is
                the same.
            progress: called with (tools encoded, tools to encode).
            wait: as for `from_tools`. With False, the encoder is also loaded later, and what it
                encodes is saved next to the index.
            settings: single settings of a Config, in place of those of `config`.

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
        changes = Config.of(config, settings)
        saved_config = saved_settings(folder_of(folder)).get("config", {})
        merged, replaced = changes.merged_with_saved(saved_config)
        if replaced:
            _LOG.info("%s: given in place of saved settings: %s", folder, ", ".join(replaced))
        same_files = merged.settings_to_save().get("index") == saved_config.get("index")
        builder = Builder(merged, files_may_be_gone=same_files)
        catalog = None if tools is None else _as_catalog(tools)
        build, saved = builder.open(folder, catalog)
        return cls(
            builder,
            build,
            saved.quarantined,
            saved.folder,
            progress=progress,
            wait=wait,
        )

    def _sibling(self, tools: Tools, *, pins: Path | None = None) -> Engine:
        """An engine over other tools, in memory, that searches as this one does.

        It has the same tiers and shares the models, so it needs no memory for them. A search of
        this engine can be repeated there with `View.search_among` and is not encoded again. It has
        no rules or example queries. It returns at once, and a thread encodes the tools.

        Args:
            tools: as for `from_tools`.
            pins: file of accepted definitions; None if there are none.
        """
        settings = {
            "index": {"example_queries": []},
            "gate": Gate(),
            "trust": {**dict(self.config.trust), "pins": pins},
        }
        builder = self._builder.sharing_models(Config.of(self.config, settings))
        return type(self)(builder, builder.begin(_as_catalog(tools)), wait=False)

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
        while True:
            with self._save_lock:
                version = self._present_version()
                if version.index.shows_built_tools:
                    saved_folder = self._builder.save(
                        version.index,
                        folder,
                        version.quarantine.operator_reasons,
                        self._catalog.provider_tools,
                    )
                    self._folder = None if self._wait else saved_folder
                    return_freed_memory()
                    return
            # Not under the lock: what a build encodes is saved under it.
            self._finish()

    @property
    def config(self) -> Config:
        """The settings of the engine."""
        return self._builder.config

    @property
    def catalog(self) -> Catalog:
        """The newest catalog. While a build runs, searches may still use the version before."""
        return self._catalog

    @property
    def build_progress(self) -> BuildProgress:
        """How far the build of the newest catalog is.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], wait=False)
            >>> engine.wait().done
            True
        """
        with self._version_lock:
            index, total = self._version.index, len(self._catalog)
            # An empty catalog has nothing to wait for.
            tools_to_encode = (
                0 if index.is_built_over(self._catalog) else max(1, self._tools_to_encode)
            )
        encoded = max(0, total - tools_to_encode)
        return BuildProgress(total, encoded, self._background.error, index.encoded_count)

    def wait(self, timeout_s: float | None = None) -> BuildProgress:
        """Wait until the newest catalog is built, or the build fails; see `build_progress`.

        Args:
            timeout_s: seconds to wait at most; None for no limit.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], wait=False)
            >>> engine.wait(60).fraction
            1.0
        """
        self._version_lock.check()
        self._background.wait(timeout_s)
        return self.build_progress

    def close(self) -> None:
        """Stop building and following changes. The engine still answers searches.

        Example:
            >>> from shortlist import Engine, Tool
            >>> with Engine.from_tools([Tool("list_invoices", "billing")], wait=False) as engine:
            ...     selection = engine.search("list the invoices")  # closed at the end of the block
        """
        if self._follower is not None:
            self._follower.close()
        self._background.close()

    def __repr__(self) -> str:
        tools, servers = len(self._catalog), len(self._catalog.servers)
        return f"Engine({tools} tools, {servers} servers, tiers {', '.join(self.tiers)})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def tiers(self) -> tuple[str, ...]:
        """Names of the tiers that a search can ask for."""
        return self._tiers.names

    def replace(
        self,
        tools: Tools,
        *,
        quarantined: Mapping[str, str] | None = None,
        progress: Progress | None = None,
        wait: bool | None = None,
    ) -> None:
        """Replace the whole catalog. Only changed texts are encoded.

        From the return on, removed tools are not found, changed ones are shown as they are now, and
        the quarantine holds. New tools are found once the new version is built. Until then searches
        use the version before, in all its tiers.

        Args:
            tools: the new catalog, as for `from_tools`.
            quarantined: tool id to reason. Replaces the tools given to `quarantine`, in the same
                step as the catalog; None keeps them. Trust checks the new definitions in any case.
            progress: called with (tools encoded, tools to encode), if this call waits.
            wait: whether to return only when the new version is built. Otherwise a thread builds
                it, with changes that arrive meanwhile; as the engine was made, when absent.

        Raises:
            ModelError: the encoder fails. New tools are not found then; the next change tries
                again.
            RequestError: `quarantined` is not a mapping of ids to reasons.
            PinsError: the file of pins is missing or cannot be read. Nothing has changed in that
                case.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> engine.replace([Tool("send_mail", "mail")])
            >>> [tool.id for tool in engine.catalog]
            ['mail/send_mail']
        """
        catalog = _as_catalog(tools)
        self._change(lambda _: catalog, quarantined, progress, wait)

    def replace_server(
        self,
        server: str,
        tools: Tools,
        *,
        quarantined: Mapping[str, str] | None = None,
        progress: Progress | None = None,
        wait: bool | None = None,
    ) -> None:
        """Replace the tools of one server, or add a server. Otherwise like `replace`.

        Args:
            server: name of the server.
            tools: all its tools now, as for `from_tools`. They take the position of its first tool,
                or the end for a new server. With an empty list its tools are gone.
            quarantined: as for `replace`.
            progress: as for `replace`.
            wait: as for `replace`.

        Raises:
            CatalogError: a tool belongs to another server.
            ModelError, RequestError, PinsError: as for `replace`.

        Example:
            >>> from shortlist import Engine, Tool
            >>> tools = [Tool("list_invoices", "billing"), Tool("send_mail", "mail")]
            >>> engine = Engine.from_tools(tools, tiers=["lexical"])
            >>> engine.replace_server("billing", [Tool("pay_invoice", "billing")])
            >>> [tool.id for tool in engine.catalog]
            ['billing/pay_invoice', 'mail/send_mail']
        """
        self._change(
            lambda newest: newest.replace_server(server, tools), quarantined, progress, wait
        )

    def add(self, tools: Tools, *, wait: bool | None = None) -> None:
        """Add tools; the others stay. Otherwise like `replace`.

        Args:
            tools: the new tools, as for `from_tools`. They come at the end of the catalog.
            wait: as for `replace`.

        Raises:
            CatalogError: the catalog has a tool with one of their ids: `replace_server` changes it.
            ModelError, PinsError: as for `replace`.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> engine.add([Tool("send_mail", "mail")])
            >>> [tool.id for tool in engine.catalog]
            ['billing/list_invoices', 'mail/send_mail']
        """
        added = _as_catalog(tools)

        def with_added(newest: Catalog) -> Catalog:
            taken = [tool.id for tool in added if tool.id in newest]
            if taken:
                raise CatalogError(
                    f"tools: the catalog has {taken[0]!r:.80}; replace_server changes its tools"
                )
            return newest.add(added)

        self._change(with_added, None, None, wait)

    def remove(self, server: str) -> None:
        """Remove the tools of one server. They are not found or called from the return on.

        Raises:
            CatalogError: the catalog has no tools of this server.

        Example:
            >>> from shortlist import Engine, Tool
            >>> tools = [Tool("list_invoices", "billing"), Tool("send_mail", "mail")]
            >>> engine = Engine.from_tools(tools, tiers=["lexical"])
            >>> engine.remove("mail")
            >>> [tool.id for tool in engine.catalog]
            ['billing/list_invoices']
        """
        self._change(lambda newest: newest.remove_server(server), None, None, None)

    def reload_example_queries(self) -> None:
        """Read the files of example queries again, and search with them from the return on.

        Only their new texts are encoded. A build in the background is waited for.

        Raises:
            ConfigError: a file cannot be read, or a row is not valid. Nothing has changed then.
            ModelError: the encoder fails.

        Example:
            >>> import tempfile
            >>> from pathlib import Path
            >>> from shortlist import Engine, Tool
            >>> path = Path(tempfile.mkdtemp()) / "examples.jsonl"
            >>> path.touch()
            >>> settings = {"tiers": ["lexical"], "index": {"example_queries": [path]}}
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], **settings)
            >>> _ = path.write_text('{"tool": "billing/list_invoices", "requests": ["who owes?"]}')
            >>> engine.reload_example_queries()
            >>> engine.search("who owes").ids
            ('billing/list_invoices',)
        """
        self.wait()
        with self._build_lock:
            self._builder.reload_example_queries()
            index, catalog = self._index_and_catalog()
            build = self._builder.begin(
                catalog,
                index,
                unfinished=self._build,
                trusted_pin_ages=self._trusted_pin_ages,
                rematch_all=True,
            )
            while build.encode_some():
                pass
            finished, self._build = self._builder.finish(build), None
            with self._update_lock:
                # The catalog may have changed since: what was removed stays removed.
                self._publish(finished.showing(self._catalog))

    def reload_pins(self) -> None:
        """Decide again which definitions are quarantined, with the pins as they are now.

        Raises:
            PinsError: the file of pins is missing or cannot be read. Nothing has changed then.

        Example:
            >>> import tempfile
            >>> from pathlib import Path
            >>> from shortlist import Engine, Tool
            >>> from shortlist.trust import Pins
            >>> path = Path(tempfile.mkdtemp()) / "pins.json"
            >>> Pins().save(path)
            >>> tools = [Tool("list_invoices", "billing")]
            >>> engine = Engine.from_tools(tools, tiers=["lexical"], trust={"pins": path})
            >>> Pins().pin([Tool("list_invoices", "billing", "Another text")]).save(path)
            >>> engine.reload_pins()
            >>> list(engine.quarantined)
            ['billing/list_invoices']
        """
        self._change(lambda newest: newest, None, None, None)

    def _change(
        self,
        change: Callable[[Catalog], Catalog],
        quarantined: Mapping[str, str] | None,
        progress: Progress | None,
        wait: bool | None,
    ) -> None:
        """Use another catalog, made of the newest one; see `replace`."""
        reasons = None if quarantined is None else Quarantine(quarantined).reasons
        wait = (self._wait if wait is None else wait) or not self._builder.build_runs_model
        with self._update_lock, paused_gc():
            catalog = without_voting_tools(change(self._catalog))
            trusted_pin_ages = self._builder.trusted_pin_ages(catalog)
            version = self._present_version()
            flags = self._builder.flags(catalog, version.quarantine.flags)
            index = version.index.showing(catalog)
            is_whole = index.is_built_over(catalog)
            if not is_whole and not wait and (index.is_provisional or not index.built_tools):
                # No tier finds more yet than a first version does.
                build = self._builder.begin(
                    catalog, index, unfinished=self._build, trusted_pin_ages=trusted_pin_ages
                )
                index = self._builder.make_provisional(build)
            else:
                index = replace(index, encoded_count=0)
            self._trusted_pin_ages = trusted_pin_ages
            self._publish(index, reasons, flags, catalog=catalog)
        if is_whole:
            return
        if wait:
            self._finish(progress)
        else:
            self._background.start()

    def view(
        self,
        state: State | None = None,
        *,
        allowed: Iterable[str] | None = None,
        votes: Votes | None = None,
        rules: Gate | None = None,
        visible: Callable[[Index], Mask | None] | None = None,
    ) -> View:
        """The tools that one caller may use now, to search them and to check calls.

        Args:
            state: scopes, earlier calls, milestones and facts of the agent; empty when absent.
            allowed: ids or globs such as `billing/*` that the caller is limited to; all tools when
                absent. Globs match exactly, letter case included.
            votes: votes of servers on their own tools for this turn.
            rules: further rules for this caller. The rules of the engine must hold too.
            visible: function that gives the rows of a catalog version that exist for the caller, as
                in `View.limited_to`; all rows when absent.

        Raises:
            RequestError: an argument of the wrong type.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> engine.view(allowed=["billing/*"]).permits("billing/list_invoices")
            True
        """
        if visible is not None and not callable(visible):
            raise RequestError(f"visible: a function, not {type(visible).__name__}")
        version = self._present_version()
        keeper = self._gatekeeper.with_rules(rules)
        admission = keeper.admission(
            version.index,
            version.quarantine,
            state,
            allowed,
            votes,
            visible=None if visible is None else visible(version.index),
        )
        return View(admission, version.searcher, version.decider)

    def session(
        self,
        provider: str | None = None,
        *,
        tools: Way | None = None,
        state: State | None = None,
        allowed: Iterable[str] | None = None,
        session_id: str | None = None,
        **settings: Unpack[SessionSettings],
    ) -> Session:
        """A new session for one conversation.

        Args:
            provider: whose requests and messages it writes: `openai` (chat completions),
                `openai_responses`, `anthropic`, or `text`; nothing is rendered if absent.
            tools: how found tools reach the model: `call_tool`, `append`, `search` or `list`, see
                `docs/loading.md`; the provider's default when absent.
            state: scopes, earlier calls, milestones and facts of the agent; empty when absent.
            allowed: ids or globs the session is limited to; all tools when absent.
            session_id: names the session in events; random when absent.
            settings: single settings of `SessionConfig`, in place of those of the engine's config.

        Raises:
            ConfigError: an unknown setting, or a wrong value.
            RequestError: there is no such provider, way or tier.
            UnknownToolError: a tool of the setting `pinned` is not in the catalog.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> session = engine.session("openai", tools="list")
            >>> turn = session.turn("which invoices are overdue?")
            >>> [tool["function"]["name"] for tool in session.tools]
            ['billing__list_invoices']
        """
        from .session import Session
        from .session.session_data import SessionData, checked_allowed, new_id

        self._version_lock.check()
        data = SessionData(
            id=new_id() if session_id is None else session_id,
            provider=provider,
            way=tools,
            state=State() if state is None else state,
            allowed=checked_allowed(allowed),
        )
        return Session(self, self.config.session.changed(settings), data)

    def resume(
        self,
        saved: Mapping[str, Any],
        *,
        state: State | None = None,
        allowed: Iterable[str] | EllipsisType | None = ...,
        **settings: Unpack[SessionSettings],
    ) -> Session:
        """A session continued from the result of `Session.save`, also over a newer catalog.

        Args:
            saved: the result of `Session.save`.
            state: scopes and facts of the agent as they are now, so that nothing is restored that
                was revoked since; none when absent. The calls and milestones of the session are
                added.
            allowed: ids or globs the session is limited to now; as saved when absent.
            settings: as for `session`, in place of the saved ones. `events` is never saved: give it
                again.

        Raises:
            RequestError: `saved` is damaged, or another version of shortlist wrote it.
            ConfigError: an unknown setting, or a wrong value.

        Example:
            >>> from shortlist import Engine, State, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> session = engine.session()
            >>> turn = session.turn("list the invoices")
            >>> engine.resume(session.save(), state=State()).active
            ('billing/list_invoices',)
        """
        from .session.session import resumed_session

        self._version_lock.check()
        state = State() if state is None else state
        return resumed_session(self, saved, settings, state=state, allowed=allowed)

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
            RequestError: the query is empty, an argument is of the wrong type or out of range, or
                there is no such tier.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> engine.search("overdue invoices", k=5).ids
            ('billing/list_invoices',)
        """
        start = perf_counter()
        return self.view()._search(start, query, tier=tier, k=k, budget_ms=budget_ms)

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
        with self._version_lock:
            quarantine = self._version.quarantine.replaced(reasons)
            self._version = replace(self._version, quarantine=quarantine)

    @property
    def quarantined(self) -> Mapping[str, str]:
        """Tool id to the reason, for each tool that is quarantined."""
        return self._present_version().quarantine.reasons

    @property
    def flags(self) -> Mapping[str, Flag]:
        """Tool id to the findings of trust, with warnings. For operators: it quotes definitions."""
        return self._present_version().quarantine.flags

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
        index = self._present_version().index
        gate = self._gatekeeper.with_rules(rules).catalog_gate(index)
        return gate.after_call(state, tool_id)

    @property
    def problems(self) -> tuple[RuleProblem, ...]:
        """Problems of the gate's rules with the present catalog; empty if there are none."""
        return self._gatekeeper.catalog_gate(self._present_version().index).problems

    def _finish(self, progress: Progress | None = None) -> None:
        """Build the newest catalog in this thread, with updates that arrive meanwhile."""
        while self._step(progress):
            pass

    def _step(self, progress: Progress | None = None) -> bool:
        """Do a part of the build of the newest catalog; returns whether there is more to do."""
        with self._build_lock:
            index, catalog = self._index_and_catalog()
            if index.is_built_over(catalog):
                self._build = None
                return False
            build = self._build
            if build is None or build.version.catalog is not catalog:
                build = self._build = self._builder.begin(
                    catalog, index, unfinished=build, trusted_pin_ages=self._trusted_pin_ages
                )
            has_encoded = build.encode_some(progress)
            self._tools_to_encode = build.tools_to_encode
            if has_encoded:
                self._save_encoded(build)
                return True
            finished, self._build = self._builder.finish(build), None
            with self._update_lock:
                # An update may have come since: what it removed stays removed.
                self._publish(finished.showing(self._catalog))
                has_more = not self._version.index.is_built_over(self._catalog)
            return_freed_memory()
            return has_more

    def _refresh(self) -> bool:
        """Use the catalog as other engines have written it, if they have changed it.

        Returns whether texts of it may wait for an encoder: the engine that wrote them may have
        ended. Each call encodes some.
        """
        if (followed := self._followed_build) is not None:
            if not followed.encode_some():
                self._followed_build = None
            return True
        with self._build_lock:
            index, catalog = self._index_and_catalog()
            # A change of this engine is written first.
            if not index.is_built_over(catalog) or not self._builder.backend.has_newer_than(index):
                return False
            build = self._builder.connect(index)
            newest = self._builder.finish(build)
            with self._update_lock:
                if self._catalog is not catalog:
                    return False
                newest_catalog = build.version.catalog
                newest_catalog.provider_tools = catalog.provider_tools
                flags = self._builder.flags(newest_catalog, self.flags)
                self._trusted_pin_ages = build.version.trusted_pin_ages
                self._publish(newest, flags=flags, catalog=newest_catalog)
            self._followed_build = build
        return True

    def _present_version(self) -> EngineVersion:
        """The version that answers now."""
        with self._version_lock:
            return self._version

    def _index_and_catalog(self) -> tuple[Index, Catalog]:
        """The index that answers now, and the newest catalog."""
        with self._version_lock:
            return self._version.index, self._catalog

    def _version_of(
        self, index: Index, quarantine: Quarantine, present: EngineVersion | None = None
    ) -> EngineVersion:
        """The version with this index, whose rules are compiled.

        Args:
            index: the tools and stages.
            quarantine: the quarantined tools.
            present: the version before, whose searcher serves an index of the same encoder.
        """
        index = self._builder.with_copies_ranked_behind(index, self._trusted_pin_ages)
        self._gatekeeper.catalog_gate(index)
        encoder = self._builder.encoder_of(index)
        if present is not None and present.encoder == encoder:
            return replace(present, index=index, quarantine=quarantine)
        config = self.config
        decider = decider_for(config.abstention, encoder, rerankers(config), config.abstention_loss)
        searcher = Searcher(self._tiers, config.k, thresholds(config, decider))
        return EngineVersion(index, quarantine, encoder, searcher, decider)

    def _save_encoded(self, build: Build) -> None:
        """Save what was encoded beside the saved index, so that a killed process keeps it."""
        with self._save_lock:
            if self._folder is not None:
                try:
                    build.save_encoded(self._folder)
                except OSError as error:
                    _LOG.info("%s: encoded vectors cannot be saved: %s", self._folder, error)
                    self._folder = None

    def _publish(
        self,
        index: Index,
        reasons: Mapping[str, str] | None = None,
        flags: Mapping[str, Flag] | None = None,
        *,
        catalog: Catalog | None = None,
    ) -> None:
        """Use a version, and perhaps another quarantine and a newer catalog, from now on.

        Args:
            index: the version.
            reasons: quarantined by the operator; absent reasons stay as they are.
            flags: decided by trust; absent ones stay as they are.
            catalog: the newest catalog.
        """
        present = self._present_version()
        version = self._version_of(index, present.quarantine, present)
        with self._version_lock:
            # `quarantine` may have been called meanwhile.
            quarantine = self._version.quarantine.replaced(reasons, flags)
            self._version = replace(version, quarantine=quarantine)
            if catalog is not None:
                self._catalog = catalog
                self._tools_to_encode = version.index.pending_count


def _as_catalog(tools: Tools) -> Catalog:
    """The tools as a catalog; a catalog as it is."""
    return tools if isinstance(tools, Catalog) else Catalog(tools)
