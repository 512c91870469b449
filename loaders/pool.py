"""The pool: lines that list the available tools within a token budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, lru_cache
from typing import NamedTuple

from ..catalog import Catalog, Tool
from ..errors import RequestError
from .counting import bundled_counter
from .detail import compact_signature
from .summaries import Summaries, repeats_name
from .topics import topics

POOL_BUDGET = 2_000
"""Default maximum of tokens of a pool: 1 % of a context of 200,000."""
_CACHED_VERSIONS = 8
"""Maximum number of cached pools, one for each catalog version and set of withheld ids in use."""
_FRAME_TOKENS = 40
"""Tokens reserved for the first and last line of a pool. With six-digit counts they take 29."""
_CACHED_LINES = 16_384
"""Maximum number of cached lines; about 2 MB."""


class PoolLevel(IntEnum):
    """How the tools of a server are shown, from least to most."""

    SEARCH = 0
    """Only counted."""
    DIGEST = 1
    """One line with their number and topics."""
    NAMES = 2
    """One line with the names."""
    SUMMARIES = 3
    """A line per tool: its name and its summary."""
    ARGUMENTS = 4
    """A line per tool: its name and its arguments, in place of its summary."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The text of a pool, and the level of each server.

    The same catalog, budget and summaries give the same bytes, in whatever order the tools are.

    Args:
        text: the text, with a newline at the end; "" if there is nothing to show or no line fits.
        tokens: tokens of the text.
        tool_count: number of tools that it covers.
        levels: server to the level of its tools; "" for tools without a server.
        callable_ids: ids of the tools whose arguments are shown, so that they can be called.
        tools_by_server: server to its tools, ordered by id; "" for tools without a server.
    """

    text: str
    tokens: int
    tool_count: int
    levels: Mapping[str, PoolLevel]
    callable_ids: frozenset[str]
    tools_by_server: Mapping[str, tuple[Tool, ...]]

    @property
    def level(self) -> PoolLevel:
        """The lowest level of any server."""
        return min(self.levels.values(), default=PoolLevel.SEARCH)


class PoolWriter:
    """Writes one line per tool, or less, for a whole catalog within a token budget.

    Args:
        budget: maximum tokens of the text.
        summaries: summaries of tools; from their descriptions by default.
        top: the highest level: a summary for each tool, or its arguments. With arguments, the model
            can call every tool of the pool without a search.

    Raises:
        RequestError: the budget is negative, or `top` is another level.
    """

    def __init__(
        self,
        *,
        budget: int = POOL_BUDGET,
        summaries: Summaries | None = None,
        top: PoolLevel = PoolLevel.SUMMARIES,
    ) -> None:
        if top not in (PoolLevel.SUMMARIES, PoolLevel.ARGUMENTS):
            raise RequestError(f"top: summaries or arguments, not {top!r}")
        if budget < 0:
            raise RequestError(f"a pool's budget is in tokens and not negative, got {budget}")
        self.budget = budget
        self.top = top
        self.summaries = summaries or Summaries()
        self._cached_write = lru_cache(_CACHED_VERSIONS)(self._write)

    def write(self, catalog: Catalog, *, withheld: frozenset[str] = frozenset()) -> Pool:
        """The pool of a catalog, at the highest levels that fit in the budget.

        See `choose_levels`.

        Args:
            catalog: the catalog version.
            withheld: ids that are left out completely, such as quarantined ones.
        """
        return self._cached_write(catalog, withheld)

    def _write(self, catalog: Catalog, withheld: frozenset[str]) -> Pool:
        blocks = blocks_by_server(
            (tool for tool in catalog if tool.id not in withheld), self.summaries
        )
        block_levels = choose_levels(blocks, self.budget, self.top)
        text = pool_text(block_levels)
        tokens = bundled_counter().count(text)
        if tokens > self.budget:  # even the number of tools does not fit
            text, tokens = "", 0
        levels = {block.server: level for block, level in block_levels.items()}
        callable_ids = frozenset(
            tool.id
            for block, level in block_levels.items()
            if level is PoolLevel.ARGUMENTS
            for tool in block.tools
        )
        servers = {block.server: block.tools for block in blocks}
        return Pool(text, tokens, sum(map(len, servers.values())), levels, callable_ids, servers)


def pool_text(levels: Mapping[ServerBlock, PoolLevel]) -> str:
    """The text of a pool: heading, one block per server, and the number of tools not listed."""
    if not levels:
        return ""
    total = sum(len(block.tools) for block in levels)
    texts = [block.text(level) for block, level in levels.items() if level > PoolLevel.SEARCH]
    hidden = [block for block, level in levels.items() if level is PoolLevel.SEARCH]
    return "".join((first_line(total, len(levels)), *texts, last_line(hidden, len(levels))))


def first_line(tools: int, servers: int) -> str:
    """The first line of a pool."""
    return f"{_number(tools, 'tool')} on {_number(servers, 'server')}.\n"


def last_line(hidden: list[ServerBlock], servers: int) -> str:
    """The last line of a pool: how many servers and tools it does not name; "" if it names all."""
    if not hidden:
        return ""
    if len(hidden) == servers:
        return "None is listed here; those that a request needs are added.\n"
    tools = sum(len(block.tools) for block in hidden)
    counts = f"{_number(tools, 'tool')} on {_number(len(hidden), 'server')}"
    return f"Not listed: {counts}. Those that a request needs are added.\n"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class ServerBlock:
    """The tools of one server, as a pool shows them.

    A server's line starts at the margin, a tool's line is indented. Text of a tool has no newlines,
    so it cannot imitate this. If ids are `server/name`, as by default, only the name is written.

    Args:
        server: name of the server; "" for tools without one.
        tools: its tools, ordered by id.
        summaries: summaries of the tools.

    Attributes:
        text: function of a `PoolLevel` above search; returns the lines of that level. Cached.
    """

    def __init__(self, server: str, tools: tuple[Tool, ...], summaries: Summaries) -> None:
        self.server = server
        self.tools = tools
        self._summaries = summaries
        self.text = cache(self._text)

    def _text(self, level: PoolLevel) -> str:
        """The lines of a level above search.

        If the names are not longer than the digest, they are used instead.
        """
        heading = heading_line(self.server, len(self.tools))
        if level is PoolLevel.SUMMARIES:
            return "".join((heading, *map(self._summary_line, self.tools)))
        if level is PoolLevel.ARGUMENTS:
            return "".join((heading, *map(argument_line, self.tools)))
        server_and_count = _server_and_count(self.server, len(self.tools))
        names = f"{server_and_count}: {', '.join(map(_label, self.tools))}\n"
        if level is PoolLevel.NAMES:
            return names
        about = ", ".join(topics(self.tools))
        return min(
            names,
            f"{server_and_count}: about {about}\n" if about else f"{server_and_count}\n",
            key=len,
        )

    def _summary_line(self, tool: Tool) -> str:
        summary = self._summaries.of(tool)
        suffix = "" if repeats_name(summary, tool.name) else f": {summary}"
        return f" {_label(tool)}{suffix}\n"


def heading_line(server: str, tools: int) -> str:
    """The heading above the lines of a server's tools; "" for tools without a server."""
    return f"{_server_and_count(server, tools)}:\n"


def argument_line(tool: Tool) -> str:
    """The line of a tool at the level of arguments."""
    return f" {_label(tool)}{compact_signature(tool)}\n"


def blocks_by_server(tools: Iterable[Tool], summaries: Summaries) -> list[ServerBlock]:
    """The tools by server, servers and tools in order of their names and ids."""
    servers: dict[str, list[Tool]] = {}
    for tool in tools:
        servers.setdefault(tool.server or "", []).append(tool)
    return [
        ServerBlock(server, tuple(sorted(servers[server], key=lambda tool: tool.id)), summaries)
        for server in sorted(servers)
    ]


def choose_levels(
    blocks: list[ServerBlock],
    budget: int,
    top: PoolLevel = PoolLevel.SUMMARIES,
) -> dict[ServerBlock, PoolLevel]:
    """The level of each server, in the order of `blocks`.

    Level by level, servers get more detail until the token budget is used. Servers with the most
    tools per token come first, ties by name. A level starts only when every server has reached the
    level below.

    Args:
        blocks: one block per server.
        budget: maximum tokens of the whole text.
        top: the highest level, summaries or arguments.
    """
    levels = dict.fromkeys(blocks, PoolLevel.SEARCH)
    costs = dict.fromkeys(blocks, 0)
    room = budget - _FRAME_TOKENS
    for level in (PoolLevel.DIGEST, PoolLevel.NAMES, top):
        tokens = {block: bundled_counter().count(block.text(level)) for block in blocks}
        added_tokens = {block: tokens[block] - costs[block] for block in blocks}
        order = sorted(blocks, key=lambda b: (added_tokens[b] / len(b.tools), b.server))
        complete = True
        for block in order:
            if added_tokens[block] <= room:
                room -= added_tokens[block]
                costs[block], levels[block] = tokens[block], level
            else:
                complete = False
        if not complete:
            break
    return levels


def _server_and_count(server: str, tools: int) -> str:
    return f"{server}/ ({tools})" if server else f"({tools})"


def _label(tool: Tool) -> str:
    """The name if the id is `server/name`, otherwise the id."""
    prefix = f"{tool.server}/" if tool.server else ""
    return tool.id.removeprefix(prefix) if tool.id.startswith(prefix) else f"id {tool.id}"


class Lines(NamedTuple):
    """Lines with the arguments of some tools, grouped by server.

    Every line ends with a bracket or a colon and a newline. No token of `cl100k_base` continues
    across that, so the tokens of the text are the sum of the tokens of its lines.

    Attributes:
        text: the lines, ordered by server and id; "" for no tools.
        tokens: tokens of the text.
        ids: ids of the tools.
    """

    text: str = ""
    tokens: int = 0
    ids: frozenset[str] = frozenset()


class _CountedText(NamedTuple):
    """A text with the number of its tokens."""

    text: str
    tokens: int


def lines_of_tools(tools: Iterable[Tool], budget: int) -> Lines:
    """Lines for as many tools as fit, first ones first.

    Args:
        tools: best first; ids must differ.
        budget: maximum number of tokens.
    """
    tools_by_server: dict[str, list[Tool]] = {}
    used_tokens = 0
    for tool in tools:
        server = tool.server or ""
        count = len(tools_by_server.get(server, ()))
        cost = _count_line(tool).tokens + _count_heading(server, count + 1).tokens
        cost -= _count_heading(server, count).tokens if count else 0
        if used_tokens + cost <= budget:
            used_tokens += cost
            tools_by_server.setdefault(server, []).append(tool)
    return _join_lines(tools_by_server, used_tokens)


def lines_of_servers(servers: Iterable[Sequence[Tool]], budget: int) -> Lines:
    """Lines for the servers whose tools all fit, first ones first.

    Args:
        servers: the tools of each server, best server first.
        budget: maximum number of tokens.
    """
    tools_by_server: dict[str, Sequence[Tool]] = {}
    used_tokens = 0
    for tools in servers:
        server = tools[0].server or ""
        cost = _count_heading(server, len(tools)).tokens
        for tool in tools:
            cost += _count_line(tool).tokens
            if used_tokens + cost > budget:
                break
        else:
            used_tokens += cost
            tools_by_server[server] = tools
    return _join_lines(tools_by_server, used_tokens)


def _join_lines(tools_by_server: Mapping[str, Sequence[Tool]], used_tokens: int) -> Lines:
    texts: list[str] = []
    for server in sorted(tools_by_server):
        ordered = sorted(tools_by_server[server], key=lambda tool: tool.id)
        texts.append(_count_heading(server, len(ordered)).text)
        texts += (_count_line(tool).text for tool in ordered)
    ids = frozenset(tool.id for tools in tools_by_server.values() for tool in tools)
    return Lines("".join(texts), used_tokens, ids)


@lru_cache(_CACHED_LINES)
def _count_line(tool: Tool) -> _CountedText:
    return _count_text(argument_line(tool))


@lru_cache(_CACHED_LINES)
def _count_heading(server: str, tools: int) -> _CountedText:
    return _count_text(heading_line(server, tools))


def _count_text(text: str) -> _CountedText:
    return _CountedText(text, bundled_counter().count(text))
