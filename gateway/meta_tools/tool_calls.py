"""Forwards a call of one tool to its server."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import anyio
import mcp.types as types

from ...catalog import Tool
from ...gating.verdict import Verdict
from ..observe.gateway_events import CallWatch
from ..profiles.client_sessions import ClientSession
from ..relay.forwarding import relay
from ..relay.resources import with_public_links
from ..upstream.caller import Caller, Context, forwarded_meta
from ..upstream.fleet import Fleet
from ..upstream.listed_tools import result_chars
from .meta_tool_definitions import CALLS, RESERVED, kind_of
from .shown_tools import is_shown_as


@dataclass(frozen=True, slots=True)
class Asked:
    """A client's call of a tool.

    Args:
        name: id, `server__tool`, name of a tool shown directly, or a name that is unique.
        arguments: arguments of the tool.
        given: parameters of the client's request, with its `_meta` and the client's answers.
        through: name of the meta-tool; None for a call by the tool's own name.
    """

    name: str
    arguments: Any
    given: types.CallToolRequestParams
    through: str | None = None


async def call_through(
    fleet: Fleet, context: Context, client: ClientSession, asked: Asked, watch: CallWatch
) -> types.CallToolResult | types.InputRequiredResult:
    """Forward a call to the tool's server, if it is permitted and its arguments are valid."""
    if asked.through is not None and asked.name in RESERVED:
        return error_result(f"{asked.name} is called by its own name, not through {asked.through}.")
    view = client.view()
    name = client.views.names(view.catalog).meant(asked.name, view)
    if asked.through is None and fleet.listed.app_only:
        own = _of_an_app(client, asked.name)
        if own is not None:
            verdict = client.app_view().check(own.id, asked.arguments)
            return await _passed(fleet, context, client, verdict, asked, watch)
    found = view.details([name])[0]
    if isinstance(found, Tool) and (wrong := _wrong_way(client, asked, found)):
        return error_result(wrong)
    check = client.session.check
    verdict = await anyio.to_thread.run_sync(
        lambda: check(name, asked.arguments, votes=client.votes)
    )
    if verdict.tool is None or not verdict.passed:
        watch.checked(verdict)
        return error_result(refused(verdict, asked.name))
    tool, ok = verdict.tool, False
    try:
        result = await _passed(fleet, context, client, verdict, asked, watch)
        ok = isinstance(result, types.CallToolResult) and not result.is_error
    finally:
        with anyio.CancelScope(shield=True):
            record = client.session.record_call
            await anyio.to_thread.run_sync(lambda: record(tool.id, ok=ok))
    return result


async def _passed(
    fleet: Fleet,
    context: Context,
    client: ClientSession,
    verdict: Verdict,
    asked: Asked,
    watch: CallWatch,
) -> types.CallToolResult | types.InputRequiredResult:
    """The server's answer to a permitted call; a refusal for a denied one."""
    watch.checked(verdict)
    tool, profile = verdict.tool, client.profile
    if tool is None or not verdict.passed:
        return error_result(refused(verdict, asked.name))

    caller, arguments = Caller(context, client), verdict.arguments
    meta = forwarded_meta(asked.given.meta, caller)

    async def send(
        answers: types.InputResponses | None, state: str | None
    ) -> types.CallToolResult | types.InputRequiredResult:
        return await fleet.call(
            tool, arguments, meta=meta, caller=caller, answers=answers, state=state
        )

    server = tool.server or ""
    subject = f"{tool.id} {json.dumps(arguments, sort_keys=True)}"
    result = await relay(fleet, caller, asked.given, server=server, subject=subject, send=send)
    if isinstance(result, types.InputRequiredResult):
        return result
    watch.answered(result)
    result = result.model_copy(update={"content": with_public_links(server, result.content)})
    chars = result_chars(fleet.listed.meta(tool.id))
    return client.results.shown(result, tool.id, profile, tokens=profile.result_tokens, chars=chars)


def _of_an_app(client: ClientSession, name: str) -> Tool | None:
    """The tool, if it is for user interfaces alone; None for every other tool."""
    view = client.app_view()
    found = view.details([client.views.names(view.catalog).meant(name, view)])[0]
    if not isinstance(found, Tool) or client.view().permits(found.id):
        return None
    return found


def _wrong_way(client: ClientSession, asked: Asked, tool: Tool) -> str:
    """Why this meta-tool may not call this permitted tool; empty if it may."""
    kind = kind_of(tool.annotations)
    if asked.through in CALLS.values() and asked.through != CALLS[kind]:
        return f"{tool.id} is a {kind} tool by its annotations: call it with {CALLS[kind]}."
    if asked.through is not None and not is_shown_as(client, tool):
        return (
            f"{tool.id} is a {kind} tool, and {asked.through} is annotated as more harmless than "
            "that: call the tool by its own name if it is listed, or list the tools again."
        )
    return ""


def refused(verdict: Verdict, name: str) -> str:
    """The answer to a refused call.

    It uses the client's name of the tool. It never quotes rules, because they may name other tools.

    Args:
        verdict: result of the check.
        name: the client's name of the tool.
    """
    if verdict.refusal is None:
        return verdict.text
    held = replace(verdict, refusal=replace(verdict.refusal, tool_id=name)).to_dict()
    code = held.pop("detail").get("code", verdict.refusal.kind)
    text = json.dumps({**held, "tool": name, "code": code}, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode()


def error_result(text: str) -> types.CallToolResult:
    """An error result with a message for the model."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
