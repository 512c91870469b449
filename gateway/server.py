"""The MCP server in front: meta-tools, pinned tools, and calls through to the servers behind."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import mcp.types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from .. import __version__
from ..catalog import Tool
from ..catalog.arguments import argument_problems
from ..errors import ShortlistError
from ..gating import State
from ..loaders.names import provider_name
from ..loaders.passing import costs_at_most
from ..session import Session
from . import answers
from .fleet import Fleet
from .meta_tools import CALL, DETAILS, META_TOOLS, READ, SEARCH, least_permissive, meta_tools
from .profile import Profile
from .sessions import BearerTokens, ClientSession, ClientSessions
from .upstream import UpstreamError

_LOG = logging.getLogger("shortlist.gateway")
#: Characters of the name of a tool that is shown directly; clients put a prefix before it.
_DIRECT_NAME = 60
Context = ServerRequestContext[Any, Any]


class Gateway:
    """An MCP server over a fleet.

    Args:
        fleet: the servers behind; its `run` must run as long as this serves.
        profile: of clients that name none.
    """

    def __init__(
        self,
        fleet: Fleet,
        profile: Profile | None = None,
        profiles: Mapping[str, Profile] | None = None,
    ) -> None:
        self.fleet = fleet
        self.sessions = ClientSessions(self._begun, profile or Profile(), profiles)
        self.server: Server[Any] = Server(
            "shortlist",
            version=__version__,
            instructions="Search for tools with search_tools, then call them with call_tool.",
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )

    async def serve_stdio(self) -> None:
        """Serve one client on stdin and stdout until it goes."""
        async with anyio.create_task_group() as group:
            await group.start(self.fleet.run)
            async with stdio_server() as (read, write):
                await self.server.run(read, write, self.server.create_initialization_options())
            group.cancel_scope.cancel()

    async def serve_http(
        self,
        host: str,
        port: int,
        tokens: Mapping[str, str] | None = None,
        *,
        started: Callable[[int], None] | None = None,
    ) -> None:
        """Serve clients over streamable HTTP at `/mcp` until cancelled.

        Args:
            host: address to listen on.
            port: port to listen on, 0 for a free one.
            tokens: profile name to the bearer token that a client of it sends.
            started: called with the port once requests are taken.
        """
        import uvicorn
        from starlette.responses import JSONResponse
        from starlette.routing import Route

        async def health(_: Any) -> JSONResponse:
            states = {name: one.state.value for name, one in self.fleet.upstreams.items()}
            return JSONResponse({"status": "ok", "servers": states})

        routes = [Route("/healthz", health)]
        app = self.server.streamable_http_app(host=host, custom_starlette_routes=routes)
        guarded = BearerTokens(app, tokens or {}, frozenset({"/healthz"}))
        config = uvicorn.Config(guarded, host=host, port=port, log_level="warning", lifespan="on")
        front = _front_class()(config, started)
        async with anyio.create_task_group() as group:
            await group.start(self.fleet.run)
            try:
                await front.serve()
            finally:
                with anyio.CancelScope(shield=True):
                    if front.started:
                        await front.shutdown()
            group.cancel_scope.cancel()

    def _begun(self, profile: Profile) -> Session:
        """A session under a profile's permission."""
        return self.fleet.engine.session(state=State(scopes=profile.scopes), must_offer=False)

    def _client(self, context: Context) -> ClientSession:
        """The session of a request, limited to what its profile allows of the present catalog."""
        client = self.sessions.of(context.request)
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
            client.listed = await anyio.to_thread.run_sync(self._listed, client)
        return types.ListToolsResult(tools=client.listed)

    async def _call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        arguments = dict(params.arguments or {})
        client = self._client(context)
        try:
            return await self._answered(context, client, params.name, arguments, params.meta)
        except (ShortlistError, UpstreamError) as error:
            return _error(str(error))
        except Exception:  # noqa: BLE001
            # The text of an exception of ours must not reach a client.
            _LOG.exception("a call of %r failed", params.name)
            return _error("the gateway failed on this call; its log says why")

    async def _answered(
        self,
        context: Context,
        client: ClientSession,
        name: str,
        arguments: dict[str, Any],
        meta: Any,
    ) -> types.CallToolResult:
        if name in client.direct or name not in META_TOOLS:
            return await self._forward(context, client, name, arguments, meta)
        if problems := argument_problems(_SCHEMAS[name], arguments):
            return _error("The arguments do not fit: " + "; ".join(map(str, problems)))
        if name == CALL:
            given = arguments.get("arguments")
            return await self._forward(context, client, arguments["name"], given, meta)
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

    async def _forward(
        self, context: Context, client: ClientSession, name: str, arguments: Any, meta: Any
    ) -> types.CallToolResult:
        """A call through to the server that has the tool, if it is permitted and fits."""
        asked = self._meant(client, name)
        verdict = await anyio.to_thread.run_sync(client.session.check, asked, arguments)
        if not verdict.passed or verdict.tool is None:
            return _error(verdict.text)
        tool = verdict.tool

        async def progress(done: float, total: float | None, message: str | None) -> None:
            await context.session.report_progress(done, total, message)

        ok = False
        try:
            result = await self.fleet.call(tool, verdict.arguments, meta=meta, progress=progress)
            ok = not result.is_error
        finally:
            with anyio.CancelScope(shield=True):
                record = client.session.result
                await anyio.to_thread.run_sync(lambda: record(tool.id, "", ok=ok))
        return client.results.shown(result, _own_limit(tool))

    def _meant(self, client: ClientSession, name: str) -> str:
        """The id that a client means by the name of a tool shown directly, or by `server__tool`."""
        if name in client.direct:
            return client.direct[name]
        catalog = self.fleet.engine.catalog
        spelt = name.replace("__", "/", 1)
        return spelt if name not in catalog and spelt in catalog else name

    def _listed(self, client: ClientSession) -> list[types.Tool]:
        """What the client sees for the whole session."""
        view, profile = client.session.view(), client.profile
        permitted = view.tools()
        denied = frozenset(tool.id for tool in view.catalog) - {tool.id for tool in permitted}
        limit = int(profile.context_tokens * profile.pass_through)
        settled = not self.fleet.starting
        if permitted and settled and costs_at_most(view.catalog, limit, withheld=denied):
            return [self._direct(client, tool) for tool in permitted]
        shown = []
        if profile.pinned:
            pinned = self.fleet.engine.view(view.state, allowed=profile.pinned)
            shown = [tool for tool in permitted if pinned.permits(tool.id)]
        hints = least_permissive([tool.annotations or {} for tool in permitted])
        text = answers.digest(self.fleet, view, profile.operator)
        return [*meta_tools(text, hints), *(self._direct(client, tool) for tool in shown)]

    def _direct(self, client: ClientSession, tool: Tool) -> types.Tool:
        """A tool as the client sees it without a meta-tool."""
        name = provider_name(tool.id, _DIRECT_NAME)
        client.direct[name] = tool.id
        return types.Tool(
            name=name,
            title=tool.title,
            description=tool.description,
            input_schema={"type": "object"} | tool.input_schema,
            output_schema=tool.output_schema,
            annotations=types.ToolAnnotations.model_validate(tool.annotations or {}),
        )


def _front_class() -> Any:
    """A uvicorn server that says which port it got."""
    import uvicorn

    class Front(uvicorn.Server):
        def __init__(self, config: Any, started: Callable[[int], None] | None) -> None:
            super().__init__(config)
            self._told = started

        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self._told is not None and self.servers:
                self._told(self.servers[0].sockets[0].getsockname()[1])

    return Front


def _own_limit(tool: Tool) -> int | None:
    """Tokens that a tool's own annotation allows its results, None where it says nothing."""
    said = (tool.annotations or {}).get("anthropic/maxResultSizeChars")
    return said // 4 if isinstance(said, int) and not isinstance(said, bool) and said > 0 else None


def _error(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


_SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    tool.name: tool.input_schema for tool in meta_tools("", types.ToolAnnotations())
}
