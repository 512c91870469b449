"""When a server's lists are read again."""

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
#: Seconds between a change of a list and its reading, and at most where changes do not end.
_SETTLED, _MOST_SETTLED = 0.2, 30.0
#: Seconds for which a list counts as fresh at least, whatever the server says.
_LEAST_FRESH = 60.0
#: Seconds before changes are asked for again after the stream of them ended, and at most.
_RELISTEN, _MOST_RELISTEN = 5.0, 300.0

#: Messages of a server that say that one of its lists has changed.
LISTS_CHANGED = (
    types.ToolListChangedNotification,
    types.ResourceListChangedNotification,
    types.PromptListChangedNotification,
)


class Rereading:
    """The next reading of a list: soon after a change, later and later in a flood of changes.

    Args:
        wake: called when a reading becomes due that was not.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._pause = _SETTLED
        self._read_at = monotonic()
        self._due: float | None = None

    def changed(self) -> None:
        """Note that the list changed; it is read when others had a moment to follow."""
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
            client: the connection; a server that tells of changes is asked for nothing else.
            fresh_s: seconds for which the server says that its list stays as it is.
        """
        if self._due is not None:
            return self._due
        if not fresh_s or _tells_changes(client):
            return float("inf")
        return self._read_at + max(fresh_s, _LEAST_FRESH)

    def begin(self) -> None:
        """Note that the list is read now: what changes from here on needs another reading."""
        self._due = None

    def end(self) -> None:
        """Note that the list was read."""
        self._read_at = monotonic()

    async def listen(self, client: Client) -> None:
        """Hear of changes from a server of the era in which a client has to ask for them."""
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
                _LOG.info("a server tells no changes just now: %s", error)
            await anyio.sleep(wait)
            wait = min(wait * 2, _MOST_RELISTEN)
            # What changed in between was not told.
            self.changed()


def _tells_changes(client: Client) -> bool:
    tools = client.server_capabilities.tools
    return tools is not None and bool(tools.list_changed)
