"""The text of a tool for peers that are plain BM25 libraries and bring no tool model."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...catalog import Tool

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATOR = re.compile(r"[\W_]+")


def split_words(text: str) -> str:
    """Lower-case text with identifiers (``getUser_by-id``) split into their words."""
    return _SEPARATOR.sub(" ", _HUMP.sub(" ", text)).lower().strip()


def tool_text(tool: Tool) -> str:
    """Id, description and parameter names of a tool as space-separated words."""
    return split_words(" ".join([tool.id, tool.description, *(p.name for p in tool.parameters)]))
