"""Log levels of the clients, and log messages that belong to no request."""

from __future__ import annotations

import anyio
import mcp.types as types

from ..profiles.client_sessions import ClientCaller, ClientSessions, permitted_servers
from ..upstream.call import LOG_LEVELS
from ..upstream.fleet import Fleet
from .client_requests import RequestHandlers


class LogLevels:
    """Stores the log levels of clients of the older protocol, and sends them log messages.

    A client of the newer protocol sends its level with each request.

    Args:
        fleet: the servers.
        handlers: gets the handler.
        sessions: sessions of all clients.
    """

    def __init__(self, fleet: Fleet, handlers: RequestHandlers, sessions: ClientSessions) -> None:
        self._fleet = fleet
        self._sessions = sessions
        handlers.add("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        fleet.message_handlers.on_log = self._send

    async def _set_level(
        self, caller: ClientCaller, params: types.SetLevelRequestParams
    ) -> types.EmptyResult:
        client = caller.client
        client.log_level, client.log_listener = params.level, caller.context.session
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
