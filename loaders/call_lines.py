"""One-line call signatures of some tools, within a token budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from ..catalog import Tool
from .counting import bundled_counter
from .lru_cache import LruCache
from .pool_levels import argument_line, heading_line

if TYPE_CHECKING:
    from ..models import TokenCounter

_KEPT = 16_384
"""Maximum number of cached lines; about 2 MB."""


class Lines(NamedTuple):
    """Lines of tools, grouped by server.

    Attributes:
        text: the lines, ordered by server and id; "" for no tools.
        tokens: tokens of the text.
        ids: ids of the tools.
    """

    text: str = ""
    tokens: int = 0
    ids: frozenset[str] = frozenset()


class _Counted(NamedTuple):
    text: str
    tokens: int


class CallLines:
    """Writes one-line call signatures of tools within a token budget.

    Every line ends with a bracket or a colon and a newline. No token of a GPT vocabulary continues
    across that, so the tokens of a text are the sum of the tokens of its lines.

    Args:
        counter: counts tokens.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._lines: LruCache[tuple[str | None, str, str], _Counted] = LruCache(_KEPT)
        self._headings: LruCache[tuple[str, int], _Counted] = LruCache(_KEPT)

    def of_tools(self, tools: Iterable[Tool], budget: int) -> Lines:
        """Lines for as many tools as fit, first ones first.

        Args:
            tools: best first; ids must differ.
            budget: maximum number of tokens.
        """
        taken: dict[str, list[Tool]] = {}
        spent = 0
        for tool in tools:
            server = tool.server or ""
            count = len(taken.get(server, ()))
            cost = self._line(tool).tokens + self._heading(server, count + 1).tokens
            cost -= self._heading(server, count).tokens if count else 0
            if spent + cost <= budget:
                spent += cost
                taken.setdefault(server, []).append(tool)
        return self._written(taken, spent)

    def of_servers(self, servers: Iterable[Sequence[Tool]], budget: int) -> Lines:
        """Lines for the servers whose tools all fit, first ones first.

        Args:
            servers: the tools of each server, best server first.
            budget: maximum number of tokens.
        """
        taken: dict[str, Sequence[Tool]] = {}
        spent = 0
        for tools in servers:
            server = tools[0].server or ""
            cost = self._heading(server, len(tools)).tokens
            for tool in tools:
                cost += self._line(tool).tokens
                if spent + cost > budget:
                    break
            else:
                spent += cost
                taken[server] = tools
        return self._written(taken, spent)

    def _written(self, taken: Mapping[str, Sequence[Tool]], spent: int) -> Lines:
        texts: list[str] = []
        for server in sorted(taken):
            ordered = sorted(taken[server], key=lambda tool: tool.id)
            texts.append(self._heading(server, len(ordered)).text)
            texts += (self._line(tool).text for tool in ordered)
        ids = frozenset(tool.id for tools in taken.values() for tool in tools)
        return Lines("".join(texts), spent, ids)

    def _line(self, tool: Tool) -> _Counted:
        key = tool.server, tool.id, tool.fingerprint
        return self._lines.get(key) or self._lines.put(key, self._count(argument_line(tool)))

    def _heading(self, server: str, tools: int) -> _Counted:
        key = server, tools
        known = self._headings.get(key)
        return known or self._headings.put(key, self._count(heading_line(server, tools)))

    def _count(self, text: str) -> _Counted:
        return _Counted(text, self._counter.count(text))


@cache
def shared_lines() -> CallLines:
    """One writer for the process, so that sessions share their token counts."""
    return CallLines(bundled_counter())
