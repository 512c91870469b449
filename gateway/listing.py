"""Reads the lists of a server, page by page."""

from __future__ import annotations

from dataclasses import dataclass, replace

import mcp.types as types
from mcp import Client
from pydantic import ValidationError

from .offers import NOTHING, Offers, read_offers
from .pages import Pages

#: Most pages of a list, and most tools of a server; further ones are not read.
_PAGES, _TOOLS = 200, 10_000
#: Most characters of a description; the rest is cut.
_DESCRIPTION = 20_000


@dataclass(frozen=True, slots=True)
class Listing:
    """The lists of a server.

    Args:
        tools: the server's definitions.
        instructions: the server's instructions.
        version: name and version of the server, as `name version`.
        fresh_s: number of seconds for which the list is valid, from the server; 0 if unknown.
        problems: problems of its lists, one line each.
        offers: its capabilities besides tools.
    """

    tools: tuple[types.Tool, ...]
    instructions: str = ""
    version: str = ""
    fresh_s: float = 0.0
    problems: tuple[str, ...] = ()
    offers: Offers = NOTHING


async def read_listing(client: Client, pages: Pages) -> Listing:
    """All lists of a server, up to the limits on pages and entries.

    Args:
        client: the connection.
        pages: pages of the connection. Malformed tools on them are left out and become problems.
    """
    tools = await _read_tools(client, pages)
    problems: list[str] = []
    offers = await read_offers(client, problems)
    return replace(tools, problems=(*tools.problems, *problems), offers=offers)


async def _read_tools(client: Client, pages: Pages) -> Listing:
    tools: list[types.Tool] = []
    problems: list[str] = []
    fresh: list[float] = []
    cursor: str | None = None
    seen: set[str] = set()
    pages.problems = []
    if client.server_capabilities.tools is None:
        return Listing((), client.instructions or "", _version(client))
    for number in range(1, _PAGES + 1):
        page = await _page(client, cursor, pages)
        tools += (_bounded(tool, problems) for tool in page.tools)
        fresh.append(page.ttl_ms / 1e3)
        cursor = page.next_cursor
        if not cursor:
            break
        if cursor in seen:
            problems.append(f"its list has no end: page {number} leads to one that was read")
            break
        if len(tools) >= _TOOLS:
            break
        if number == _PAGES:
            problems.append(f"its list has more than {_PAGES} pages; the rest is left out")
        seen.add(cursor)
    if (cursor and len(tools) >= _TOOLS) or len(tools) > _TOOLS:
        problems.append(f"it lists more than {_TOOLS:,} tools; the rest is left out")
    return Listing(
        tuple(tools[:_TOOLS]),
        client.instructions or "",
        _version(client),
        min(fresh),
        (*problems, *pages.problems),
    )


def _version(client: Client) -> str:
    info = client.server_info
    return f"{info.name} {info.version}" if info else ""


def _bounded(tool: types.Tool, problems: list[str]) -> types.Tool:
    if tool.description and len(tool.description) > _DESCRIPTION:
        problems.append(
            f"tool {tool.name!r:.80}: its description has {len(tool.description):,} characters; "
            f"only the first {_DESCRIPTION:,} are read"
        )
        tool.description = tool.description[:_DESCRIPTION]
    return tool


async def _page(client: Client, cursor: str | None, pages: Pages) -> types.ListToolsResult:
    try:
        return await client.list_tools(cursor=cursor, cache_mode="refresh")
    except ValidationError:
        if pages.screened:
            raise
        pages.screened = True
        return await client.list_tools(cursor=cursor, cache_mode="refresh")
