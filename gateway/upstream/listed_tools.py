"""The tools that the servers list, with data besides the catalog.

User interfaces, and how long results may be.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import mcp.types as types

from ...catalog import Tool
from ...errors import ShortlistError
from ...gating.votes import VOTING_TOOL
from ..connections.openapi_server import TOOL_META_KEY
from ..connections.server_spec import ServerSpec
from .safe_texts import is_flagged_extra, safe_resources_and_prompts
from .server_lists import Listing, ResourcesAndPrompts
from .skills import skill_tool

#: Most characters of a result, even if the tool's `_meta` allows more.
_MAX_RESULT_CHARS = 500_000


#: MCP Apps: what a client declares that shows user interfaces of tools.
UI_EXTENSION = "io.modelcontextprotocol/ui"


def shows_ui(meta: Mapping[str, Any]) -> bool:
    """Whether the tool has a user interface: a `ui://` resource in its `_meta`."""
    addresses = [meta.get("ui/resourceUri"), meta.get("openai/outputTemplate")]
    if isinstance(ui := meta.get("ui"), Mapping):
        addresses.append(ui.get("resourceUri"))
    return any(isinstance(address, str) and address.startswith("ui://") for address in addresses)


def is_app_only(meta: Mapping[str, Any]) -> bool:
    """Whether the tool is for the user interface alone, and no model may see it."""
    ui = meta.get("ui")
    visibility = ui.get("visibility") if isinstance(ui, Mapping) else None
    return isinstance(visibility, list) and bool(visibility) and "model" not in visibility


def max_result_chars(meta: Mapping[str, Any]) -> int | None:
    """Most characters of an unchanged result, from the tool's `_meta`; None if it sets no limit."""
    limit = meta.get("anthropic/maxResultSizeChars")
    if not isinstance(limit, int) or isinstance(limit, bool) or limit <= 0:
        return None
    return min(limit, _MAX_RESULT_CHARS)


#: Most characters of a tool's `_meta`; a longer one is dropped.
_MAX_META_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class ListedServer:
    """What one server lists besides the definitions of its tools.

    Args:
        instructions: its instructions.
        lists: its resources and prompts.
        safe_lists: the same as clients see them in lists, without hostile texts.
        problems: problems of its lists and of single tools.
        tool_names: name of a tool in the catalog to the server's name of it.
        metas: tool id to the tool's `_meta`.
        has_voting_tool: whether it has the tool `_tool_gating`.
    """

    instructions: str
    lists: ResourcesAndPrompts
    safe_lists: ResourcesAndPrompts
    problems: tuple[str, ...]
    tool_names: Mapping[str, str]
    metas: Mapping[str, Mapping[str, Any]]
    has_voting_tool: bool


class ListedTools:
    """The tools that servers list, with information that is not in the catalog.

    Attributes:
        servers: server to what it lists. It is replaced with each change, because other threads
            read it.
        app_only_ids: ids of the tools that are for user interfaces alone.
    """

    def __init__(self) -> None:
        self.servers: Mapping[str, ListedServer] = {}
        self.app_only_ids: frozenset[str] = frozenset()
        self._metas: Mapping[str, Mapping[str, Any]] = {}

    @property
    def voting_servers(self) -> frozenset[str]:
        """Names of the servers with the tool `_tool_gating`."""
        return frozenset(name for name, listed in self.servers.items() if listed.has_voting_tool)

    def use_listing(self, spec: ServerSpec, listing: Listing) -> list[Tool]:
        """The tools of a listing. Unreadable tools are left out and become problems.

        Args:
            spec: the server.
            listing: the present list, which replaces the earlier one.
        """
        server = spec.name
        problems = list(listing.problems)
        lists = listing.resources_and_prompts
        safe_lists = safe_resources_and_prompts(server, lists, problems)
        tool_names: dict[str, str] = {}
        tools_by_name: dict[str, Tool] = {}
        metas: dict[str, dict[str, Any]] = {}
        for tool in listing.tools:
            if not spec.tools.permits(tool.name):
                continue
            try:
                catalog_tool = _catalog_tool(spec, tool)
            except ShortlistError as error:
                problems.append(f"tool {tool.name!r:.80} is left out: {error}")
                continue
            has_meta = tool.meta and spec.transport != "openapi" and _is_short(tool.meta)
            if has_meta and is_flagged_extra(server, tool.meta):
                problems.append(f"tool {tool.name!r:.80} is left out: its _meta looks hostile")
                continue
            if catalog_tool.name in tools_by_name:
                problems.append(f"tool {tool.name!r:.80} is listed twice; the first one counts")
                continue
            tools_by_name[catalog_tool.name] = catalog_tool
            tool_names[catalog_tool.name] = tool.name
            if has_meta:
                metas[catalog_tool.id] = dict(tool.meta or {})
        listed = ListedServer(
            instructions=listing.instructions,
            lists=lists,
            safe_lists=safe_lists,
            problems=tuple(problems),
            tool_names=tool_names,
            metas=metas,
            has_voting_tool=any(tool.name == VOTING_TOOL for tool in listing.tools),
        )
        self._set_servers({**self.servers, server: listed})
        return list(tools_by_name.values())

    def forget(self, server: str) -> None:
        """Remove the list of a server."""
        self._set_servers({name: row for name, row in self.servers.items() if name != server})

    def skill_tools(self, server: str | None = None) -> list[Tool]:
        """The skills in the form in which they are searched, scanned and pinned.

        Args:
            server: name of the only server that is wanted; all servers when None.
        """
        tools: dict[str, Tool] = {}
        for name, listed in self.servers.items():
            for skill in listed.safe_lists.skills if server in (None, name) else ():
                tool = skill_tool(name, skill)
                tools.setdefault(tool.id, tool)
        return list(tools.values())

    def name_at_server(self, tool: Tool) -> str | None:
        """The server's name of a tool; None if the server does not list it."""
        listed = self.servers.get(tool.server or "")
        return None if listed is None else listed.tool_names.get(tool.name)

    def meta(self, tool_id: str) -> Mapping[str, Any]:
        """The `_meta` of a tool; empty if there is none."""
        return self._metas.get(tool_id, {})

    def _set_servers(self, servers: Mapping[str, ListedServer]) -> None:
        self.servers = servers
        self._metas = {
            tool_id: meta for listed in servers.values() for tool_id, meta in listed.metas.items()
        }
        self.app_only_ids = frozenset(
            tool_id for tool_id, meta in self._metas.items() if is_app_only(meta)
        )


def _catalog_tool(spec: ServerSpec, listed: types.Tool) -> Tool:
    """A tool of the catalog from a server's list.

    Only the gateway's own server for an OpenAPI document says which request a tool sends.

    Raises:
        ShortlistError: the definition is not valid.
    """
    hints = listed.annotations
    more: dict[str, Any] = {}
    if spec.transport == "openapi":
        more = (listed.meta or {}).get(TOOL_META_KEY, {})
    return Tool(
        listed.name,
        spec.name,
        listed.description or "",
        listed.input_schema,
        title=listed.title,
        output_schema=listed.output_schema,
        annotations=hints.model_dump(by_alias=True, exclude_none=True) if hints else None,
        tags=more.get("tags", ()),
        operation=more.get("operation"),
    )


def _is_short(meta: Mapping[str, Any]) -> bool:
    return len(json.dumps(meta, default=str)) <= _MAX_META_CHARS
