"""Renderers: write a layout in the format of a provider's API, one file per format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from ...errors import RequestError
from .anthropic_tools import AnthropicTools
from .call_tool import CALL_TOOL, MessageRenderer
from .deferred_tools import SEARCH_TOOL, AnthropicToolSearch, OpenAIToolSearch
from .openai_tools import OpenAIResponsesTools, OpenAITools
from .renderer import RenderedPrompt, Renderer

__all__ = ["FORMATS", "SEARCH_TOOL", "RenderedPrompt", "Renderer", "renderer_for"]

_OWN_TOOLS = (CALL_TOOL, SEARCH_TOOL)

FORMATS: Mapping[str, Callable[[], Renderer]] = {
    "text": lambda: MessageRenderer(OpenAITools()),
    "openai": OpenAITools,
    "openai_responses": OpenAIResponsesTools,
    "anthropic": AnthropicTools,
    "openai_responses_search": OpenAIToolSearch,
    "anthropic_search": AnthropicToolSearch,
    "openai_call_tool": lambda: MessageRenderer(OpenAITools(), *_OWN_TOOLS),
    "openai_responses_call_tool": lambda: MessageRenderer(OpenAIResponsesTools(), *_OWN_TOOLS),
    "anthropic_call_tool": lambda: MessageRenderer(AnthropicTools(), *_OWN_TOOLS),
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
