"""The text of one tool in a prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .detail import Detail


class RenderedTool(NamedTuple):
    """How one tool is written.

    Attributes:
        text: the text that is counted; for tools in messages, also the text of the message.
        tool: the provider's object; None for tools that are written as text.
    """

    text: str
    tool: Mapping[str, Any] | None = None


class PoolEntry(NamedTuple):
    """One tool at one level of detail in one format.

    Attributes:
        tool_id: id of the tool.
        detail: level of detail.
        text: the text that is counted, one line.
        tool: the provider's object; None for tools that are written as text.
        tokens: tokens of the text and its newline.
    """

    tool_id: str
    detail: Detail
    text: str
    tool: Mapping[str, Any] | None
    tokens: int
