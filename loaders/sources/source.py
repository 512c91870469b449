"""What a source of definitions is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from ...catalog import Tool

T = TypeVar("T")


class SchemaSource(Protocol):
    """A source of tool definitions."""

    def fetch(self, tool: Tool) -> Tool | Awaitable[Tool]:
        """The definition of a tool, or an awaitable of it.

        Called from any thread; what is returned is awaited on an event loop of the loader's own,
        may be cancelled, and must not block that loop: `in_thread` is for what blocks.

        Args:
            tool: as the catalog has it, possibly without a schema.

        Raises:
            SchemaError: there is none. Any other error is reported as the source's failure.
        """
        ...


async def in_thread(call: Callable[[], T]) -> T:
    """The result of a call that blocks, made in a thread that outlives nobody.

    A thread of its own, and a daemon: a call that hangs takes no place in a pool of workers and
    does not keep the process from ending.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = call()
        except BaseException as raised:  # noqa: BLE001 - it is raised again where it is awaited
            error = raised
        loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="shortlist-source", daemon=True).start()
    return await future
