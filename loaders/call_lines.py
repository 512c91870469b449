"""One-line call signatures of some tools, within a token budget.

Every line ends with a bracket or a colon and a newline. No token of `cl100k_base` continues across
that, so the tokens of a text are the sum of the tokens of its lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from ..catalog import Tool
from .counting import bundled_counter
from .pool_levels import argument_line, heading_line

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


def lines_of_tools(tools: Iterable[Tool], budget: int) -> Lines:
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
        cost = _line(tool).tokens + _heading(server, count + 1).tokens
        cost -= _heading(server, count).tokens if count else 0
        if spent + cost <= budget:
            spent += cost
            taken.setdefault(server, []).append(tool)
    return _written(taken, spent)


def lines_of_servers(servers: Iterable[Sequence[Tool]], budget: int) -> Lines:
    """Lines for the servers whose tools all fit, first ones first.

    Args:
        servers: the tools of each server, best server first.
        budget: maximum number of tokens.
    """
    taken: dict[str, Sequence[Tool]] = {}
    spent = 0
    for tools in servers:
        server = tools[0].server or ""
        cost = _heading(server, len(tools)).tokens
        for tool in tools:
            cost += _line(tool).tokens
            if spent + cost > budget:
                break
        else:
            spent += cost
            taken[server] = tools
    return _written(taken, spent)


def _written(taken: Mapping[str, Sequence[Tool]], spent: int) -> Lines:
    texts: list[str] = []
    for server in sorted(taken):
        ordered = sorted(taken[server], key=lambda tool: tool.id)
        texts.append(_heading(server, len(ordered)).text)
        texts += (_line(tool).text for tool in ordered)
    ids = frozenset(tool.id for tools in taken.values() for tool in tools)
    return Lines("".join(texts), spent, ids)


@lru_cache(_KEPT)
def _line(tool: Tool) -> _Counted:
    return _counted(argument_line(tool))


@lru_cache(_KEPT)
def _heading(server: str, tools: int) -> _Counted:
    return _counted(heading_line(server, tools))


def _counted(text: str) -> _Counted:
    return _Counted(text, bundled_counter().count(text))
