"""A call of one tool, through to the server that has it."""

from __future__ import annotations

import json
from typing import Any

import anyio
import mcp.types as types

from ..catalog import Tool
from .addresses import with_public_links
from .call_watch import CallWatch
from .caller import Caller, Context, forwarded_meta
from .fleet import Fleet
from .relay import relay
from .sessions import ClientSession


async def call_through(
    fleet: Fleet,
    context: Context,
    client: ClientSession,
    name: str,
    arguments: Any,
    given: types.CallToolRequestParams,
    watch: CallWatch,
) -> types.CallToolResult | types.InputRequiredResult:
    """A call through to the server that has the tool, if it is permitted and fits."""
    asked = _meant(fleet, client, name)
    verdict = await anyio.to_thread.run_sync(client.session.check, asked, arguments)
    watch.checked(verdict)
    if not verdict.passed or verdict.tool is None:
        return error_result(verdict.text)
    tool = verdict.tool

    caller = Caller(context, client)
    meta = forwarded_meta(given.meta, caller)

    async def send(
        answers: types.InputResponses | None, state: str | None
    ) -> types.CallToolResult | types.InputRequiredResult:
        return await fleet.call(
            tool, verdict.arguments, meta=meta, caller=caller, answers=answers, state=state
        )

    ok = False
    try:
        server = tool.server or ""
        subject = f"{tool.id} {json.dumps(verdict.arguments, sort_keys=True)}"
        result = await relay(fleet, caller, given, server=server, subject=subject, send=send)
        if isinstance(result, types.InputRequiredResult):
            watch.asked()
        else:
            ok = not result.is_error
            watch.answered(result)
    finally:
        with anyio.CancelScope(shield=True):
            record = client.session.result
            await anyio.to_thread.run_sync(lambda: record(tool.id, "", ok=ok))
    if isinstance(result, types.InputRequiredResult):
        return result
    result = result.model_copy(update={"content": with_public_links(server, result.content)})
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
