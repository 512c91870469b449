"""SchemaSource: the protocol of sources of definitions; those in memory, and one per server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Protocol, TypeVar

from ...catalog import Catalog, Tool
from ...errors import SchemaError

T = TypeVar("T")


class SchemaSource(Protocol):
    """A source of tool definitions."""

    def fetch(self, tool: Tool) -> Tool | Awaitable[Tool]:
        """The definition of a tool, or an awaitable of it.

        Called in the loader's event loop, in which a returned awaitable runs too; it may be
        cancelled. Neither must block that loop: use `in_thread` for blocking calls.

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
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # whoever stops waiting does not stop the call

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as raised:  # noqa: BLE001 - it is raised again where it is awaited
            future.set_exception(raised)

    threading.Thread(target=run, name="shortlist-source", daemon=True).start()
    return await asyncio.wrap_future(future)


class MemorySource:
    """Returns definitions of tools in memory.

    Args:
        tools: full definitions.
    """

    def __init__(self, tools: Catalog | Iterable[Tool]) -> None:
        self._tools = {tool.id: tool for tool in tools}

    def fetch(self, tool: Tool) -> Tool:
        """The definition of a tool.

        Raises:
            SchemaError: it is not among them.
        """
        if (found := self._tools.get(tool.id)) is None:
            raise SchemaError(f"no definition of {tool.id!r:.100} in memory")
        return found


class RoutedSource:
    """Reads each definition from the source of the tool's server.

    Args:
        sources: server to its source; "" for tools without a server.
    """

    def __init__(self, sources: Mapping[str, SchemaSource]) -> None:
        self._sources = dict(sources)

    def fetch(self, tool: Tool) -> Tool | Awaitable[Tool]:
        """The definition of a tool.

        Raises:
            SchemaError: its server has no source.
        """
        source = self._sources.get(tool.server or "")
        if source is None:
            raise SchemaError(f"server {tool.server!r:.100} has no source of definitions")
        return source.fetch(tool)
