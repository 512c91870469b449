"""The MCP server in front: meta-tools, pinned tools, and calls through to the servers behind."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import anyio
import mcp.types as types
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from .. import __version__
from ..catalog.arguments import argument_problems
from ..errors import ShortlistError
from ..gating import State
from ..session import Session
from . import answers
from .call_watch import CallWatch
from .caller import Caller, Context
from .calls import call_through, error_result
from .completions import Completions
from .fleet import Fleet
from .log_levels import LogLevels
from .meta_tools import CALL, DETAILS, META_TOOLS, READ, SEARCH, meta_tools
from .observer import Asker, Observer
from .profile import Profile
from .prompts import Prompts
from .resources import Resources
from .sessions import ClientSession, ClientSessions
from .shown_tools import shown_tools
from .subscriptions import Subscriptions
from .upstream import State as UpstreamState
from .upstream import Upstream, UpstreamError

_LOG = logging.getLogger("shortlist.gateway")


class Gateway:
    """An MCP server over a fleet.

    Args:
        fleet: the servers behind; its `run` must run as long as this serves.
        profile: of clients that name none.
        profiles: name to profile.
        observer: is told what the gateway does.
    """

    def __init__(
        self,
        fleet: Fleet,
        profile: Profile | None = None,
        profiles: Mapping[str, Profile] | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.fleet = fleet
        self.observer = observer or Observer()
        fleet.on_state = self._state_changed
        self.sessions = ClientSessions(self._begun, profile or Profile(), profiles)
        self.server: Server[Any] = Server(
            "shortlist",
            version=__version__,
            instructions="Search for tools with search_tools, then call them with call_tool.",
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )
        self.resources = Resources(fleet, self._client, self.server)
        self.prompts = Prompts(fleet, self._client, self.server)
        self.completions = Completions(
            fleet, self._client, self.resources, self.prompts, self.server
        )
        self.subscriptions = Subscriptions(fleet, self._client, self.resources, self.server)
        self.log_levels = LogLevels(fleet, self._client, self.sessions, self.server)

    async def serve_stdio(self) -> None:
        """Serve one client on stdin and stdout until it goes."""
        async with anyio.create_task_group() as group:
            await group.start(self.fleet.run)
            async with stdio_server() as (read, write):
                await self.server.run(read, write, self.server.create_initialization_options())
            group.cancel_scope.cancel()

    def _begun(self, profile: Profile) -> Session:
        """A session under a profile's permission."""
        return self.fleet.engine.session(state=State(scopes=profile.scopes), must_offer=False)

    def _client(self, context: Context) -> ClientSession:
        """The session of a request, limited to what its profile allows of the present catalog."""
        client = self.sessions.of(context.request)
        if context.request is None:
            # On stdin and stdout there is one client, which is asked whatever belongs to no call.
            caller = Caller(context, client)
            self.fleet.front.only_client = None if caller.is_modern else caller
        catalog = self.fleet.engine.catalog
        if client.limited_to is not catalog:
            client.session.allowed = client.profile.allowed(catalog)
            client.limited_to = catalog
        return client

    async def _list_tools(
        self,
        context: Context,
        params: types.PaginatedRequestParams | None,  # noqa: ARG002
    ) -> types.ListToolsResult:
        client = self._client(context)
        if client.listed is None:
            client.listed = await anyio.to_thread.run_sync(shown_tools, self.fleet, client)
        asker = Asker.of(context.request, client.session.id)
        view, quarantined = client.session.view(), self.fleet.engine.quarantined
        self.observer.listed(asker, view, client.listed, quarantined)
        return types.ListToolsResult(tools=client.listed)

    async def _call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        client, watch = self._client(context), CallWatch()
        asker = Asker.of(context.request, client.session.id)
        with self.observer.request(asker, params, watch) as request:
            answer = await self._safely(context, client, params, watch)
            if isinstance(answer, types.CallToolResult):
                request.answer = answer
        return answer

    async def _safely(
        self,
        context: Context,
        client: ClientSession,
        params: types.CallToolRequestParams,
        watch: CallWatch,
    ) -> types.CallToolResult | types.InputRequiredResult:
        """The answer; what goes wrong becomes an answer, too."""
        arguments = dict(params.arguments or {})
        try:
            return await self._answered(context, client, params.name, arguments, params, watch)
        except (ShortlistError, UpstreamError) as error:
            watch.failed()
            cause = error.__cause__
            if isinstance(cause, MCPError) and cause.code == types.URL_ELICITATION_REQUIRED:
                # The client opens the addresses in the error, then calls again.
                raise MCPError(cause.code, str(error), cause.data) from error
            return error_result(str(error))
        except Exception:  # noqa: BLE001
            # The text of an exception of ours must not reach a client.
            _LOG.exception("a call of %r failed", params.name)
            watch.failed()
            return error_result("the gateway failed on this call; its log says why")

    async def _answered(
        self,
        context: Context,
        client: ClientSession,
        name: str,
        arguments: dict[str, Any],
        params: types.CallToolRequestParams,
        watch: CallWatch,
    ) -> types.CallToolResult | types.InputRequiredResult:
        if name in client.direct or name not in META_TOOLS:
            return await call_through(self.fleet, context, client, name, arguments, params, watch)
        if problems := argument_problems(_SCHEMAS[name], arguments):
            return error_result("The arguments do not fit: " + "; ".join(map(str, problems)))
        if name == CALL:
            given = arguments.get("arguments")
            asked = arguments["name"]
            return await call_through(self.fleet, context, client, asked, given, params, watch)
        if name == READ:
            first, last = arguments.get("range", (None, None))
            text = client.results.read(arguments["id"], first, last)
            return types.CallToolResult(content=[types.TextContent(type="text", text=text)])
        view = client.session.view()
        if name == SEARCH:
            return await anyio.to_thread.run_sync(answers.search, self.fleet, view, arguments)
        if name == DETAILS:
            return await anyio.to_thread.run_sync(answers.details, view, arguments)
        return await anyio.to_thread.run_sync(answers.servers, self.fleet, view)

    def _state_changed(self, upstream: Upstream) -> None:
        """A server started, stopped or failed."""
        name, state = upstream.spec.name, upstream.state
        self.observer.server(
            name,
            state.value,
            ms=upstream.started_ms if state is UpstreamState.STARTED else None,
            tools=sum(tool.server == name for tool in self.fleet.engine.catalog),
            problem=upstream.problem,
        )


_SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    tool.name: tool.input_schema for tool in meta_tools("", types.ToolAnnotations())
}
