"""What a server lists, read page by page."""

from __future__ import annotations

from dataclasses import dataclass

import mcp.types as types
from mcp import Client

from .offers import NOTHING, Offers, read_offers

#: Pages of a list that are read, and tools of a server that are kept.
_PAGES, _TOOLS = 200, 10_000


@dataclass(frozen=True, slots=True)
class Listing:
    """What a server lists.

    Args:
        tools: as the server gave them.
        instructions: the server's own words on how to use it.
        version: what it says of itself, as `name version`.
        offers: what it offers besides tools.
    """

    tools: tuple[types.Tool, ...]
    instructions: str = ""
    version: str = ""
    offers: Offers = NOTHING


async def read_listing(client: Client) -> Listing:
    """Everything that a server lists, up to the limits on pages and tools."""
    tools: list[types.Tool] = []
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(_PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="refresh")
        tools += page.tools
        cursor = page.next_cursor
        if not cursor or cursor in seen or len(tools) >= _TOOLS:
            break
        seen.add(cursor)
    info = client.server_info
    version = f"{info.name} {info.version}" if info else ""
    offers = await read_offers(client)
    return Listing(tuple(tools[:_TOOLS]), client.instructions or "", version, offers)
