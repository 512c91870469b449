"""Tracks which clients' requests a server works on, so that its messages reach the right client.

A server over stdin/stdout does not say which request a question or log message belongs to. It is
certain only while all requests in work are those of one client. So a tool whose messages matter
runs while no other client's such tool runs: one that has asked or logged before, and one that is
called for the first time. All others run freely.
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

#: Seconds that a request waits for other clients' requests: one that is known to ask, and others.
_WAIT, _SHORT_WAIT = 30.0, 10.0
#: Seconds for which a server may still speak for a request that its client has cancelled.
_AFTERMATH = 2.0


@dataclass(eq=False, slots=True)
class _Running:
    caller: Caller
    key: str
    left_at: float | None = None
    doubtful: bool = False


class Turns:
    """The requests that one server works on. For one event loop."""

    def __init__(self) -> None:
        self._running: list[_Running] = []
        #: Keys of requests that came to their end without a word, and of those that did not once.
        self._quiet: set[str] = set()
        self._speaking: set[str] = set()
        self._undecided = 0
        self._changed = anyio.Event()

    @asynccontextmanager
    async def turn(self, caller: Caller, key: str) -> AsyncIterator[None]:
        """Runs a request when no other client's request could be confused with it.

        Where that takes too long, it runs all the same: a question that comes then waits until it
        is certain whose it is, or is refused.

        Args:
            caller: whose request it is.
            key: key of the operation; requests with the same key behave in the same way.
        """
        with anyio.move_on_after(_WAIT if key in self._speaking else _SHORT_WAIT):
            while not self._may_run(caller, key):
                await self._next_change()
        mine = _Running(caller, key)
        self._running.append(mine)
        try:
            yield
        except MCPError as error:
            # A server that is late may still be at work.
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
        """The request a message belongs to that arrives now; None where that is not certain."""
        running = self._present()
        if len({id(one.caller.client) for one in running}) != 1:
            return None
        return next((one.caller for one in running if one.left_at is None), None)

    def note(self) -> None:
        """The server said something that matters: what runs now is not quiet.

        Where it is not certain which request spoke, the next one of each key runs alone.
        """
        present = self._present()
        for one in present:
            self._quiet.discard(one.key)
            one.doubtful = True
        if len(present) == 1:
            self._speaking.add(present[0].key)

    @property
    def is_idle(self) -> bool:
        """Whether the server works on no request."""
        return not self._present()

    async def certain_speaker(self, patience: float) -> Caller | None:
        """The request that the server asks for; waits until it is certain.

        The request that asks cannot end before it is answered. So as others end, it remains.

        Args:
            patience: seconds to wait at most.
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
        """The requests in work, and those cancelled a moment ago."""
        now = monotonic()
        self._running = [
            one for one in self._running if one.left_at is None or now - one.left_at < _AFTERMATH
        ]
        return self._running

    async def _next_change(self) -> None:
        # Cancelled requests leave by the clock, which tells nobody.
        with anyio.move_on_after(_AFTERMATH / 4):
            await self._changed.wait()
