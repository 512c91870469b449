"""A call of one tool, through to the server that has it."""

from __future__ import annotations

from typing import Any

import anyio
import mcp.types as types
from mcp.server.context import ServerRequestContext

from ..catalog import Tool
from .call_watch import CallWatch
from .fleet import Fleet
from .sessions import ClientSession

Context = ServerRequestContext[Any, Any]


async def call_through(
    fleet: Fleet,
    context: Context,
    client: ClientSession,
    name: str,
    arguments: Any,
    meta: Any,
    watch: CallWatch,
) -> types.CallToolResult:
    """A call through to the server that has the tool, if it is permitted and fits."""
    asked = _meant(fleet, client, name)
    verdict = await anyio.to_thread.run_sync(client.session.check, asked, arguments)
    watch.checked(verdict)
    if not verdict.passed or verdict.tool is None:
        return error_result(verdict.text)
    tool = verdict.tool

    async def progress(done: float, total: float | None, message: str | None) -> None:
        await context.session.report_progress(done, total, message)

    ok = False
    try:
        result = await fleet.call(tool, verdict.arguments, meta=meta, progress=progress)
        ok = not result.is_error
        watch.answered(result)
    finally:
        with anyio.CancelScope(shield=True):
            record = client.session.result
            await anyio.to_thread.run_sync(lambda: record(tool.id, "", ok=ok))
    return client.results.shown(result, _own_limit(tool))


def _meant(fleet: Fleet, client: ClientSession, name: str) -> str:
    """The id that a client means by the name of a tool shown directly, or by `server__tool`."""
    if name in client.direct:
        return client.direct[name]
    catalog = fleet.engine.catalog
    spelt = name.replace("__", "/", 1)
    return spelt if name not in catalog and spelt in catalog else name


def _own_limit(tool: Tool) -> int | None:
    """Tokens that a tool's own annotation allows its results, None where it says nothing."""
    said = (tool.annotations or {}).get("anthropic/maxResultSizeChars")
    return said // 4 if isinstance(said, int) and not isinstance(said, bool) and said > 0 else None


def error_result(text: str) -> types.CallToolResult:
    """An answer that tells the model what went wrong."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
