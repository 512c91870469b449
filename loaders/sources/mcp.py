"""McpSource: definitions from an MCP server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ...catalog import Tool, read_tools
from ...catalog.listing import ListsTools, list_definitions
from ...errors import SchemaError


class McpSource:
    """Reads definitions from an MCP server, and again after a change.

    A client belongs to the event loop in which it was opened. If you make the source inside that
    loop, all requests run there. If you make it outside of any loop, requests run in the loop that
    awaits them. Do not block that loop with a session: await `SchemaLoader.aload` there.

    Args:
        client: an open MCP client.
        server: name of the server in the catalog.
    """

    def __init__(self, client: ListsTools, server: str) -> None:
        self._client = client
        self._server = server
        self._listing: asyncio.Task[Mapping[str, Tool]] | None = None
        try:
            self._home: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self._home = None

    def changed(self) -> None:
        """Forget the definitions. Call it on `notifications/tools/list_changed`."""
        self._listing = None

    async def fetch(self, tool: Tool) -> Tool:
        """The definition of a tool as the server lists it.

        Raises:
            SchemaError: the server does not list it, or cannot be reached.
        """
        if self._home is None or self._home is asyncio.get_running_loop():
            return await self._find(tool)
        if self._home.is_closed():
            raise SchemaError(f"the connection to server {self._server!r:.100} is closed")
        asked = asyncio.run_coroutine_threadsafe(self._find(tool), self._home)
        return await asyncio.wrap_future(asked)

    async def _find(self, tool: Tool) -> Tool:
        listing = self._listing
        loop = asyncio.get_running_loop()
        failed = listing is not None and listing.done() and not _succeeded(listing)
        if listing is None or failed or listing.get_loop() is not loop:
            listing = self._listing = loop.create_task(self._list())
        # Shielded: who waits may give up, the answer still serves the next turn.
        found = (await asyncio.shield(listing)).get(tool.name)
        if found is None:
            raise SchemaError(f"server {self._server!r:.100} does not list {tool.name!r:.100}")
        return found if found.id == tool.id else found.with_id(tool.id)

    async def _list(self) -> Mapping[str, Tool]:
        rows = await list_definitions(self._client)
        read = read_tools({"tools": rows}, format="mcp", server=self._server, strict=False)
        return {tool.name: tool for tool in read.tools}


def _succeeded(task: asyncio.Task[Any]) -> bool:
    return not task.cancelled() and task.exception() is None
