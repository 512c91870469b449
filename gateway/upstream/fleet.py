"""All servers behind the gateway, and the engine over their tools."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import mcp.types as types
from anyio.abc import TaskGroup

from ...catalog import Catalog, Tool
from ...catalog.pattern import Pattern
from ...errors import CatalogError, PinsError, StoreError
from ..connections.server_log import ServerLog, error_line, log_opener
from ..connections.server_process import RunningProcesses
from ..connections.server_spec import ServerSpec
from ..connections.transport import Transport, transport_over
from .call import Answer, Call
from .first_use import FirstUsePins
from .listed_tools import ListedTools
from .pending_calls import PendingCalls
from .server_connection import ServerState, Upstream, UpstreamError
from .server_lists import Listing
from .server_messages import MessageHandlers
from .start_cache import ListingCache, SavedIndex, fingerprints_of

#: Name of the placeholder tool of a server that starts only when the tool is called.
START_TOOL_NAME = "start_server"


def start_tool(server: str, description: str) -> Tool:
    """The placeholder that a search finds for a server whose tools are not known yet.

    Args:
        server: its name.
        description: purpose of the server, written by the operator.
    """
    instruction = f"Call this to start the server {server}; its tools are found then."
    return Tool(
        START_TOOL_NAME,
        server,
        f"{description.strip()}\n\n{instruction}",
        {"type": "object", "properties": {}},
    )


def started_result(server: str) -> types.CallToolResult:
    """The answer to a call of `start_tool`."""
    call = json.dumps({"query": "...", "server": server}, ensure_ascii=False)
    text = f"The server {server!r} is started. Find its tools with search_tools {call}"
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)],
        structured_content={"server": server, "started": True},
    )


def entry_problem(problem: str) -> str:
    """What models are told of a problem in a server's entry; it never holds a value."""
    return f"the operator must correct its entry in the configuration: {problem}"


_LOG = logging.getLogger("shortlist.gateway")
#: Seconds between a change of the tools and the saving of their index.
_SAVE_DELAY_S = 2.0


class Fleet:
    """The servers, their states, and one engine over their tools.

    Args:
        specs: the servers; their names must be unique.
        engine_settings: settings of `Config` for the engine.
        listing_cache: lists of the servers from their last start; the index is saved in the same
            folder.
        open_log: opens the log for the stderr of a server's process.
        transport: function that opens connections.
        idle_stop_s: a server is stopped after this many seconds without a call; None for never.
        descriptions: server name to description, for servers that start only when they are called.
        timeouts: glob over tool ids to the seconds that a call may take without progress. The first
            match replaces the server's limit.
        processes: file of the running processes. The next gateway ends them if this one was killed.
        pins: folder where new definitions are pinned; None to accept every change.
        unusable_servers: configured server whose entry cannot be used, to the problem.
        starts_unlisted: whether `run` starts the servers whose tools are not known yet. Otherwise
            a server starts when it is asked to.

    Attributes:
        engine: engine with the tools of all servers.
        listed_tools: what the servers list besides the definitions of their tools.
        upstreams: name to server.
        message_handlers: receives server messages that belong to no request.
        pending_calls: requests that continue while their clients answer a question.
        stopped: set when `run` and all servers have ended.
        on_state: called with a server after each start, stop or failure.
        on_change: called with a server's name after each change of its tools.
        pins_reload_count: how often another process changed the pins.
    """

    def __init__(
        self,
        specs: Iterable[ServerSpec],
        *,
        engine_settings: Mapping[str, Any] | None = None,
        listing_cache: ListingCache | None = None,
        open_log: Callable[[str], ServerLog] | None = None,
        transport: Transport | None = None,
        idle_stop_s: float | None = None,
        descriptions: Mapping[str, str] | None = None,
        timeouts: Mapping[str, float] | None = None,
        processes: RunningProcesses | None = None,
        pins: FirstUsePins | None = None,
        unusable_servers: Mapping[str, str] | None = None,
        starts_unlisted: bool = True,
    ) -> None:
        self._problems_of_entries = dict(unusable_servers or {})
        self._pins = pins
        self._starts_unlisted = starts_unlisted
        self._listing_cache = listing_cache or ListingCache.default()
        self._processes = processes or RunningProcesses.default()
        self._open_log = open_log or log_opener()
        self._transport = transport or transport_over(self._processes)
        self._idle_stop_s = idle_stop_s
        self._descriptions = dict(descriptions or {})
        self._timeouts = [(Pattern(glob), limit) for glob, limit in (timeouts or {}).items()]
        self._update_lock = anyio.Lock()
        self._group: TaskGroup | None = None
        self.message_handlers = MessageHandlers()
        self.pending_calls = PendingCalls()
        self.stopped = anyio.Event()
        self.on_state: Callable[[Upstream], None] | None = None
        self.on_change: Callable[[str], None] | None = None
        self.pins_reload_count = 0
        self.upstreams: dict[str, Upstream] = {}
        #: Server to the stamp of its saved lists when they were read.
        self._listing_stamps: dict[str, str] = {}
        self.listed_tools = ListedTools()
        tools = [tool for spec in specs if not spec.disabled for tool in self._add_server(spec)]
        settings = dict(engine_settings or {})
        if pins is not None:
            pins.start(self.upstreams, [*Catalog(tools), *self.listed_tools.skill_tools()])
            settings["trust"] = {**settings.get("trust", {}), "pins": pins.path}
        self._index = SavedIndex(
            folder=self._listing_cache.folder / "index", servers=self.upstreams, settings=settings
        )
        self.engine = self._index.engine(tools)
        self._followed_catalog = self.engine.catalog
        self._foreign_ids_cache: tuple[Catalog | None, Mapping[str, Upstream], frozenset[str]] = (
            None,
            {},
            frozenset(),
        )
        self._index_changed = anyio.Event()
        if (progress := self.engine.build_progress).newly_encoded or not progress.done:
            self._index_changed.set()

    async def run(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve until cancelled. Unlisted servers start at once if `starts_unlisted` is true."""
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                for upstream in self.upstreams.values():
                    self._start_task(upstream)
                task_status.started()
                group.start_soon(self._save_index_when_changed)
                for pid in await anyio.to_thread.run_sync(self._processes.end_leftovers):
                    _LOG.warning("ended process %d, left behind by a killed gateway", pid)
                await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.engine.close)
            self.stopped.set()

    async def reload(
        self, specs: Iterable[ServerSpec], unusable_servers: Mapping[str, str] | None = None
    ) -> None:
        """Apply a changed configuration. Unchanged servers keep running.

        A removed or changed server stops after its running calls.

        Args:
            specs: all servers of the present configuration.
            unusable_servers: configured server whose entry cannot be used, to the problem.
        """
        self._problems_of_entries = dict(unusable_servers or {})
        new_specs = {spec.name: spec for spec in specs if not spec.disabled}
        for name in [*self.upstreams, *(name for name in new_specs if name not in self.upstreams)]:
            old_upstream, spec = self.upstreams.get(name), new_specs.get(name)
            if old_upstream is not None and old_upstream.spec == spec:
                continue
            async with self._update_lock:
                tools: list[Tool] = []
                if old_upstream is not None:
                    self._remove_server(old_upstream)
                if spec is not None:
                    tools = self._add_server(spec)
                await anyio.to_thread.run_sync(self._index_tools, name, tools)
            if spec is not None:
                self._start_task(self.upstreams[name])

    @property
    def background(self) -> TaskGroup:
        """Task group for work besides requests.

        Raises:
            RuntimeError: `run` does not run.
        """
        if self._group is None:
            raise RuntimeError("Fleet.run must run for as long as requests are answered")
        return self._group

    @property
    def pins_path(self) -> Path | None:
        """Folder of the pins; None if every change is accepted."""
        return None if self._pins is None else self._pins.path

    @property
    def unlisted_servers(self) -> tuple[str, ...]:
        """Names of the servers that have not listed their tools yet, and may soon."""
        return tuple(
            name
            for name, upstream in self.upstreams.items()
            if upstream.state is ServerState.CONFIGURED and name not in self._descriptions
        )

    @property
    def unusable_servers(self) -> dict[str, str]:
        """Configured server that is not here because of its entry, to the problem."""
        return {
            name: problem
            for name, problem in self._problems_of_entries.items()
            if name not in self.upstreams
        }

    def upstream(self, server: str) -> Upstream:
        """A server by its name.

        Raises:
            CatalogError: there is none, or its entry in the configuration cannot be used.
        """
        if server in self.upstreams:
            return self.upstreams[server]
        if (problem := self.unusable_servers.get(server)) is not None:
            raise CatalogError(f"server {server!r} is not available: {entry_problem(problem)}")
        raise CatalogError(f"no server {server!r} is configured")

    def saved_listing(self, server: str) -> Listing | None:
        """The last lists of a server as it sent them; None if none are saved."""
        upstream = self.upstreams.get(server)
        return None if upstream is None else self._listing_cache.read(upstream.spec)

    def problems(self) -> dict[str, list[str]]:
        """Server to its problems and those of its tools, one line each."""
        problems: dict[str, list[str]] = {}
        for name, upstream in self.upstreams.items():
            problems[name] = [] if upstream.problem is None else [upstream.problem]
            if upstream.stray_lines:
                line = error_line(upstream.stray_lines)
                problems[name].append(
                    f"wrote {upstream.stray_line_count} lines to stdout that are no messages, such "
                    f"as {line!r:.120}; they were skipped; it should log to stderr"
                )
            if (listed := self.listed_tools.servers.get(name)) is not None:
                problems[name] += listed.problems
        for tool in self.engine.catalog:
            if tool.server in problems and tool.id != (plain_id := f"{tool.server}/{tool.name}"):
                problems[tool.server].append(
                    f"tool {plain_id!r} is {tool.id!r}: another has its id"
                )
        return problems

    def states(self) -> dict[str, dict[str, Any]]:
        """Server to its state, the code of its problem, and its problems, as JSON."""
        problems, down = self.problems(), self.down_servers()
        return {
            name: {
                "state": "ended"
                if upstream.starts_with_next_call
                else down.get(name, upstream.state.value),
                "code": "" if upstream.problem is None else upstream.problem_code,
                "problems": problems.get(name, []),
            }
            for name, upstream in self.upstreams.items()
        }

    def down_servers(self) -> dict[str, str]:
        """Server that does not answer now, and that no call starts, to its state."""
        down = dict.fromkeys(self.unusable_servers, "not usable")
        for name, upstream in self.upstreams.items():
            has_failed = upstream.state in (ServerState.FAILED, ServerState.AWAITING_CONSENT)
            if has_failed and not upstream.starts_with_next_call:
                down[name] = upstream.state.value
            elif upstream.hangs:
                down[name] = "hangs"
        return down

    async def start_or_stop(self, server: str, action: str) -> None:
        """Start or stop a server for the operator. `states` says whether it failed.

        Args:
            server: its name.
            action: `start` or `stop`.

        Raises:
            CatalogError: there is no such server or action.
        """
        upstream = self.upstreams.get(server)
        if upstream is None:
            raise CatalogError(f"no server {server!r:.80} is configured and enabled")
        if action == "start":
            with suppress(UpstreamError):
                await upstream.start_now()
        elif action == "stop":
            await upstream.stop_now()
        else:
            raise CatalogError(f"action: no {action!r:.80}; use start or stop")

    async def send(
        self,
        call: Call[Answer],
        answers: types.InputResponses | None = None,
        state: str | None = None,
    ) -> Answer | types.InputRequiredResult:
        """Send a client's call to its server; see `Upstream.send`.

        Raises:
            CatalogError: the server is no longer in the configuration.
        """
        return await self.upstream(call.server).send(call, answers, state)

    async def start_by_call(self, tool: Tool) -> types.CallToolResult | None:
        """Start the server whose placeholder is called; None for any other tool.

        Raises:
            UpstreamError: the server does not start.
        """
        if tool.name != START_TOOL_NAME or self.listed_tools.name_at_server(tool) is not None:
            return None
        await self.upstreams[tool.server or ""].connect()
        return started_result(tool.server or "")

    def timeout_for(self, tool_id: str) -> float | None:
        """Seconds without progress that a call of a tool may take; None if only its server says."""
        matching_limits = (limit for pattern, limit in self._timeouts if pattern.matches(tool_id))
        return next(matching_limits, None)

    def _add_server(self, spec: ServerSpec) -> list[Tool]:
        """A server of the configuration with the tools known from its last start."""
        name = spec.name
        upstream = Upstream(
            spec,
            self._open_log,
            self._apply_listing,
            transport=self._transport,
            # It is no process, and costs nothing to keep.
            idle_stop_s=None if spec.transport == "openapi" else self._idle_stop_s,
            on_state=self._report_state,
            handlers=self.message_handlers,
        )
        # A copy, because other threads iterate over the servers.
        self.upstreams = {**self.upstreams, name: upstream}
        self._listing_stamps[name] = self._listing_cache.stamp(spec)
        listing = self._listing_cache.read(spec)
        if listing is not None:
            upstream.state = ServerState.KNOWN
            return self.listed_tools.use_listing(spec, listing)
        if name in self._descriptions:
            return [start_tool(name, self._descriptions[name])]
        return []

    def _start_task(self, upstream: Upstream) -> None:
        if self._group is not None:
            self._group.start_soon(upstream.run)
            name = upstream.spec.name
            follows_file = upstream.spec.transport == "openapi" and name not in self._descriptions
            if self._starts_unlisted and (name in self.unlisted_servers or follows_file):
                upstream.start()

    def _remove_server(self, upstream: Upstream) -> None:
        name = upstream.spec.name
        self.upstreams = {
            server: other_upstream
            for server, other_upstream in self.upstreams.items()
            if server != name
        }
        self.listed_tools.forget(name)
        if self._group is not None:
            self._group.start_soon(upstream.remove)

    async def _apply_listing(self, upstream: Upstream, listing: Listing) -> None:
        """Index the changed tools after a server started or changed its list."""
        name = upstream.spec.name
        async with self._update_lock:
            if self.upstreams.get(name) is not upstream:
                return  # it was removed from the configuration meanwhile
            # Before the tools: other replicas read the list when they see new tools.
            try:
                await anyio.to_thread.run_sync(self._listing_cache.write, upstream.spec, listing)
            except (OSError, StoreError) as error:
                _LOG.warning("server %r: its list cannot be saved: %s", name, error)
            await anyio.to_thread.run_sync(self._use_listing, upstream.spec, listing)
        self._index_changed.set()

    async def _save_index_when_changed(self) -> None:
        """Save the index soon after each change, and once more when all tools are encoded."""
        while True:
            await self._index_changed.wait()
            await anyio.sleep(_SAVE_DELAY_S)
            self._index_changed = anyio.Event()
            was_complete = self.engine.build_progress.done
            await anyio.to_thread.run_sync(self._index.save, self.engine)
            while not (self.engine.build_progress.done or self._index_changed.is_set()):
                await anyio.sleep(_SAVE_DELAY_S)
            if not was_complete:
                self._index_changed.set()

    def _use_listing(self, spec: ServerSpec, listing: Listing) -> None:
        """Pin the new skills of a server, and index its tools."""
        tools = self.listed_tools.use_listing(spec, listing)
        skills = self.listed_tools.skill_tools(spec.name)
        if self._pins is not None and skills:
            self._pins.pin(skills)
        self._index_tools(spec.name, tools)

    def _index_tools(self, server: str, tools: list[Tool]) -> None:
        own_catalog = Catalog(tools)
        if fingerprints_of(server, self.engine.catalog) == fingerprints_of(server, own_catalog):
            return
        if self._pins is not None:
            # As in the catalog: a second tool with the same name gets another id.
            self._pins.pin_new_tools(server, own_catalog)
        # A client that learns of the change must find the tools: at once in a first version,
        # otherwise when the next version is built.
        self.engine.replace_server(server, tools, wait=self.engine.build_progress.done)
        if self.on_change is not None:
            self.on_change(server)

    def _report_state(self, upstream: Upstream) -> None:
        if self.on_state is not None:
            self.on_state(upstream)

    async def follow_pins(self) -> None:
        """Check all definitions again if another process changed the pins.

        If they cannot be read, the last decisions stay, and the error is logged.
        """
        if self._pins is None:
            return
        try:
            if self._pins.is_shared:
                has_changed = await anyio.to_thread.run_sync(self._pins.has_changed)
            else:
                has_changed = self._pins.has_changed()
            if not has_changed:
                return
            async with self._update_lock:
                # Before the decision: pins that were deleted are there again.
                await anyio.to_thread.run_sync(self._pins.pin, ())
                await anyio.to_thread.run_sync(self.engine.reload_pins)
                self.pins_reload_count += 1
        except (PinsError, StoreError) as error:
            _LOG.warning("the pins cannot be read: %s", error)

    async def follow_saved_lists(self) -> None:
        """Index the lists that another process has saved since they were read.

        For a page beside a running gateway, which starts no server itself.
        """
        async with self._update_lock:
            await anyio.to_thread.run_sync(self._read_changed_lists)

    def _read_changed_lists(self) -> None:
        for name, upstream in self.upstreams.items():
            stamp = self._listing_cache.stamp(upstream.spec)
            if stamp == self._listing_stamps[name]:
                continue
            if (listing := self._listing_cache.read(upstream.spec)) is not None:
                self._index_tools(name, self.listed_tools.use_listing(upstream.spec, listing))
            self._listing_stamps[name] = stamp

    @property
    def hidden_ids(self) -> frozenset[str]:
        """Ids of the tools that no model of a client sees.

        They are for user interfaces alone, or another gateway with the same database serves them.
        """
        return self.listed_tools.app_only_ids | self._foreign_ids(
            self.engine.catalog, self.upstreams
        )

    def _foreign_ids(self, catalog: Catalog, upstreams: Mapping[str, Upstream]) -> frozenset[str]:
        """Ids of the tools of servers that this gateway does not have. The last answer is kept."""
        last_catalog, last_upstreams, ids = self._foreign_ids_cache
        if last_catalog is not catalog or last_upstreams is not upstreams:
            ids = frozenset(tool.id for tool in catalog if tool.server not in upstreams)
            self._foreign_ids_cache = catalog, upstreams, ids
        return ids

    async def follow_changes(self) -> None:
        """Take over changes of the pins, and of the catalog by other replicas."""
        await self.follow_pins()
        await self._follow_catalog()

    async def _follow_catalog(self) -> None:
        """Read the lists of servers whose tools another replica has changed."""
        if self.engine.catalog is self._followed_catalog:
            return
        async with self._update_lock:
            catalog = self.engine.catalog
            await anyio.to_thread.run_sync(self._read_lists, catalog)
            self._followed_catalog = catalog

    def _read_lists(self, catalog: Catalog) -> None:
        for name, upstream in self.upstreams.items():
            tools = [tool for tool in catalog if tool.server == name]
            if all(self.listed_tools.name_at_server(tool) for tool in tools):
                continue
            if (listing := self._listing_cache.read(upstream.spec)) is not None:
                self.listed_tools.use_listing(upstream.spec, listing)
