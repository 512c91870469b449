"""The working set: lines for servers in use and for tools found, if the pool cannot list all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..catalog import Catalog, Tool
from ..errors import RequestError
from .pool import Lines, Pool, PoolLevel, PoolWriter, lines_of_servers, lines_of_tools
from .summaries import Summaries

_COUNTS = 100
"""Tokens of a pool that only says how many servers and tools there are."""


@dataclass(frozen=True, slots=True)
class WorkingSet:
    """Token budgets of the lines for servers in use and for tools found.

    The defaults were chosen at 10,000 tools, see `docs/tool-attention.md`. A session finds 250
    tools a turn there, slightly more than fit in 3,000 tokens of lines.

    Args:
        tokens: maximum tokens of all lines.
        in_use: maximum tokens of these for servers with a called tool.
        promoted: number of the best tools found in a turn that get their definition. The others get
            a line.

    Raises:
        RequestError: a number is negative, or `in_use` is larger than `tokens`.
    """

    tokens: int = 3_000
    in_use: int = 2_000
    promoted: int = 3

    def __post_init__(self) -> None:
        if not 0 <= self.in_use <= self.tokens or self.promoted < 0:
            raise RequestError(
                "a working set's promoted must not be negative, and its in_use must be from 0 to "
                "its tokens"
            )


class AtHand:
    """The lines of a working set in the prompt of one session.

    Args:
        working: the token budgets; None promotes all tools and writes no lines.

    Attributes:
        in_use: lines of the servers in use, latest called first.
        found: lines of tools found in this turn that are shown nowhere else, best first.
        ranked: ids of all tools found in this turn, best first.
    """

    def __init__(self, working: WorkingSet | None) -> None:
        self._working = working
        self.in_use = Lines()
        self.found = Lines()
        self._servers: dict[str, None] = {}  # the latest called last
        self._kept: set[str] = set()  # promoted in any turn
        self._active: frozenset[str] = frozenset()
        self.ranked: list[str] = []

    def tells(self, pool: Pool | None) -> bool:
        """Whether tools found in a turn get lines, because the pool does not list them."""
        told = pool is None or pool.level is PoolLevel.ARGUMENTS
        return self._working is not None and not told

    @property
    def ids(self) -> frozenset[str]:
        """Ids of the tools that have a line."""
        return self.in_use.ids | self.found.ids

    @property
    def tokens(self) -> int:
        """Tokens of all lines."""
        return self.in_use.tokens + self.found.tokens

    def called(self, tool: Tool) -> None:
        """Mark a tool's server as in use, from the next turn on."""
        if self._working is not None and tool.server is not None:
            self._servers.pop(tool.server, None)
            self._servers[tool.server] = None

    def promoted(
        self, active: Sequence[str], scores: Mapping[str, float]
    ) -> tuple[Sequence[str], Mapping[str, float]]:
        """The ids to promote in this turn, in order, and the scores of those found.

        These are the best tools found, those of earlier turns, and those the model requested. A new
            tool that was not found is one that the model named.

        Args:
            active: ids of all tools to offer, in order.
            scores: id to score, for the tools found in this turn; by default the new ones.
        """
        if self._working is None:
            return active, scores
        fresh = [name for name in active if name not in self._active]
        self._active = frozenset(active)
        self.ranked = sorted(scores, key=scores.__getitem__, reverse=True) or fresh
        best, found = self.ranked[: self._working.promoted], frozenset(self.ranked)
        self._kept.update(best, (name for name in fresh if name not in found))
        kept = [name for name in active if name in self._kept]
        return kept, {name: scores[name] for name in best if name in scores}

    def use(self, pool: Pool | None) -> None:
        """Write the lines of the servers in use that the pool does not show.

        Args:
            pool: pool of the catalog; None if the prompt has the whole catalog.
        """
        if self._working is None or pool is None:
            self.in_use = Lines()
            return
        latest = (
            pool.servers[server]
            for server in reversed(self._servers)
            if pool.levels.get(server, PoolLevel.ARGUMENTS) is not PoolLevel.ARGUMENTS
        )
        self.in_use = lines_of_servers(latest, self._working.in_use)

    def tell(self, tools: Mapping[str, Tool], there: frozenset[str]) -> None:
        """Write the lines of tools found, in the tokens that servers in use leave.

        Args:
            tools: id to tool, for tools that may be shown.
            there: ids of tools that are callable already.
        """
        if self._working is None:
            return
        known = self.in_use.ids | there
        untold = [tools[name] for name in self.ranked if name in tools and name not in known]
        self.found = lines_of_tools(untold, self._working.tokens - self.in_use.tokens)

    def to_dict(self) -> dict[str, Any]:
        """JSON form of the state for the next turn."""
        return {
            "servers": list(self._servers),
            "kept": sorted(self._kept),
            "active": sorted(self._active),
        }

    def resume(self, saved: Mapping[str, Any]) -> None:
        """Continue from a JSON form. An empty one is a new start.

        Raises:
            RequestError: it is nothing of the kind.
        """
        try:
            servers, kept, active = (
                [str(name) for name in saved.get(field, ())]
                for field in ("servers", "kept", "active")
            )
        except (AttributeError, TypeError) as error:
            raise RequestError(f"not a saved prompt: its working set: {error}") from error
        self._servers, self._kept = dict.fromkeys(servers), set(kept)
        self._active = frozenset(active)


class AllOrCount(PoolWriter):
    """Writes the arguments of all tools if they fit, otherwise the number of tools.

    Args:
        budget: maximum tokens of the arguments of all tools.
        summaries: summaries of tools; from their descriptions by default.
    """

    def __init__(self, budget: int, summaries: Summaries | None = None) -> None:
        super().__init__(budget=budget, summaries=summaries, top=PoolLevel.ARGUMENTS)
        self._count = PoolWriter(budget=min(budget, _COUNTS), top=PoolLevel.ARGUMENTS)

    def write(self, catalog: Catalog, *, withheld: frozenset[str] = frozenset()) -> Pool:
        """See `PoolWriter.write`."""
        pool = super().write(catalog, withheld=withheld)
        return pool if pool.level is self.top else self._count.write(catalog, withheld=withheld)


@lru_cache(16)
def pool_beside(working: WorkingSet, summaries: Summaries | None = None) -> PoolWriter:
    """The pool writer for prompts with a working set, shared by the process."""
    return AllOrCount(working.tokens, summaries)
