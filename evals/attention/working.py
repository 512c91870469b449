"""Lines of arguments: as a pool of arguments has them, of some tools only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...catalog import Tool
from ...loaders import Summaries
from ...loaders.ladder import Rung, group
from .transcript import TextTokens


class ArgumentLines:
    """Writes tools as the highest rung of a pool does: a line each, grouped by server.

    Args:
        count: counts tokens.
        summaries: of a pool; its lines of arguments say none.
    """

    def __init__(self, count: TextTokens, summaries: Summaries) -> None:
        self._count = count
        self._summaries = summaries
        self._costs: dict[str, tuple[str, int, int]] = {}

    def text(self, tools: Iterable[Tool]) -> str:
        """The lines, in the order of servers and ids."""
        return "".join(block.text(Rung.ARGUMENTS) for block in group(tools, self._summaries))

    def fitting(self, tools: Iterable[Tool], budget: int) -> list[Tool]:
        """The tools whose lines fit, those that come first before the others.

        Args:
            tools: best first.
            budget: tokens.
        """
        taken: list[Tool] = []
        headed: set[str | None] = set()
        for tool in tools:
            head, line = self._cost(tool)
            cost = line if tool.server in headed else head + line
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

    def _cost(self, tool: Tool) -> tuple[int, int]:
        """Tokens of the line that heads a server, and of a tool's own."""
        fingerprint, head, line = self._costs.get(tool.id, ("", 0, 0))
        if fingerprint != tool.fingerprint:
            heading, _, rest = self.text([tool]).partition("\n")
            head, line = self._count(f"{heading}\n"), self._count(rest)
            self._costs[tool.id] = tool.fingerprint, head, line
        return head, line
