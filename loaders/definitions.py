"""Which of the tools found get their definition, within a turn's token budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from ..catalog import Tool
from ..catalog.short_definition import without_prose
from .counting import bundled_counter
from .levels import Level, definition_text, describe
from .providers import Provider
from .providers.provider import Function, LoadedFunction
from .summaries import Summaries

_CACHED_DEFINITIONS = 32_768
"""Maximum number of cached definitions: two levels of 4,096 tools in four forms."""


class Definition(NamedTuple):
    """A tool as the model reads it.

    Attributes:
        tool: the tool.
        level: `SIGNATURE` or `FULL`.
        tokens: tokens of the text.
        text: one line, for definitions in messages.
        function: the entry of the provider's list of tools; None for definitions in messages.
    """

    tool: Tool
    level: Level
    tokens: int
    text: str
    function: Function | None

    @property
    def loaded(self) -> LoadedFunction:
        """The tool as the provider takes it into the conversation."""
        assert self.function is not None
        return LoadedFunction(self.tool.server or "", self.function)


@lru_cache(_CACHED_DEFINITIONS)
def define(provider: Provider | None, tool: Tool, level: Level, summary: str) -> Definition:
    """A tool at a level. Cached, so that sessions share token counts.

    Args:
        provider: whose list of tools the definition belongs to; None for a line of text.
        tool: the definition.
        level: `SIGNATURE`, which has the summary as description and no prose in its schema; `FULL`.
        summary: summary of the tool; the full definition has none.
    """
    function = None
    if provider is None:
        text = describe(tool, level, summary)
    else:
        name, is_full = provider.name_of(tool.id), level is Level.FULL
        schema = tool.input_schema if is_full else without_prose(tool.input_schema)
        description = tool.description if is_full else summary
        text = definition_text(name, description, schema)
        function = provider.function(name, description, schema)
    return Definition(tool, level, bundled_counter().count(f"{text}\n"), text, function)


def definition_at(
    provider: Provider | None, tool: Tool, level: Level, summaries: Summaries
) -> Definition:
    """`define`, with the summary that the level needs."""
    return define(provider, tool, level, "" if level is Level.FULL else summaries.of(tool))


def choose_definitions(
    tools: Sequence[Tool], budget: int, definition_of: Callable[[Tool, Level], Definition]
) -> list[Definition]:
    """The definitions that fit: the first tool in full, the others by signature, then in full.

    A tool whose signature does not fit gets none; a tool that fits is never left out for a longer
    form of another one.

    Args:
        tools: best first.
        budget: maximum tokens of all definitions.
        definition_of: makes the definition of a tool at a level.
    """
    chosen: dict[str, Definition] = {}
    room = budget
    for tool in tools:
        full, short = definition_of(tool, Level.FULL), definition_of(tool, Level.SIGNATURE)
        forms = [full, short] if not chosen or full.tokens <= short.tokens else [short]
        for definition in forms:
            if definition.tokens <= room:
                chosen[tool.id] = definition
                room -= definition.tokens
                break
    for tool_id, definition in chosen.items():
        full = definition_of(definition.tool, Level.FULL)
        if definition.level is not Level.FULL and full.tokens - definition.tokens <= room:
            room -= full.tokens - definition.tokens
            chosen[tool_id] = full
    return list(chosen.values())
