"""The tools that the servers list, with data besides the catalog.

User interfaces, and how long results may be.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import mcp.types as types

from ...catalog import Tool
from ...errors import ShortlistError, ToolError
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


class ListedTools:
    """The tools that servers list, with information that is not in the catalog.

    Attributes:
        instructions: server to its instructions.
        resources_and_prompts: server to its resources and prompts.
        safe_resources_and_prompts: the same as clients see them in lists, without hostile texts.
        problems: server to the problems of single tools.
        app_only_ids: ids of the tools that are for user interfaces alone.
        voting_servers: names of the servers with the tool `_tool_gating`.
    """

    def __init__(self) -> None:
        self.instructions: dict[str, str] = {}
        self.resources_and_prompts: dict[str, ResourcesAndPrompts] = {}
        self.safe_resources_and_prompts: dict[str, ResourcesAndPrompts] = {}
        self.problems: dict[str, list[str]] = {}
        self.app_only_ids: frozenset[str] = frozenset()
        self.voting_servers: frozenset[str] = frozenset()
        #: Server and tool to the server's name of the tool.
        self._names: dict[tuple[str, str], str] = {}
        #: Server to tool id to the tool's `_meta`; and tool id to `_meta`, for all servers
        #: together.
        self._meta_by_server: dict[str, dict[str, dict[str, Any]]] = {}
        self._meta_by_tool_id: dict[str, dict[str, Any]] = {}

    def use_listing(self, spec: ServerSpec, listing: Listing) -> list[Tool]:
        """The tools of a listing. Unreadable tools are left out and become problems.

        Args:
            spec: the server.
            listing: the present list, which replaces the earlier one.
        """
        server = spec.name
        self.instructions[server] = listing.instructions
        self.resources_and_prompts[server] = listing.resources_and_prompts
        problems = list(listing.problems)
        self.safe_resources_and_prompts[server] = safe_resources_and_prompts(
            server, listing.resources_and_prompts, problems
        )
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
            self._names[server, catalog_tool.name] = tool.name
            if has_meta:
                metas[catalog_tool.id] = dict(tool.meta or {})
        self.problems[server] = problems
        has_voting_tool = any(tool.name == VOTING_TOOL for tool in listing.tools)
        self.voting_servers = (
            self.voting_servers | {server} if has_voting_tool else self.voting_servers - {server}
        )
        self._set_meta_by_server({**self._meta_by_server, server: metas})
        return list(tools_by_name.values())

    def forget(self, server: str) -> None:
        """Remove the list of a server."""
        self.instructions.pop(server, None)
        self.resources_and_prompts.pop(server, None)
        self.safe_resources_and_prompts.pop(server, None)
        self.problems.pop(server, None)
        self.voting_servers -= {server}
        self._names = {
            key: listed_name for key, listed_name in self._names.items() if key[0] != server
        }
        self._set_meta_by_server(
            {
                other_server: metas
                for other_server, metas in self._meta_by_server.items()
                if other_server != server
            }
        )

    def skill_tools(self, server: str | None = None) -> list[Tool]:
        """The skills in the form in which they are searched, scanned and pinned.

        Args:
            server: name of the only server that is wanted; all servers when None.
        """
        tools: dict[str, Tool] = {}
        for name, lists in self.safe_resources_and_prompts.items():
            for skill in lists.skills if server in (None, name) else ():
                with suppress(ToolError):
                    tool = skill_tool(name, skill)
                    tools.setdefault(tool.id, tool)
        return list(tools.values())

    def name_at_server(self, tool: Tool) -> str | None:
        """The server's name of a tool; None if the server does not list it."""
        return self._names.get((tool.server or "", tool.name))

    def meta(self, tool_id: str) -> Mapping[str, Any]:
        """The `_meta` of a tool; empty if there is none."""
        return self._meta_by_tool_id.get(tool_id, {})

    def _set_meta_by_server(self, metas: dict[str, dict[str, dict[str, Any]]]) -> None:
        self._meta_by_server = metas
        self._meta_by_tool_id = {
            tool_id: meta
            for server_metas in metas.values()
            for tool_id, meta in server_metas.items()
        }
        self.app_only_ids = frozenset(
            tool_id for tool_id, meta in self._meta_by_tool_id.items() if is_app_only(meta)
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
