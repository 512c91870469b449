"""Decides when a server's lists are read again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic

import anyio
import mcp.types as types
from mcp import Client, MCPError
from mcp.client.subscriptions import SubscriptionLost
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

_LOG = logging.getLogger("shortlist.gateway")
#: Seconds between a change of a list and its reading: at first, and at most if changes go on.
_SETTLED, _MOST_SETTLED = 0.2, 30.0
#: Least number of seconds for which a list counts as fresh. A server cannot shorten it.
_LEAST_FRESH = 60.0
#: Seconds before the gateway asks for changes again after their stream ended: at first, at most.
_RELISTEN, _MOST_RELISTEN = 5.0, 300.0

#: Messages by which a server says that a list has changed.
LISTS_CHANGED = (
    types.ToolListChangedNotification,
    types.ResourceListChangedNotification,
    types.PromptListChangedNotification,
)


class Rereading:
    """Time of the next reading of a list: soon after a change, and later if many changes follow.

    Args:
        wake: called when a reading becomes due.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._pause = _SETTLED
        self._read_at = monotonic()
        self._due: float | None = None

    def changed(self) -> None:
        """Note that the list changed. It is read a moment later, with further changes."""
        if self._due is not None:
            return
        now = monotonic()
        calm = now >= self._read_at + 2 * self._pause
        self._pause = _SETTLED if calm else min(self._pause * 2, _MOST_SETTLED)
        self._due = now + self._pause
        self._wake()

    def due(self, client: Client, fresh_s: float) -> float:
        """The time of the next reading, as of `monotonic`.

        Args:
            client: the connection. If the server reports changes, `fresh_s` is not used.
            fresh_s: number of seconds after which the server's list may be outdated.
        """
        if self._due is not None:
            return self._due
        if not fresh_s or _tells_changes(client):
            return float("inf")
        return self._read_at + max(fresh_s, _LEAST_FRESH)

    def begin(self) -> None:
        """Note that the list is read now. A later change needs another reading."""
        self._due = None

    def end(self) -> None:
        """Note that the list was read."""
        self._read_at = monotonic()

    async def listen(self, client: Client) -> None:
        """Receive changes from a server of the newer protocol, which clients must ask for them."""
        able = client.server_capabilities
        tells = any(one and one.list_changed for one in (able.tools, able.prompts, able.resources))
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not tells:
            return
        wait = _RELISTEN
        while True:
            try:
                async with client.listen(
                    tools_list_changed=True,
                    prompts_list_changed=True,
                    resources_list_changed=True,
                ) as changes:
                    async for _ in changes:
                        self.changed()
            except (MCPError, SubscriptionLost) as error:
                _LOG.info("a server reports no list changes for now: %s", error)
            await anyio.sleep(wait)
            wait = min(wait * 2, _MOST_RELISTEN)
            # Changes in between were not reported.
            self.changed()


def _tells_changes(client: Client) -> bool:
    tools = client.server_capabilities.tools
    return tools is not None and bool(tools.list_changed)
