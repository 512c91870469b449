"""Removes malformed tools from pages of `tools/list`.

The SDK refuses a whole page if one tool on it is malformed. Here only that tool is removed, before
the SDK sees the page, and reported as a problem.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Self

import anyio
import mcp.types as types
from mcp.shared.message import SessionMessage
from mcp.types.methods import validate_server_result
from pydantic import ValidationError

_METHOD = "tools/list"
#: The protocol version with the strictest rules for tools.
_STRICTEST = "2025-11-25"
#: Most problems that are stored for a connection.
_NAMED = 100


class Pages:
    """Checks the pages of one connection.

    Args:
        ended: called when the connection has ended.

    Attributes:
        screened: whether malformed tools are removed. It is set after the SDK refused a page,
            because the check takes as long as reading the page.
        problems: one line for each tool that was left out.
    """

    def __init__(self, ended: Callable[[], None]) -> None:
        self.ended = ended
        self.screened = False
        self.problems: list[str] = []

    @asynccontextmanager
    async def over(self, transport: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
        """A transport that removes malformed tools if `screened` is set."""
        async with transport as (read, write):
            asked: set[Any] = set()
            yield _Reader(read, asked, self), _Writer(write, asked)

    def readable(self, tools: list[Any]) -> list[Any]:
        """The valid tools of a page. The others become problems."""
        return [tool for tool in tools if self._reads(tool)]

    def _reads(self, tool: Any) -> bool:
        if isinstance(tool, dict):
            for field in ("inputSchema", "outputSchema"):
                if isinstance(schema := tool.get(field), dict):
                    schema.setdefault("type", "object")
        try:
            validate_server_result(_METHOD, _STRICTEST, {"tools": [tool]})
        except ValidationError as error:
            if len(self.problems) < _NAMED:
                first = error.errors(include_url=False, include_input=False)[0]
                name = tool.get("name") if isinstance(tool, dict) else None
                place = ".".join(map(str, first["loc"][2:])) or "the tool"
                self.problems.append(f"tool {name!r:.80} is left out: {place}: {first['msg']}")
            return False
        return True


class _Wrapped:
    """A stream around another one. Both close together."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stream.__aexit__(kind, error, traceback)


class _Writer(_Wrapped):
    """Remembers the ids of the requests for pages."""

    def __init__(self, stream: Any, asked: set[Any]) -> None:
        super().__init__(stream)
        self._asked = asked

    async def send(self, item: SessionMessage) -> None:
        message = item.message
        if isinstance(message, types.JSONRPCRequest) and message.method == _METHOD:
            self._asked.add(message.id)
        await self._stream.send(item)


class _Reader(_Wrapped):
    """Removes malformed tools from the answers to those requests, if `screened` is set."""

    def __init__(self, stream: Any, asked: set[Any], pages: Pages) -> None:
        super().__init__(stream)
        self._asked = asked
        self._pages = pages

    @property
    def last_context(self) -> Any:
        """The context of the sender, which the SDK's HTTP transports set."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        try:
            return self._readable(await self._stream.receive())
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._pages.ended()
            raise

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return self._readable(await self._stream.__anext__())
        except (StopAsyncIteration, anyio.ClosedResourceError):
            self._pages.ended()
            raise

    def _readable(self, item: Any) -> Any:
        message = getattr(item, "message", None)
        if isinstance(message, types.JSONRPCResponse) and message.id in self._asked:
            self._asked.discard(message.id)
            tools = message.result.get("tools")
            if isinstance(tools, list) and self._pages.screened:
                message.result["tools"] = self._pages.readable(tools)
        return item
