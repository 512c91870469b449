"""SchemaSource: the protocol of sources of definitions."""

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

        Called from any thread. A returned awaitable runs in the loader's event loop and may be
        cancelled. It must not block that loop; use `in_thread` for blocking calls.

        Args:
            tool: the catalog's tool, perhaps without a schema.

        Raises:
            SchemaError: there is no definition. Any other error is reported as a failure of the
                source.
        """
        ...


async def in_thread(call: Callable[[], T]) -> T:
    """Await a blocking call in a separate daemon thread.

    A call that hangs does not occupy a worker pool, and the process can still end.
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
