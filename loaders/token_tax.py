"""The tools tax: tokens of all definitions in every turn, and of a selection instead.

A definition is counted as compact JSON of its name, description and input schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..catalog import Tool
from ..models import TokenCounter
from .levels import definition_text

COUNTED_SEARCH_TOOL: Mapping[str, Any] = {
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
        tool_tokens: tool id to the tokens of its definition, in the catalog's order.
        server_tokens: server to (tools, tokens); "" for tools without one.
        search_tool: tokens of the definition of the search tool.
    """

    encoding: str
    k: int
    tool_tokens: Mapping[str, int]
    server_tokens: Mapping[str, tuple[int, int]]
    search_tool: int

    @property
    def total_tokens(self) -> int:
        """Tokens of all definitions, in every turn."""
        return sum(self.tool_tokens.values())

    @property
    def mean_tokens(self) -> float:
        """Tokens of a definition on average."""
        return self.total_tokens / len(self.tool_tokens) if self.tool_tokens else 0.0

    @property
    def selection_tokens(self) -> int:
        """Tokens of the search tool and k definitions of average size."""
        return self.search_tool + round(self.mean_tokens * min(self.k, len(self.tool_tokens)))

    @property
    def max_selection_tokens(self) -> int:
        """Tokens of the search tool and the k largest definitions."""
        return self.search_tool + sum(sorted(self.tool_tokens.values(), reverse=True)[: self.k])

    def heaviest(self, count: int) -> list[tuple[str, int]]:
        """The largest definitions, largest first."""
        return sorted(self.tool_tokens.items(), key=lambda item: (-item[1], item[0]))[:count]

    def saving_text(self, tokens: float) -> str:
        """The saving of a smaller number of tokens, as text."""
        share = 1 - tokens / self.total_tokens if self.total_tokens else 0.0
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
        tool_tokens={tool.id: count for tool, count in zip(tool_list, counts, strict=True)},
        server_tokens=servers,
        search_tool=counter.count(definition_text(**COUNTED_SEARCH_TOOL)),
    )
