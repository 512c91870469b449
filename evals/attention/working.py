"""Lines of arguments: as a pool of arguments has them, of some tools only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...catalog import Tool
from ...loaders import Summaries
from ...loaders.ladder import Rung, ServerBlock
from .transcript import TextTokens

_ALONE = "(1):\n"
"""How the heading of a server ends that has one tool."""


class Line(NamedTuple):
    """A tool's line.

    Attributes:
        text: of the line.
        tokens: of the text.
        heading: of a server that has this tool alone.
        heading_tokens: of the heading.
    """

    text: str
    tokens: int
    heading: str
    heading_tokens: int


class ArgumentLines:
    """Writes tools as the highest rung of a pool does: a line each, grouped by server.

    Args:
        count: counts tokens.
        summaries: of a pool; its lines of arguments say none.
    """

    def __init__(self, count: TextTokens, summaries: Summaries) -> None:
        self._count = count
        self._summaries = summaries
        self._lines: dict[tuple[str, str], Line] = {}

    def text(self, tools: Iterable[Tool]) -> str:
        """The lines, in the order of servers and ids."""
        servers: dict[str, list[Tool]] = {}
        for tool in tools:
            servers.setdefault(tool.server or "", []).append(tool)
        return "".join(self._of_server(servers[server]) for server in sorted(servers))

    def fitting(self, tools: Iterable[Tool], budget: int) -> list[Tool]:
        """The tools whose lines fit, those that come first before the others.

        Args:
            tools: best first.
            budget: tokens.
        """
        taken: list[Tool] = []
        headed: set[str | None] = set()
        for tool in tools:
            line = self._line(tool)
            cost = line.tokens + (0 if tool.server in headed else line.heading_tokens)
            if cost <= budget:
                budget -= cost
                headed.add(tool.server)
                taken.append(tool)
        return taken

    def fitting_servers(self, servers: Iterable[Sequence[Tool]], budget: int) -> list[Tool]:
        """The tools of the servers all of whose lines fit, those that come first before the others.

        Args:
            servers: the tools of each, best first.
            budget: tokens.
        """
        taken: list[Tool] = []
        for tools in servers:
            cost = self._count(self.text(tools))
            if cost <= budget:
                budget -= cost
                taken += tools
        return taken

    def _of_server(self, tools: list[Tool]) -> str:
        lines = [self._line(tool) for tool in sorted(tools, key=lambda tool: tool.id)]
        heading = lines[0].heading.removesuffix(_ALONE)
        return f"{heading}({len(lines)}):\n{''.join(line.text for line in lines)}"

    def _line(self, tool: Tool) -> Line:
        key = tool.id, tool.fingerprint
        if key not in self._lines:
            block = ServerBlock(tool.server or "", (tool,), self._summaries)
            heading, end, text = block.text(Rung.ARGUMENTS).partition("\n")
            heading += end
            self._lines[key] = Line(text, self._count(text), heading, self._count(heading))
        return self._lines[key]
