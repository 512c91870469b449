"""Follows the changes that other engines make to a catalog in PostgreSQL."""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable
from threading import Event, Thread
from typing import Any
from weakref import WeakMethod, WeakSet

from ...errors import ShortlistError
from .database import Database
from .stored_catalog import CHANNEL

_LOG = logging.getLogger(__name__)
_WAKE_S = 0.5
"""Seconds after which the thread looks whether it should end."""
_RETRY_S = 2.0
_POLL_WAKES = 20
"""Wakes after which the version is looked up without a notification, which may be lost."""


_alive: WeakSet[Follower] = WeakSet()


@atexit.register
def _finish() -> None:
    # A thread that is in native code when the interpreter goes would abort the process.
    for follower in tuple(_alive):
        follower.close()


class Follower:
    """Calls a method in a thread whenever the catalog of a tenant may have changed.

    Args:
        database: connections of the tenant.
        refresh: a method that uses a newer version, and returns whether it has more to do. No
            reference is kept to its object.
    """

    def __init__(self, database: Database, refresh: WeakMethod[Callable[[], bool]]) -> None:
        self._database = database
        self._bound_refresh = refresh
        self._logged_problem = ""
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="shortlist-follower", daemon=True)
        self._thread.start()
        _alive.add(self)

    def close(self) -> None:
        """Stop following."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set() and self._bound_refresh() is not None:
            try:
                self._follow()
            except ShortlistError as error:
                # Searches go on with the version that they have.
                if str(error) != self._logged_problem:
                    self._logged_problem = str(error)
                    _LOG.warning("changes of the catalog are not seen now: %s", error)
                self._stopped.wait(_RETRY_S)

    def _follow(self) -> None:
        with self._database.connection() as connection:
            row = connection.execute("SELECT pg_is_in_recovery()").fetchone()
            # A streaming replica takes no LISTEN: its version is looked up at each wake.
            self._logged_problem = ""
            is_replica = row is not None and bool(row[0])
            poll_wakes = 1 if is_replica else _POLL_WAKES
            if not is_replica:
                connection.execute(f"LISTEN {CHANNEL}".encode())
            try:
                wakes = 0
                while not self._stopped.is_set():
                    if wakes % poll_wakes == 0:
                        refresh: Any = self._bound_refresh()
                        if refresh is None:
                            return
                        while refresh() and not self._stopped.is_set():
                            pass
                        del refresh
                    wakes += 1
                    for notice in connection.notifies(timeout=_WAKE_S, stop_after=1):
                        if notice.payload == self._database.tenant:
                            wakes = 0
            finally:
                if not connection.closed and not is_replica:
                    connection.execute("UNLISTEN *")
