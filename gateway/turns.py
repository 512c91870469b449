"""Tracks the running requests of a server, so that its messages reach the right client.

A server over stdin/stdout does not say which request a question or log message belongs to. The
client is certain only while all running requests are of one client. Two kinds of tools therefore
wait for other clients' calls of such tools: tools that asked or logged before, and tools that are
called for the first time. All other tools do not wait.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic

import anyio
import mcp.types as types
from mcp import MCPError

from .caller import Caller

#: Seconds that a request waits for other clients' requests: tools known to ask, and other tools.
_WAIT, _SHORT_WAIT = 30.0, 10.0
#: Seconds for which a server may still send messages for a cancelled request.
_AFTERMATH = 2.0


@dataclass(eq=False, slots=True)
class _Running:
    caller: Caller
    key: str
    left_at: float | None = None
    doubtful: bool = False


class Turns:
    """The running requests of one server. For one event loop."""

    def __init__(self) -> None:
        self._running: list[_Running] = []
        #: Keys of requests that ended without a message, and of those that once sent one.
        self._quiet: set[str] = set()
        self._speaking: set[str] = set()
        self._undecided = 0
        self._changed = anyio.Event()

    @asynccontextmanager
    async def turn(self, caller: Caller, key: str) -> AsyncIterator[None]:
        """Wait until no other client's request can be confused with this one, then run it.

        After too long a wait it runs anyway. A question then waits until its client is certain, or
        is refused.

        Args:
            caller: the client's request.
            key: key of the operation. Requests with the same key are assumed to behave alike.
        """
        with anyio.move_on_after(_WAIT if key in self._speaking else _SHORT_WAIT):
            while not self._may_run(caller, key):
                await self._next_change()
        mine = _Running(caller, key)
        self._running.append(mine)
        try:
            yield
        except MCPError as error:
            # A late server may still work on it.
            self._leave(mine, answered=error.code != types.REQUEST_TIMEOUT)
            raise
        except BaseException:
            self._leave(mine, answered=False)
            raise
        else:
            self._leave(mine, answered=True)
            if key not in self._speaking and not mine.doubtful:
                self._quiet.add(key)

    def speaker(self) -> Caller | None:
        """The request of a message that arrives now; None if it is not certain."""
        running = self._present()
        if len({id(one.caller.client) for one in running}) != 1:
            return None
        return next((one.caller for one in running if one.left_at is None), None)

    def note(self) -> None:
        """Note that a running request sent a question or log message.

        If it is not certain which request it was, the next request of each key runs alone.
        """
        present = self._present()
        for one in present:
            self._quiet.discard(one.key)
            one.doubtful = True
        if len(present) == 1:
            self._speaking.add(present[0].key)

    @property
    def is_idle(self) -> bool:
        """Whether no request is running."""
        return not self._present()

    async def certain_speaker(self, patience: float) -> Caller | None:
        """The request of a server's question. Waits until it is certain.

        The asking request cannot end before its answer. So it remains when the others have ended.

        Args:
            patience: most seconds to wait.
        """
        self._undecided += 1
        try:
            with anyio.move_on_after(patience):
                while (caller := self.speaker()) is None and not self.is_idle:
                    await self._next_change()
                return caller
            return None
        finally:
            self._undecided -= 1

    def _may_run(self, caller: Caller, key: str) -> bool:
        others = [one for one in self._present() if one.caller.client is not caller.client]
        if not others:
            return True
        if self._undecided:
            return False
        return key in self._quiet or all(one.key in self._quiet for one in others)

    def _leave(self, mine: _Running, *, answered: bool) -> None:
        if answered:
            self._running = [one for one in self._running if one is not mine]
        else:
            mine.left_at = monotonic()
        self._changed.set()
        self._changed = anyio.Event()

    def _present(self) -> list[_Running]:
        """The running requests, and those cancelled a moment ago."""
        now = monotonic()
        self._running = [
            one for one in self._running if one.left_at is None or now - one.left_at < _AFTERMATH
        ]
        return self._running

    async def _next_change(self) -> None:
        # Cancelled requests leave after a time, without a notification.
        with anyio.move_on_after(_AFTERMATH / 4):
            await self._changed.wait()
