"""Connections of clients over HTTP: how many there may be, and how long a request may take.

uvicorn waits for the rest of a request without end. So a few half-sent requests without a token
would take all descriptors of the process, and the servers behind the gateway need them as well.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

import h11
from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.h11_impl import H11Protocol

_LOG, _UVICORN_LOG = logging.getLogger("shortlist.gateway"), logging.getLogger("uvicorn.error")
#: Seconds in which a request must arrive, from its first byte to its last.
REQUEST_TIMEOUT_S = 30.0
#: Most connections that asyncio accepts in one turn, before any of them can be closed.
LISTEN_BACKLOG = 32
#: `connection_limit` of a process that may have many descriptors, and of one that may have few.
_MAX_CONNECTION_LIMIT, _MIN_CONNECTION_LIMIT = 4_000, 16
#: Seconds between two log lines about closed connections.
_REPORT_INTERVAL_S = 60.0
#: Errors of requests in that time that are logged with their traceback.
_MAX_ERRORS_A_REPORT = 5
#: States of h11 in which the last byte of a request has arrived.
_REQUEST_ARRIVED_STATES = (h11.DONE, h11.MUST_CLOSE, h11.CLOSED)
#: Beginnings of the lines that uvicorn logs for each bad request, and what asyncio reports for each
#: connection that has no descriptor. They are counted instead.
_COUNTED_LOG_LINES = (
    "Invalid HTTP request",
    "Unsupported upgrade request",
    "No supported WebSocket",
)
_NO_DESCRIPTORS_MESSAGE = "socket.accept() out of system resource"


def connection_limit() -> int:
    """How many connections may be open. Half of the descriptors stay for everything else."""
    if sys.platform == "win32":
        return _MAX_CONNECTION_LIMIT
    import resource

    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return _MAX_CONNECTION_LIMIT
    free_places = descriptors // 2 - 2 * LISTEN_BACKLOG
    return max(_MIN_CONNECTION_LIMIT, min(_MAX_CONNECTION_LIMIT, free_places))


class ClientConnections(logging.Filter):
    """The connections of one HTTP server.

    If there are too many, the one that has waited longest for a request is closed. A client with a
    whole request still gets in while others only hold connections open.

    Args:
        max_open: most connections that are open at once.
    """

    def __init__(self, max_open: int) -> None:
        super().__init__()
        self._max_open = max_open
        self._open: set[ClientConnection] = set()
        #: Connections that wait for a request or the rest of one, longest wait first.
        self._waiting: dict[ClientConnection, None] = {}
        self._unreported_count = 0
        self._next_report: asyncio.TimerHandle | None = None
        self._error_count, self._errors_end = 0, 0.0

    def connection(self, **arguments: Any) -> ClientConnection:
        """A new connection; for uvicorn.

        Args:
            arguments: uvicorn's arguments of a connection.
        """
        return ClientConnection(self, **arguments)

    def add(self, connection: ClientConnection) -> None:
        """Add a connection, and close another one if there are too many."""
        self._open.add(connection)
        if len(self._open) > self._max_open:
            self.close(next(iter(self._waiting), connection))

    def close(self, connection: ClientConnection) -> None:
        """Close a connection at once."""
        self.remove(connection)
        connection.transport.abort()
        self._count_refused()

    def remove(self, connection: ClientConnection) -> None:
        """Forget a connection that was closed."""
        self._open.discard(connection)
        self._waiting.pop(connection, None)

    def set_waiting(self, connection: ClientConnection, *, is_waiting: bool) -> None:
        """Record whether a connection waits for a request or the rest of one."""
        if not is_waiting:
            self._waiting.pop(connection, None)
        elif connection in self._open:
            self._waiting.setdefault(connection)

    @contextmanager
    def counted_not_logged(self) -> Iterator[None]:
        """Count bad requests and connections in the block, instead of a log line for each."""
        loop = asyncio.get_running_loop()
        previous_handler = loop.get_exception_handler()

        def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            if context.get("message") == _NO_DESCRIPTORS_MESSAGE:
                self._count_refused()
            elif previous_handler is not None:
                previous_handler(loop, context)
            else:
                loop.default_exception_handler(context)

        loop.set_exception_handler(handle)
        _UVICORN_LOG.addFilter(self)
        try:
            yield
        finally:
            _UVICORN_LOG.removeFilter(self)
            loop.set_exception_handler(previous_handler)
            if self._next_report is not None:
                self._next_report.cancel()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line of uvicorn's log is written. Bad requests are counted instead.

        So is a client that leaves in the middle of its request, and after some errors in a minute
        each further one: a client can cause any number, with a traceback of 3 kB each.
        """
        if record.exc_info is None:
            is_written = not record.getMessage().startswith(_COUNTED_LOG_LINES)
        else:
            is_written = not isinstance(record.exc_info[1], ClientDisconnect)
            is_written = is_written and self._may_write_error()
        if not is_written:
            self._count_refused()
        return is_written

    def _may_write_error(self) -> bool:
        """Whether one more traceback may be written in this minute."""
        now = monotonic()
        if now >= self._errors_end:
            self._errors_end, self._error_count = now + _REPORT_INTERVAL_S, 0
        self._error_count += 1
        return self._error_count <= _MAX_ERRORS_A_REPORT

    def _count_refused(self) -> None:
        self._unreported_count += 1
        if self._next_report is None:
            self._report()

    def _report(self) -> None:
        """Log how many were closed, at most once a minute."""
        self._next_report = None
        if self._unreported_count:
            _LOG.warning(
                "closed %d connections of clients over HTTP: at most %d may be open, and a request "
                "must be valid and arrive within %g s",
                self._unreported_count,
                self._max_open,
                REQUEST_TIMEOUT_S,
            )
            self._unreported_count = 0
            self._next_report = asyncio.get_running_loop().call_later(
                _REPORT_INTERVAL_S, self._report
            )


class ClientConnection(H11Protocol):
    """A connection that is closed if a request does not arrive in time.

    Args:
        connections: all connections of the server.
        arguments: uvicorn's arguments of a connection.
    """

    def __init__(self, connections: ClientConnections, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._connections = connections
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for the first request."""
        super().connection_made(transport)
        self._connections.add(self)
        self._follow_request()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        self._follow_request()

    def on_response_complete(self) -> None:
        """Start to wait for the next request, or for the rest of this one."""
        super().on_response_complete()
        self._follow_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._connections.remove(self)
        self._stop_deadline()

    def _follow_request(self) -> None:
        """Limit the time for a request that has not arrived in full."""
        is_waiting = self.conn.their_state not in _REQUEST_ARRIVED_STATES
        self._connections.set_waiting(self, is_waiting=is_waiting)
        if not is_waiting:
            self._stop_deadline()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_TIMEOUT_S, self._connections.close, self)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
