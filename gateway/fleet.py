"""All servers behind the gateway, and the engine over their tools."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any

import anyio
import mcp.types as types

from ..catalog import Catalog, Tool
from ..engine import Engine
from ..errors import CatalogError, PinsError, ShortlistError
from ..gating.votes import VOTING_TOOL
from .first_use import FirstUse
from .listing import Listing
from .logs import log_opener
from .manifests import Manifests
from .server_spec import ServerSpec
from .tool_meta import is_app_only
from .transport import Transport, open_transport
from .upstream import State, Upstream

_LOG = logging.getLogger("shortlist.gateway")
#: Characters of a tool's `_meta` that is kept.
_META_CHARS = 20_000


class Fleet:
    """The servers, their states, and one engine over what they list.

    Args:
        specs: how the servers are reached; names must differ.
        engine_settings: settings of `Config` for the engine.
        manifests: what servers listed when they last ran.
        open_log: opens the file that takes what a server's process writes to stderr.
        transport: opens connections.
        idle_s: seconds without a call after which a server is stopped; None for never.
        pins: takes definitions that are seen for the first time; None to accept every change.

    Attributes:
        engine: over the tools of all servers.
        upstreams: name to server.
    """

    def __init__(
        self,
        specs: Iterable[ServerSpec],
        *,
        engine_settings: Mapping[str, Any] | None = None,
        manifests: Manifests | None = None,
        open_log: Callable[[str], IO[str]] | None = None,
        transport: Transport = open_transport,
        idle_s: float | None = None,
        pins: FirstUse | None = None,
    ) -> None:
        self._pins = pins
        self._manifests = Manifests.default() if manifests is None else manifests
        opener = log_opener() if open_log is None else open_log
        self.upstreams = {
            spec.name: Upstream(spec, opener, self._listed, transport=transport, idle_s=idle_s)
            for spec in specs
            if not spec.disabled
        }
        #: Tool id to the name by which its server calls it.
        self._names: dict[str, str] = {}
        self.instructions: dict[str, str] = {}
        #: Server name to tool id to the tool's `_meta`.
        self._metas: dict[str, dict[str, dict[str, Any]]] = {}
        self._meta: dict[str, dict[str, Any]] = {}
        #: Ids of the tools that are for user interfaces alone.
        self.app_only: frozenset[str] = frozenset()
        #: Names of the servers that vote on which of their tools fit.
        self.voters: frozenset[str] = frozenset()
        #: Server name to what is wrong with single tools that it lists.
        self.bad_tools: dict[str, list[str]] = {}
        self._updating = anyio.Lock()
        known: list[Tool] = []
        for name, upstream in self.upstreams.items():
            listing = self._manifests.read(upstream.spec)
            if listing is not None:
                known += self._read(name, listing)
                upstream.state = State.KNOWN
        settings = dict(engine_settings or {})
        if pins is not None:
            pins.pin(Catalog(known))
            settings["trust"] = {**settings.get("trust", {}), "pins": pins.path}
        self.engine = Engine.from_tools(known, **settings)
        for tool in known:
            self._names.setdefault(tool.id, tool.name)

    async def run(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve until cancelled; servers whose tools are not known start at once, in parallel."""
        async with anyio.create_task_group() as group:
            for upstream in self.upstreams.values():
                group.start_soon(upstream.run)
                if upstream.state is State.CONFIGURED:
                    upstream.start()
            task_status.started()

    @property
    def starting(self) -> tuple[str, ...]:
        """Names of the servers whose tools are not known yet."""
        return tuple(name for name, one in self.upstreams.items() if one.state is State.CONFIGURED)

    async def call(
        self, tool: Tool, arguments: Mapping[str, Any], *, meta: Any = None, progress: Any = None
    ) -> types.CallToolResult:
        """Call a tool at its server.

        Raises:
            UpstreamError: the server is gone, does not answer in time, or refuses.
            CatalogError: no server of the gateway has the tool.
        """
        upstream = self.upstreams.get(tool.server or "")
        if upstream is None:
            raise CatalogError(f"tool {tool.id!r}: no server {tool.server!r} is configured")
        name = self._names.get(tool.id, tool.name)
        return await upstream.call(name, dict(arguments), meta=meta, progress=progress)

    async def _listed(self, name: str, listing: Listing) -> None:
        """A server started or changed its list: index what differs."""
        async with self._updating:
            tools = self._read(name, listing)
            await anyio.to_thread.run_sync(self._update, name, tools)
        try:
            await anyio.to_thread.run_sync(
                self._manifests.write, self.upstreams[name].spec, listing
            )
        except OSError as error:
            _LOG.warning("server %r: its list cannot be kept: %s", name, error)

    def _update(self, name: str, tools: list[Tool]) -> None:
        before = [tool for tool in self.engine.catalog if tool.server == name]
        if [tool.fingerprint for tool in before] == [tool.fingerprint for tool in tools]:
            return
        if self._pins is not None:
            # As in the catalog, where a second tool of a name has an id of its own.
            self._pins.pin(Catalog(tools))
        self.engine.update(tools, server=name)

    async def follow_pins(self) -> None:
        """Judge all definitions anew if another process changed the pins, as an approval does.

        Where the file cannot be read, the last judgement stays, and the log says so.
        """
        if self._pins is None or not self._pins.has_changed():
            return
        async with self._updating:
            update = self.engine.update
            try:
                await anyio.to_thread.run_sync(lambda: update(self.engine.catalog))
            except PinsError as error:
                _LOG.warning("the pins cannot be followed: %s", error)

    def _read(self, name: str, listing: Listing) -> list[Tool]:
        """The tools of a listing; one that cannot be read costs only itself."""
        self.instructions[name] = listing.instructions
        problems: list[str] = []
        made: list[Tool] = []
        metas: dict[str, dict[str, Any]] = {}
        permits = self.upstreams[name].spec.tools.permits
        for tool in listing.tools:
            if not permits(tool.name):
                continue
            try:
                one = Tool(
                    tool.name,
                    name,
                    tool.description or "",
                    tool.input_schema,
                    title=tool.title,
                    output_schema=tool.output_schema,
                    annotations=(
                        tool.annotations.model_dump(by_alias=True, exclude_none=True)
                        if tool.annotations
                        else None
                    ),
                )
            except ShortlistError as error:
                problems.append(f"{tool.name!r:.80}: {error}")
                continue
            made.append(one)
            self._names[one.id] = tool.name
            if tool.meta:
                metas.setdefault(one.id, dict(tool.meta))
        self.bad_tools[name] = problems
        self._metas[name] = {tool_id: meta for tool_id, meta in metas.items() if _fits(meta)}
        self._meta = {
            tool_id: meta for own in self._metas.values() for tool_id, meta in own.items()
        }
        self.app_only = frozenset(one for one, meta in self._meta.items() if is_app_only(meta))
        votes = any(tool.name == VOTING_TOOL for tool in listing.tools)
        self.voters = self.voters | {name} if votes else self.voters - {name}
        return made

    def meta(self, tool_id: str) -> Mapping[str, Any]:
        """The `_meta` that a server gave a tool; empty where it gave none."""
        return self._meta.get(tool_id, {})


def _fits(meta: Mapping[str, Any]) -> bool:
    return len(json.dumps(meta, default=str)) <= _META_CHARS
