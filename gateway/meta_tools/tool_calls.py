"""Forwards a call of one tool to its server."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import mcp.types as types

from ...catalog import Tool
from ...gating.verdict import CallRefusedError, Verdict
from ..observe.gateway_events import CallRecorder
from ..profiles.client_sessions import ClientSession
from ..profiles.long_results import ResultSource
from ..relay.forwarding import relay_request
from ..relay.resources import public_result
from ..upstream.caller import Caller, RequestContext, forwarded_meta
from ..upstream.fleet import Fleet
from ..upstream.listed_tools import max_result_chars
from .meta_tool_answers import named_unready_server
from .meta_tool_definitions import CALL_TOOL_BY_EFFECT, RESERVED_NAMES, effect_of
from .shown_tools import covers_annotations_of


@dataclass(frozen=True, slots=True)
class ClientCall:
    """A client's call of a tool.

    Args:
        name: id, `server__tool`, name of a tool shown directly, or a name that is unique.
        arguments: arguments of the tool.
        params: parameters of the client's request, with its `_meta` and the client's answers.
        via_meta_tool: name of the meta-tool; None for a call by the tool's own name.
    """

    name: str
    arguments: Any
    params: types.CallToolRequestParams
    via_meta_tool: str | None = None


async def forward_call(
    fleet: Fleet,
    context: RequestContext,
    client: ClientSession,
    call: ClientCall,
    call_recorder: CallRecorder,
) -> types.CallToolResult | types.InputRequiredResult:
    """Forward a call to the tool's server, if it is permitted and its arguments are valid."""
    if call.via_meta_tool is not None and call.name in RESERVED_NAMES:
        return error_result(
            f"{call.name} is called by its own name, not through {call.via_meta_tool}."
        )
    view = client.view()
    if (server := named_unready_server(fleet, client, view, call.name)) is not None:
        # Waits for a start. If it fails, the error says so.
        await fleet.upstreams[server].connect()
        view = client.view()
    name = client.profile_views.call_names(view.catalog).resolve(call.name, view)
    if call.via_meta_tool is None and fleet.listed_tools.app_only_ids:
        app_tool = _app_only_tool(client, call.name)
        if app_tool is not None:
            verdict = client.app_view().check(app_tool.id, call.arguments)
            return await _run_checked(
                fleet,
                context,
                client,
                verdict,
                call,
                call_recorder,
                recheck=lambda: client.app_view().recheck(verdict),
            )
    named = view.details([name])[0]
    if isinstance(named, Tool) and (problem := _meta_tool_problem(client, call, named)):
        return error_result(problem)
    verdict = await client.run_step(partial(client.check, name, call.arguments))
    if verdict.tool is None or not verdict.passed:
        call_recorder.record_check(verdict)
        return error_result(refusal_text(verdict, call.name))
    tool = verdict.tool
    ok: bool | None = None
    try:
        result = await _run_checked(
            fleet,
            context,
            client,
            verdict,
            call,
            call_recorder,
            recheck=lambda: client.session.recheck(verdict, votes=client.votes),
        )
        ok = isinstance(result, types.CallToolResult) and not result.is_error
    finally:
        await client.run_step(partial(client.record_call, tool.id, ok=ok))
    return result


async def _run_checked(
    fleet: Fleet,
    context: RequestContext,
    client: ClientSession,
    verdict: Verdict,
    call: ClientCall,
    call_recorder: CallRecorder,
    *,
    recheck: Callable[[], Verdict],
) -> types.CallToolResult | types.InputRequiredResult:
    """The server's answer to a permitted call; a refusal for a denied one.

    The verdict is checked again directly before each sending, because the permissions and the
    definition may change while the server starts or a person is asked.
    """
    call_recorder.record_check(verdict)
    tool, profile = verdict.tool, client.profile
    if tool is None or not verdict.passed:
        return error_result(refusal_text(verdict, call.name))

    caller = Caller(context=context, client=client, check_before_sending=check_of_caller(recheck))
    arguments = verdict.arguments
    meta = forwarded_meta(call.params.meta, caller)

    async def send(
        answers: types.InputResponses | None, state: str | None
    ) -> types.CallToolResult | types.InputRequiredResult:
        return await fleet.call(
            tool, arguments, meta=meta, caller=caller, answers=answers, state=state
        )

    server = tool.server or ""
    subject = f"{tool.id} {json.dumps(arguments, sort_keys=True)}"
    try:
        result = await relay_request(
            fleet, caller, call.params, server=server, subject=subject, send=send
        )
    except CallRefusedError as error:
        call_recorder.record_refusal(error.verdict)
        return error_result(refusal_text(error.verdict, call.name))
    if isinstance(result, types.InputRequiredResult):
        return result
    call_recorder.record_result(result)
    result = public_result(server, result)
    limits = profile.result_limits(max_result_chars(fleet.listed_tools.meta(tool.id)))
    source = ResultSource(tool_ids=(tool.id,), profile_fingerprint=profile.fingerprint)
    shorten = partial(client.stored_results.shorten, result, source, limits)
    return await client.run_step(shorten)


def check_of_caller(recheck: Callable[[], Verdict]) -> Callable[[], None]:
    """The check of a `Caller` whose call is sent only if its second verdict passes.

    Args:
        recheck: returns the present verdict on the call. It raises nothing.
    """

    def check() -> None:
        verdict = recheck()
        if not verdict.passed:
            raise CallRefusedError(verdict)

    return check


def _app_only_tool(client: ClientSession, name: str) -> Tool | None:
    """The tool, if it is for user interfaces alone; None for every other tool."""
    view = client.app_view()
    tool = view.details([client.profile_views.call_names(view.catalog).resolve(name, view)])[0]
    if not isinstance(tool, Tool) or client.view().permits(tool.id):
        return None
    return tool


def _meta_tool_problem(client: ClientSession, call: ClientCall, tool: Tool) -> str:
    """Why this meta-tool may not call this permitted tool; empty if it may."""
    effect = effect_of(tool.annotations)
    needed = CALL_TOOL_BY_EFFECT[effect]
    if call.via_meta_tool in CALL_TOOL_BY_EFFECT.values() and call.via_meta_tool != needed:
        return f"{tool.id} is a {effect} tool by its annotations: call it with {needed}."
    if call.via_meta_tool is not None and not covers_annotations_of(client, tool):
        return (
            f"{tool.id} is a {effect} tool, and {call.via_meta_tool} is annotated as more harmless "
            "than that: call the tool by its own name if it is listed, or list the tools again."
        )
    return ""


def refusal_text(verdict: Verdict, name: str) -> str:
    """The answer to a refused call.

    It uses the client's name of the tool. It never quotes rules, because they may name other tools.

    Args:
        verdict: result of the check.
        name: the client's name of the tool.
    """
    if verdict.refusal is None:
        return verdict.text
    fields = replace(verdict, refusal=replace(verdict.refusal, tool_id=name)).to_dict()
    code = fields.pop("detail").get("code", verdict.refusal.kind)
    text = json.dumps({**fields, "tool": name, "code": code}, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode()


def error_result(text: str) -> types.CallToolResult:
    """An error result with a message for the model."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
