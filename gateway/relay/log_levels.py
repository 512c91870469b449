"""Log levels of the clients, and log messages that belong to no request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import mcp.types as types
from mcp.server.lowlevel import Server

from ..profiles.client_sessions import ClientSession, ClientSessions, permitted_servers
from ..upstream.call import LOG_LEVELS, RequestContext
from ..upstream.fleet import Fleet
from .forwarding import with_safe_errors


class LogLevels:
    """Stores the log levels of clients of the older protocol, and sends them log messages.

    A client of the newer protocol sends its level with each request.

    Args:
        fleet: the servers.
        client_of: returns the session of a request.
        sessions: sessions of all clients.
        server: the gateway's MCP server; the handler is added to it.
    """

    def __init__(
        self,
        fleet: Fleet,
        client_of: Callable[[RequestContext], ClientSession],
        sessions: ClientSessions,
        server: Server[Any],
    ) -> None:
        self._fleet = fleet
        self._client_of = client_of
        self._sessions = sessions
        server.add_request_handler(
            "logging/setLevel", types.SetLevelRequestParams, with_safe_errors(self._set_level)
        )
        fleet.message_handlers.on_log = self._send

    async def _set_level(
        self, context: RequestContext, params: types.SetLevelRequestParams
    ) -> types.EmptyResult:
        client = self._client_of(context)
        client.log_level, client.log_listener = params.level, context.session
        for name in permitted_servers(self._fleet, client):
            await self._fleet.upstreams[name].lower_log_level(params.level)
        return types.EmptyResult()

    async def _send(
        self,
        server: str,
        params: types.LoggingMessageNotificationParams,
        client_id: str | None,
    ) -> None:
        """Send a message that belongs to no running request to the clients that set a level.

        Args:
            server: name of the server.
            params: the message.
            client_id: the only session that may get it; None for all sessions.
        """
        severity = LOG_LEVELS.index(params.level)
        for client in self._sessions.all():
            if client_id not in (None, client.id):
                continue
            level, listener = client.log_level, client.log_listener
            if level is None or listener is None or severity < LOG_LEVELS.index(level):
                continue
            if server not in permitted_servers(self._fleet, client):
                continue
            try:
                await listener.send_notification(types.LoggingMessageNotification(params=params))
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                client.log_listener = None
