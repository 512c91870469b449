"""Phase 2: the full definitions of the chosen, in time or not at all."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from ..catalog import Tool
from ..errors import SchemaError
from .lru_cache import LruCache
from .sources import MemorySource, SchemaSource

TIMEOUT = 2.0
"""Seconds all definitions of a turn may take together, by default."""
_KEPT = 4_096
"""Definitions kept; some 10 MB of typical ones."""


class Missing(NamedTuple):
    """A definition that could not be loaded, with the reason.

    Attributes:
        tool_id: of the tool.
        reason: in words, for people.
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
        self._source = source or MemorySource()
        self.timeout = timeout
        self._verify = verify
        self._kept: LruCache[str, Tool] = LruCache(_KEPT)

    def load(self, tools: Sequence[Tool]) -> Loaded:
        """The definitions of tools. Waits at most the timeout.

        Args:
            tools: as the catalog has them.
        """
        answers, waited = self._ask(tools)
        loop = _background()
        futures = {
            tool_id: asyncio.run_coroutine_threadsafe(_answer(awaitable), loop)
            for tool_id, awaitable in waited.items()
        }
        wait(futures.values(), self.timeout)
        answers |= {tool_id: self._outcome(future) for tool_id, future in futures.items()}
        return self._loaded(tools, answers)

    async def aload(self, tools: Sequence[Tool]) -> Loaded:
        """`load` for event loops, in a thread.

        Args:
            tools: as the catalog has them.
        """
        return await asyncio.to_thread(self.load, tools)

    def _ask(
        self, tools: Sequence[Tool]
    ) -> tuple[dict[str, Tool | str], dict[str, Awaitable[Tool]]]:
        """Definitions that are available at once, and those to wait for, by id."""
        answers: dict[str, Tool | str] = {}
        waited: dict[str, Awaitable[Tool]] = {}
        for tool in tools:
            if tool.id in answers or tool.id in waited:
                continue
            if known := self._kept.get(tool.fingerprint):
                answers[tool.id] = known
                continue
            try:
                answer = self._source.fetch(tool)
            except Exception as error:  # noqa: BLE001 - foreign code; told as missing
                answers[tool.id] = _reason(error)
                continue
            if isinstance(answer, Tool):
                answers[tool.id] = answer
            else:
                waited[tool.id] = answer
        return answers, waited

    def _outcome(self, future: Future[Tool]) -> Tool | str:
        """What has come by now, or why there is nothing; what has not come is given up."""
        if not future.done():
            future.cancel()
            return f"no answer within {self.timeout:g} s"
        if future.cancelled():
            return "the source gave up"
        error = future.exception()
        return future.result() if error is None else _reason(error)

    def _loaded(self, tools: Sequence[Tool], answers: Mapping[str, Tool | str]) -> Loaded:
        loaded: dict[str, Tool] = {}
        missing: dict[str, Missing] = {}
        for tool in tools:
            answer = answers[tool.id]
            if isinstance(answer, Tool):
                answer = self._checked(tool, answer)
            if isinstance(answer, str):
                missing[tool.id] = Missing(tool.id, answer)
            else:
                loaded[tool.id] = answer
        return Loaded(loaded, tuple(missing.values()))

    def _checked(self, tool: Tool, found: Tool) -> Tool | str:
        """The definition, cached for the next turn, or why it is not shown."""
        if self._verify and found.fingerprint != tool.fingerprint:
            return "the source has another definition than the catalog"
        if found.id != tool.id:
            found = found.with_id(tool.id)
        return self._kept.put(tool.fingerprint, found)


async def _answer(awaitable: Awaitable[Tool]) -> Tool:
    answer = await awaitable
    if not isinstance(answer, Tool):
        raise SchemaError(f"the source answered with {type(answer).__name__}, not with a Tool")
    return answer


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
