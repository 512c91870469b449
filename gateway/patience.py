"""Time limit for the answer of a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from types import TracebackType
from typing import Self

import anyio
from mcp.shared.dispatcher import ProgressFnT

#: A request may take at most this many times its limit, even with progress reports.
_MOST = 20


class Patience:
    """A time limit that restarts with each progress report.

    Args:
        seconds: seconds without progress. The whole request may take 20 times as long.

    Raises:
        TimeoutError: at the end of the block, if time ran out in it.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._scope = anyio.CancelScope()
        self._most = 0.0
        self._pauses, self._paused_at = 0, 0.0

    def extend(self) -> None:
        """Restart the time limit."""
        if not self._pauses:
            self._scope.deadline = min(anyio.current_time() + self._seconds, self._most)

    def with_progress(self, told: ProgressFnT | None) -> ProgressFnT:
        """A progress callback that restarts the time limit.

        Args:
            told: also called with the progress.
        """

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            self.extend()
            if told is not None:
                await told(progress, total, message)

        return heard

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the time limit during the block, in which the server waits for an answer."""
        if not self._pauses:
            self._paused_at = anyio.current_time()
            self._scope.deadline = inf
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                self._most += anyio.current_time() - self._paused_at
                self.extend()

    def __enter__(self) -> Self:
        self._most = anyio.current_time() + _MOST * self._seconds
        self.extend()
        self._scope.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        swallowed = self._scope.__exit__(kind, error, traceback)
        if self._scope.cancelled_caught:
            raise TimeoutError
        return swallowed
