"""The texts of a tool that the search stages index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from ..text import identifiers_as_words, search_terms
from .tool import Tool

#: Characters of a description that are read; an encoder's window ends long before.
MAX_TEXT_CHARS = 4_000
_CACHED_TOOLS = 16_384


def tool_text(
    name: str, server: str | None, description: str, parameters: Iterable[str] = ()
) -> str:
    """Name, server, description and parameter names as one text; any of them may be empty.

    The bundled encoder was trained on this form. The name comes first because long texts are cut at
    the end.
    """
    title = (
        f"{identifiers_as_words(name)} ({identifiers_as_words(server)})"
        if server
        else identifiers_as_words(name)
    )
    head = ": ".join(part for part in (title, description[:MAX_TEXT_CHARS].strip()) if part)
    names = ", ".join(identifiers_as_words(parameter) for parameter in parameters)
    return " ".join(part for part in (head, f"Parameters: {names}" if names else "") if part)


def embedding_text(tool: Tool) -> str:
    """The text of a tool that encoders and cross-encoders read, see `tool_text`."""
    names = [parameter.name for parameter in tool.parameters]
    return tool_text(tool.name, tool.server, tool.description, names)


def _parameter_names(tool: Tool) -> str:
    return ", ".join(identifiers_as_words(parameter.name) for parameter in tool.parameters)


def _parameters(tool: Tool) -> str:
    return " ".join(
        f"{parameter.name} {parameter.description} {' '.join(parameter.enum)}"
        for parameter in tool.parameters
    )


def _plain(tool: Tool) -> str:
    return f"{tool.name} {tool.description} {_parameter_names(tool)}"


def _everything(tool: Tool) -> str:
    title, server, tags = tool.title or "", tool.server or "", " ".join(tool.tags)
    return f"{tool.name} {title} {tool.description} {_parameters(tool)} {server} {tags}"


#: Fields a lexical index can hold. Besides a tool's own there are `all`, every field as one, whose
#: term statistics are those of whole tools, and `text`, the name, description and parameter names
#: as one, which is what a plain BM25 without field weights is usually given.
LEXICAL_FIELDS: Mapping[str, Callable[[Tool], str]] = {
    "all": _everything,
    "name": lambda tool: tool.name,
    "title": lambda tool: tool.title or "",
    "description": lambda tool: tool.description,
    "parameters": _parameters,
    "server": lambda tool: tool.server or "",
    "tags": lambda tool: " ".join(tool.tags),
    "text": _plain,
}


def lexical_document(tool: Tool, fields: tuple[str, ...]) -> dict[str, str]:
    """The named fields of a tool as raw text, before analysis."""
    return {field: LEXICAL_FIELDS[field](tool) for field in fields}


@lru_cache(_CACHED_TOOLS)
def definition_terms(tool: Tool) -> frozenset[str]:
    """The search terms of a whole definition."""
    return frozenset(search_terms(LEXICAL_FIELDS["all"](tool)))
