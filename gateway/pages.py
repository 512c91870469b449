"""Removes malformed tools from pages of `tools/list`.

The SDK refuses a whole page if one tool on it is malformed. Here only that tool is removed, before
the SDK sees the page, and reported as a problem.
"""

from __future__ import annotations

from typing import Any

import mcp.types as types
from mcp.types.methods import validate_server_result
from pydantic import ValidationError

_METHOD = "tools/list"
#: The protocol version with the strictest rules for tools.
_STRICTEST = "2025-11-25"
#: Most problems that are stored for a connection.
_NAMED = 100


class Pages:
    """Checks the pages of one connection.

    Attributes:
        screened: whether malformed tools are removed. It is set after the SDK refused a page,
            because the check takes as long as reading the page.
        problems: one line for each tool that was left out.
    """

    def __init__(self) -> None:
        self.screened = False
        self.problems: list[str] = []
        self._requested: set[types.RequestId] = set()

    def sent(self, message: types.JSONRPCMessage) -> None:
        """Record a request for a page."""
        if isinstance(message, types.JSONRPCRequest) and message.method == _METHOD:
            self._requested.add(message.id)

    def received(self, message: types.JSONRPCMessage) -> None:
        """Remove malformed tools if the message is a page and `screened` is set."""
        if isinstance(message, types.JSONRPCResponse) and message.id in self._requested:
            self._requested.discard(message.id)
            tools = message.result.get("tools")
            if isinstance(tools, list) and self.screened:
                message.result["tools"] = self.readable(tools)

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
