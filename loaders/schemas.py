"""Phase 2: the full definitions of the chosen, in time or not at all."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from ..catalog import Tool
from ..errors import SchemaError
from .sources import SchemaSource

TIMEOUT = 2.0
"""Seconds all definitions of a turn may take together, by default."""
_KEPT = 4_096
"""Definitions kept; some 10 MB of typical ones."""


class Missing(NamedTuple):
    """A definition that could not be loaded, with the reason.

    Attributes:
        tool_id: id of the tool.
        reason: reason for people.
    """

    tool_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """The loaded definitions of a turn, and the missing ones.

    Args:
        tools: id to definition, in the requested order; without the missing ones.
        missing: the others; their summaries can still be shown.
    """

    tools: Mapping[str, Tool]
    missing: tuple[Missing, ...]


class SchemaLoader:
    """Loads definitions from a source: in parallel, with a timeout, cached by fingerprint.

    Thread-safe. A failing or slow source never raises and never takes longer than the timeout:
    definitions that do not arrive are reported as missing.

    Args:
        source: source of the definitions; the catalog itself by default.
        timeout: seconds for all definitions of one load together.
        verify: refuse a definition that differs from the catalog's, because only that one was
            scanned and approved. Set False for catalogs without schemas.
    """

    def __init__(
        self,
        source: SchemaSource | None = None,
        *,
        timeout: float = TIMEOUT,
        verify: bool = True,
    ) -> None:
        self._source = source
        self.timeout = timeout
        self._verify = verify
        self._kept: dict[str, Tool] = {}

    def load(self, tools: Sequence[Tool]) -> Loaded:
        """The definitions of tools. Waits at most the timeout.

        Args:
            tools: tools of the catalog.
        """
        if (source := self._source) is None:
            return Loaded({tool.id: tool for tool in tools}, ())
        known = {tool.id: self._kept.get(tool.fingerprint) for tool in tools}
        futures = {
            tool.id: asyncio.run_coroutine_threadsafe(self._fetch(source, tool), _background())
            for tool in {tool.id: tool for tool in tools}.values()
            if known[tool.id] is None
        }
        wait(futures.values(), self.timeout)
        loaded: dict[str, Tool] = {}
        missing: dict[str, Missing] = {}
        for tool in tools:
            found = known[tool.id] or self._outcome(futures[tool.id])
            if isinstance(found, str):
                missing[tool.id] = Missing(tool.id, found)
            else:
                loaded[tool.id] = found if found.id == tool.id else found.with_id(tool.id)
        return Loaded(loaded, tuple(missing.values()))

    async def aload(self, tools: Sequence[Tool]) -> Loaded:
        """`load` for event loops, in a thread.

        Args:
            tools: tools of the catalog.
        """
        return await asyncio.to_thread(self.load, tools)

    async def _fetch(self, source: SchemaSource, tool: Tool) -> Tool:
        answer = source.fetch(tool)
        found = answer if isinstance(answer, Tool) else await answer
        if not isinstance(found, Tool):
            raise SchemaError(f"the source answered with {type(found).__name__}, not with a Tool")
        if self._verify and found.fingerprint != tool.fingerprint:
            raise SchemaError("the source has another definition than the catalog")
        if len(self._kept) == _KEPT:
            self._kept.clear()
        self._kept[tool.fingerprint] = found
        return found

    def _outcome(self, future: Future[Tool]) -> Tool | str:
        """What has come by now, or why there is nothing; what has not come is given up."""
        if not future.done():
            future.cancel()
            return f"no answer within {self.timeout:g} s"
        if future.cancelled():
            return "the source gave up"
        error = future.exception()
        return future.result() if error is None else _reason(error)


def _reason(error: BaseException) -> str:
    return str(error) if isinstance(error, SchemaError) else f"{type(error).__name__}: {error}"


@cache
def _background() -> asyncio.AbstractEventLoop:
    """The event loop for answers, in a separate thread, so that it blocks no caller's loop."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="shortlist-loader", daemon=True).start()
    return loop


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_background.cache_clear)  # threads do not survive a fork
