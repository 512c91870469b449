"""The answer to `tools/list`: the meta-tools, or tools shown directly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import mcp.types as types

from ...catalog import Tool
from ...catalog.pattern import Pattern
from ...loaders.counting import definitions_take_at_most
from ...loaders.levels import Level
from ...view import View
from ..clients.known_clients import permits_by_tool_name
from ..profiles.client_sessions import TEMPORARY_REFUSALS, ClientSession, ToolListing
from ..profiles.profile import (
    CALL_TOOL,
    GET_TOOL_DETAILS,
    READ_RESULT,
    RUN_CODE,
    Profile,
    direct_name,
)
from ..relay.resources import public_meta
from ..upstream.fleet import Fleet
from ..upstream.listed_tools import UI_EXTENSION, shows_ui
from . import meta_tool_answers as answers
from .meta_tool_definitions import (
    ToolEffect,
    annotated_effect,
    effect_of,
    least_permissive,
    max_digest_tokens,
    meta_tools,
)

#: Most tools with a user interface that are shown directly. Others are found by search.
_MAX_UI_TOOLS = 20


def shown_tools(
    fleet: Fleet,
    client: ClientSession,
    capabilities: types.ClientCapabilities | None,
    client_name: str = "",
) -> list[types.Tool]:
    """The tools in a client's `tools/list`.

    The first request of a session decides whether all tools are shown, and the bytes of the
    meta-tools. These change only with the profile, or if a tool behind `call_tool` is more
    dangerous than its annotations.

    Args:
        fleet: the servers.
        client: its session; `tool_listing` is updated.
        capabilities: what the client declares; None if it declares nothing.
        client_name: name that the client gives itself.
    """
    view, profile = client.view(), client.profile
    listing = client.tool_listing
    if listing is None or listing.profile_fingerprint != profile.fingerprint:
        listing = ToolListing(
            profile_fingerprint=profile.fingerprint,
            all_direct=_all_fit_in_context_share(fleet, client, view),
        )
        client.use_listing(listing)
    if listing.all_direct:
        client.note_read((tool, Level.FULL) for tool in view.tools())
        return [*(_direct_tool(fleet, tool) for tool in view.tools()), *_script_tools(profile)]
    extensions = (capabilities and capabilities.extensions) or {}
    direct = directly_shown(
        fleet, client, view, with_ui=profile.ui_tools and UI_EXTENSION in extensions
    )
    client.note_read((tool, Level.FULL) for tool in direct)
    ids = {tool.id for tool in direct}
    hidden = [tool for tool in view.tools() if tool.id not in ids]
    if not listing.meta_tools or _understates_danger(listing.meta_tools, hidden):
        callable_later = [] if fleet.unlisted_servers else [*hidden, *_permitted_later(view)]
        hints = least_permissive([tool.annotations or {} for tool in callable_later])
        split_call_tool = profile.split_call_tool
        if split_call_tool is None:
            split_call_tool = permits_by_tool_name(client_name)
        choices = {
            "split_call_tool": split_call_tool,
            "with_run_code": profile.has_run_code,
            "with_extract": profile.extract_command is not None,
        }
        text = answers.servers_digest(fleet, client, view, max_digest_tokens(**choices))
        meta = meta_tools(text, hints, **choices)
        listing = ToolListing(
            profile_fingerprint=profile.fingerprint, all_direct=False, meta_tools=tuple(meta)
        )
        client.use_listing(listing)
    return [*listing.meta_tools, *(_direct_tool(fleet, tool) for tool in direct)]


def _script_tools(profile: Profile) -> list[types.Tool]:
    """The meta-tools that scripts need if all tools are shown directly."""
    if not profile.has_run_code:
        return []
    tools = meta_tools(
        "",
        least_permissive([]),
        with_run_code=True,
        with_extract=profile.extract_command is not None,
    )
    return [tool for tool in tools if tool.name in (GET_TOOL_DETAILS, READ_RESULT, RUN_CODE)]


def _permitted_later(view: View) -> Iterator[Tool]:
    """Tools that are denied now, but that a call, a vote or an approval may permit later."""
    for tool in view.catalog:
        if view.exists(tool.id):
            refusal = view.refusal(tool.id)
            if refusal is not None and refusal.kind in (*TEMPORARY_REFUSALS, "quarantined"):
                yield tool


def directly_shown(
    fleet: Fleet, client: ClientSession, view: View, *, with_ui: bool
) -> Sequence[Tool]:
    """The permitted tools shown beside the meta-tools: in `pinned`, or with a user interface."""
    pins = frozenset(client.profile.pinned)
    globs = [Pattern(pin) for pin in client.profile.pinned if pin.strip()]
    direct, ui_count = [], 0
    for tool in view.tools():
        if tool.id in pins or any(glob.matches_id(tool.id) for glob in globs):
            direct.append(tool)
        elif with_ui and ui_count < _MAX_UI_TOOLS and shows_ui(fleet.listed_tools.meta(tool.id)):
            ui_count += 1
            direct.append(tool)
    return direct


def covers_annotations_of(client: ClientSession, tool: Tool) -> bool:
    """Whether the annotations of `call_tool` that the client has seen cover a tool.

    Args:
        client: session of the client.
        tool: a permitted tool.
    """
    if client.tool_listing is None:
        return True
    return not _understates_danger(client.tool_listing.meta_tools, [tool])


def _understates_danger(meta: Sequence[types.Tool], tools: Sequence[Tool]) -> bool:
    """Whether one of the tools is more dangerous than the annotations of `call_tool`."""
    effects = list(ToolEffect)
    for meta_tool in meta:
        if meta_tool.name == CALL_TOOL and meta_tool.annotations is not None:
            annotated = effects.index(annotated_effect(meta_tool.annotations))
            return any(effects.index(effect_of(tool.annotations)) > annotated for tool in tools)
    return False


def _all_fit_in_context_share(fleet: Fleet, client: ClientSession, view: View) -> bool:
    """Whether all permitted definitions are known and cost a small share of the context."""
    permitted = view.tools()
    denied = frozenset(tool.id for tool in view.catalog) - {tool.id for tool in permitted}
    limit = int(client.profile.context_tokens * client.profile.pass_through)
    return (
        bool(permitted)
        and not fleet.unlisted_servers
        and definitions_take_at_most(view.catalog, limit, withheld=denied)
    )


def _direct_tool(fleet: Fleet, tool: Tool) -> types.Tool:
    """The definition of a tool that is shown directly.

    The output schema is left out, because the shortened form of a long result does not match it.
    """
    return types.Tool(
        name=direct_name(tool.id),
        title=tool.title,
        description=tool.description,
        input_schema={"type": "object"} | tool.input_schema,
        annotations=types.ToolAnnotations.model_validate(tool.annotations or {}),
        _meta=public_meta(tool.server or "", fleet.listed_tools.meta(tool.id)) or None,
    )
