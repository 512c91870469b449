"""The tools tax: tokens of all definitions in every turn, and of a selection instead.

A definition is counted as compact JSON of its name, description and input schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..catalog import Tool
from ..models import TokenCounter
from .detail import definition_text

SEARCH_TOOL: Mapping[str, Any] = {
    "name": "search_tools",
    "description": "Find the tools for a task. Say in plain words what has to be done; the answer "
    "holds the definitions of the tools that fit best, ready to be called.",
    "input_schema": {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "The task, in plain words."},
            "k": {"type": "integer", "minimum": 1, "description": "Tools wanted at most."},
        },
        "required": ["query"],
    },
}
"""The search tool that an agent gets instead of the whole catalog."""


@dataclass(frozen=True, slots=True)
class TokenTax:
    """The tokens of a catalog's definitions.

    Args:
        encoding: the vocabulary used for counting.
        k: number of tools in a selection.
        tools: tool id to the tokens of its definition, in the catalog's order.
        servers: server to (tools, tokens); "" for tools without one.
        search_tool: tokens of the definition of the search tool.
    """

    encoding: str
    k: int
    tools: Mapping[str, int]
    servers: Mapping[str, tuple[int, int]]
    search_tool: int

    @property
    def now(self) -> int:
        """Tokens of all definitions, in every turn."""
        return sum(self.tools.values())

    @property
    def mean(self) -> float:
        """Tokens of a definition on average."""
        return self.now / len(self.tools) if self.tools else 0.0

    @property
    def selected(self) -> int:
        """Tokens of the search tool and k definitions of average size."""
        return self.search_tool + round(self.mean * min(self.k, len(self.tools)))

    @property
    def selected_at_most(self) -> int:
        """Tokens of the search tool and the k largest definitions."""
        return self.search_tool + sum(sorted(self.tools.values(), reverse=True)[: self.k])

    def heaviest(self, count: int) -> list[tuple[str, int]]:
        """The largest definitions, largest first."""
        return sorted(self.tools.items(), key=lambda item: (-item[1], item[0]))[:count]

    def saved(self, tokens: float) -> str:
        """The saving of a smaller number of tokens, as text."""
        share = 1 - tokens / self.now if self.now else 0.0
        return f"{share:.1%} less" if share >= 0 else f"{-share:.1%} more"


def token_tax(tools: Iterable[Tool], *, k: int, encoding: str) -> TokenTax:
    """Count the definitions of tools.

    Args:
        tools: the tools of a catalog; ids must differ.
        k: number of tools in a selection.
        encoding: a tiktoken vocabulary.

    Raises:
        ModelError: there is no such vocabulary.
    """
    tool_list = list(tools)
    counter = TokenCounter(encoding)
    counts = counter.count_many(
        [definition_text(tool.name, tool.description, tool.input_schema) for tool in tool_list]
    )
    servers: dict[str, tuple[int, int]] = {}
    for tool, count in zip(tool_list, counts, strict=True):
        number, tokens = servers.get(tool.server or "", (0, 0))
        servers[tool.server or ""] = number + 1, tokens + count
    return TokenTax(
        encoding=encoding,
        k=k,
        tools={tool.id: count for tool, count in zip(tool_list, counts, strict=True)},
        servers=servers,
        search_tool=counter.count(definition_text(**SEARCH_TOOL)),
    )
