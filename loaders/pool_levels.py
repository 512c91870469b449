"""The levels of a pool: how much detail of each server fits in a token budget."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from functools import cache

from ..catalog import Tool
from .counting import bundled_counter
from .digest import topics
from .signature import call_form
from .summaries import Summaries, adds_nothing

_FRAME = 40
"""Tokens reserved for the first and last line of a pool. With six-digit counts they take 29."""


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


class ServerBlock:
    """The tools of one server, as a pool shows them.

    A server's line starts at the margin, a tool's line is indented. Text of a tool has no newlines,
        so it cannot imitate this. If ids are `server/name`, as by default, only the name is
        written.

    Args:
        server: name of the server; "" for tools without one.
        tools: its tools, ordered by id.
        summaries: summaries of the tools.
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
        head = _head(self.server, len(self.tools))
        names = f"{head}: {', '.join(map(_label, self.tools))}\n"
        if level is PoolLevel.NAMES:
            return names
        about = ", ".join(topics(self.tools))
        return min(names, f"{head}: about {about}\n" if about else f"{head}\n", key=len)

    def _summary_line(self, tool: Tool) -> str:
        summary = self._summaries.of(tool)
        told = "" if adds_nothing(summary, tool.name) else f": {summary}"
        return f" {_label(tool)}{told}\n"


def heading_line(server: str, tools: int) -> str:
    """The heading above the lines of a server's tools; "" for tools without a server."""
    return f"{_head(server, tools)}:\n"


def argument_line(tool: Tool) -> str:
    """The line of a tool at the level of arguments."""
    return f" {_label(tool)}{call_form(tool)}\n"


def group(tools: Iterable[Tool], summaries: Summaries) -> list[ServerBlock]:
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
    shown = dict.fromkeys(blocks, PoolLevel.SEARCH)
    costs = dict.fromkeys(blocks, 0)
    room = budget - _FRAME
    for level in (PoolLevel.DIGEST, PoolLevel.NAMES, top):
        raised = {block: bundled_counter().count(block.text(level)) for block in blocks}
        added = {block: raised[block] - costs[block] for block in blocks}
        order = sorted(blocks, key=lambda b: (added[b] / len(b.tools), b.server))
        complete = True
        for block in order:
            if added[block] <= room:
                room -= added[block]
                costs[block], shown[block] = raised[block], level
            else:
                complete = False
        if not complete:
            break
    return shown


def _head(server: str, tools: int) -> str:
    return f"{server}/ ({tools})" if server else f"({tools})"


def _label(tool: Tool) -> str:
    """The name if the id is `server/name`, otherwise the id."""
    prefix = f"{tool.server}/" if tool.server else ""
    return tool.id.removeprefix(prefix) if tool.id.startswith(prefix) else f"id {tool.id}"
