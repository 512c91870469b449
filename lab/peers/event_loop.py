"""One event loop for the life of a peer whose interface is asynchronous."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class EventLoop:
    """Runs coroutines one after another on a loop of its own, closed with its owner.

    A loop that stays open keeps the cost of starting one out of the time of each search.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # The garbage collector may come while another loop runs, when this one cannot run.
        weakref.finalize(self, self._loop.close)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return its result."""
        return self._loop.run_until_complete(coroutine)
