"""All servers behind the gateway, and the engine over their tools."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any

import anyio
import mcp.types as types

from ..catalog import Tool
from ..engine import Engine
from ..errors import CatalogError, ShortlistError
from .caller import Caller
from .held_calls import HeldCalls
from .listing import Listing
from .logs import log_opener
from .manifests import Manifests
from .offers import Offers
from .server_requests import Front
from .server_spec import ServerSpec
from .transport import Transport, open_transport
from .upstream import State, Upstream

_LOG = logging.getLogger("shortlist.gateway")


class Fleet:
    """The servers, their states, and one engine over what they list.

    Args:
        specs: how the servers are reached; names must differ.
        engine_settings: settings of `Config` for the engine.
        manifests: what servers listed when they last ran.
        open_log: opens the file that takes what a server's process writes to stderr.
        transport: opens connections.
        idle_s: seconds without a call after which a server is stopped; None for never.

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
    ) -> None:
        self._manifests = Manifests.default() if manifests is None else manifests
        opener = log_opener() if open_log is None else open_log
        #: What servers say that belongs to no request goes here.
        self.front = Front()
        self.upstreams = {
            spec.name: Upstream(
                spec, opener, self._listed, transport=transport, idle_s=idle_s, front=self.front
            )
            for spec in specs
            if not spec.disabled
        }
        #: Tool id to the name by which its server calls it.
        self._names: dict[str, str] = {}
        self.instructions: dict[str, str] = {}
        #: Server name to what it offers besides tools.
        self.offers: dict[str, Offers] = {}
        #: Requests that go on while their clients are asked, and what runs them.
        self.held = HeldCalls()
        self.background: anyio.abc.TaskGroup
        #: Server name to what is wrong with single tools that it lists.
        self.bad_tools: dict[str, list[str]] = {}
        self._updating = anyio.Lock()
        known: list[Tool] = []
        for name, upstream in self.upstreams.items():
            listing = self._manifests.read(upstream.spec)
            if listing is not None:
                known += self._read(name, listing)
                upstream.state = State.KNOWN
        self.engine = Engine.from_tools(known, **dict(engine_settings or {}))
        for tool in known:
            self._names.setdefault(tool.id, tool.name)

    async def run(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve until cancelled; servers whose tools are not known start at once, in parallel."""
        async with anyio.create_task_group() as group:
            self.background = group
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
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        *,
        meta: Any = None,
        caller: Caller | None = None,
        answers: types.InputResponses | None = None,
        state: str | None = None,
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Call a tool at its server.

        Args:
            tool: of a server of the gateway.
            arguments: of the call.
            meta: of the call.
            caller: whose call it is, for what the server says meanwhile; None for nobody's.
            answers: to what the server asked in its last result.
            state: that the server gave with it.

        Raises:
            UpstreamError: the server is gone, does not answer in time, or refuses.
            CatalogError: no server of the gateway has the tool.
        """
        upstream = self.upstreams.get(tool.server or "")
        if upstream is None:
            raise CatalogError(f"tool {tool.id!r}: no server {tool.server!r} is configured")
        name = self._names.get(tool.id, tool.name)
        return await upstream.call(
            name, dict(arguments), meta=meta, caller=caller, answers=answers, state=state
        )

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
        self.engine.update(tools, server=name)

    def _read(self, name: str, listing: Listing) -> list[Tool]:
        """The tools of a listing; one that cannot be read costs only itself."""
        self.instructions[name] = listing.instructions
        self.offers[name] = listing.offers
        problems: list[str] = []
        made: list[Tool] = []
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
        self.bad_tools[name] = problems
        return made
