"""Renderers: write a layout in the format of a provider's API, one file per format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from ...errors import RequestError
from .anthropic import AnthropicTools
from .anthropic_search import AnthropicToolSearch
from .call_tool import CallTool
from .openai import OpenAITools
from .renderer import Rendered, Renderer
from .text import PlainText

__all__ = [
    "FORMATS",
    "AnthropicToolSearch",
    "AnthropicTools",
    "CallTool",
    "OpenAITools",
    "PlainText",
    "Rendered",
    "Renderer",
    "renderer_for",
]

FORMATS: Mapping[str, Callable[[], Renderer]] = {
    "text": PlainText,
    "openai": OpenAITools,
    "anthropic": AnthropicTools,
    "anthropic_search": AnthropicToolSearch,
    "openai_call_tool": lambda: CallTool(OpenAITools()),
    "anthropic_call_tool": lambda: CallTool(AnthropicTools()),
}
"""Name to renderer."""


@cache
def renderer_for(name: str) -> Renderer:
    """The renderer of a format.

    Raises:
        RequestError: there is no such format; lists the formats.
    """
    if name not in FORMATS:
        raise RequestError(f"no format {name!r:.100}; use one of: {', '.join(FORMATS)}")
    return FORMATS[name]()
