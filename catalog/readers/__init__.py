"""The formats tools can be read from, one file each."""

from __future__ import annotations

from .anthropic import AnthropicReader
from .jsonl import RowReader
from .mcp import McpReader
from .openai import OpenAiReader
from .openapi import OpenApiReader
from .reader import Document, Entry, Reader
from .skill_folder import SkillReader

READERS: tuple[Reader, ...] = (
    OpenApiReader(),
    SkillReader(),
    RowReader(),
    OpenAiReader(),
    AnthropicReader(),
    McpReader(),
)
"""All formats, specific ones first. The first that recognises a document reads it."""

__all__ = ["READERS", "Document", "Entry", "Reader"]
