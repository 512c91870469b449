"""FastMCP: a transform that shows a server's tools as a search and a call, with checks.

It takes the place of FastMCP's own search transforms. Needs the extra `fastmcp`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from ..catalog import Tool
from ..engine import Engine
from ..errors import MissingExtraError
from .framework_tools import SEARCH_TOOL, CallRefused, FrameworkSession, FrameworkTools, StateOf

try:
    from fastmcp.exceptions import ToolError
    from fastmcp.server.context import Context
    from fastmcp.server.transforms.search.base import BaseSearchTransform
    from fastmcp.tools import Tool as FastMCPTool
    from fastmcp.tools import ToolResult
except ImportError as missing:
    raise MissingExtraError("the transform for FastMCP", "fastmcp") from missing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..setting_types import SessionSettings

__all__ = ["ShortlistTransform"]


class ShortlistTransform(BaseSearchTransform):
    """Shows `search_tools` and `call_tool` in place of a server's tools.

    Each conversation has a session. A search is answered with the definitions of tools
    that are permitted now; a call that does not pass, with what to change.

    Args:
        engine: an engine over tools with the same names, to set rules, a tier or an encoder.
        state: the state of the agent, or a function from FastMCP's `Context` to the state.
        conversation: a function from the `Context` to the name of the conversation. Without it,
            each connection is one: in MCP 2026-07-28 that is each request, so that no rule there
            can ask for earlier calls.
        always_visible: names of tools that stay in the list; their calls are not checked.
        settings: settings of `SessionConfig`, such as `k`, `turn_tokens` and `events`.
    """

    def __init__(
        self,
        *,
        engine: Engine | None = None,
        state: StateOf | None = None,
        conversation: Callable[[Context], str] | None = None,
        always_visible: list[str] | None = None,
        **settings: Unpack[SessionSettings],
    ) -> None:
        super().__init__(always_visible=always_visible, search_tool_name=SEARCH_TOOL.name)
        self._conversation = conversation
        # A client may call what it found over another connection.
        unlisted: SessionSettings = {"pass_through": 0.0, "must_offer": False, **settings}
        self._tools = FrameworkTools(engine, state, "call_tool", **unlisted)

    def _make_search_tool(self) -> FastMCPTool:
        async def search_tools(
            query: Annotated[str, "What has to be done."],
            ctx: Context = None,  # type: ignore[assignment]
        ) -> ToolResult:
            session = await self._session(ctx)
            try:
                answer = await asyncio.to_thread(session.search, {"query": query})
            except CallRefused as refusal:
                raise ToolError(str(refusal)) from refusal
            return ToolResult(content=answer)

        return FastMCPTool.from_function(
            search_tools, name=SEARCH_TOOL.name, description=SEARCH_TOOL.description
        )

    def _make_call_tool(self) -> FastMCPTool:
        async def call_tool(
            name: Annotated[str, "Name of a tool that a search found."],
            arguments: Annotated[dict[str, Any] | None, "Its arguments."] = None,
            ctx: Context = None,  # type: ignore[assignment]
        ) -> ToolResult:
            """Call a tool that a search found."""

            async def run(tool: Tool, checked: dict[str, Any]) -> ToolResult:
                return await ctx.fastmcp.call_tool(tool.name, checked)

            session = await self._session(ctx)
            try:
                result: ToolResult = await session.call(name, arguments or {}, run)
            except CallRefused as refusal:
                raise ToolError(str(refusal)) from refusal
            return result

        return FastMCPTool.from_function(call_tool, name=self._call_tool_name)

    async def _search(self, tools: Sequence[FastMCPTool], query: str) -> Sequence[FastMCPTool]:
        """The tools that fit a query, for callers of FastMCP's own interface."""
        self._tools.follow_tools([_catalog_tool(tool) for tool in tools])
        by_name = {tool.name: tool for tool in tools}
        view = self._tools.engine.view()
        hits = (await asyncio.to_thread(view.search, query, k=self._max_results)).hits
        return [by_name[hit.tool.name] for hit in hits if hit.tool.name in by_name]

    async def _session(self, ctx: Context) -> FrameworkSession:
        self._tools.follow_tools(
            [_catalog_tool(tool) for tool in await self._get_visible_tools(ctx)]
        )
        key = ctx.session_id if self._conversation is None else self._conversation(ctx)
        return self._tools.session(key, ctx)


def _catalog_tool(tool: FastMCPTool) -> Tool:
    return Tool(tool.name, description=tool.description or "", input_schema=tool.parameters)
