"""The working set: short lines of the tools that a session is at, where a pool cannot tell all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..catalog import Catalog, Tool
from ..errors import RequestError
from .call_lines import Lines, shared_lines
from .pool import Pool, PoolWriter
from .pool_levels import PoolLevel

_COUNTS = 100
"""Tokens of a pool that says how many servers and tools there are, and little else."""


@dataclass(frozen=True, slots=True)
class WorkingSet:
    """Token budgets of the lines for servers in use and for tools found.

    The defaults are those measured as `working set` in `docs/tool-attention.md`, where a session
    finds 250 tools a turn: as many as 3,000 tokens of lines have room for, and some more.

    Args:
        tokens: of all lines together at most.
        in_use: how many of these may go to the servers of which a tool was called.
        promoted: tools that a turn promotes, the best of those it found; the others get a line.

    Raises:
        RequestError: a negative number, or more for servers in use than for all.
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
    """What of a working set stands in the prompt of one session.

    Args:
        working: its bounds; None promotes all and tells nothing.

    Attributes:
        in_use: the servers in use, all tools of each; the latest called have room before others.
        found: what was found in the present turn and stands nowhere else, the best first served.
        ranked: ids of all that was found in it, best first.
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
        """Whether tools found in a turn get lines: those that the pool does not tell."""
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
        """Put a tool's server in use, from the next turn on."""
        if self._working is not None and tool.server is not None:
            self._servers.pop(tool.server, None)
            self._servers[tool.server] = None

    def promoted(
        self, active: Sequence[str], scores: Mapping[str, float]
    ) -> tuple[Sequence[str], Mapping[str, float]]:
        """The ids to promote this turn, in order, and the scores of those that it found.

        These are the best found, those of earlier turns, and those asked for: a tool that is new
        and was not found is one that the model named.

        Args:
            active: ids of all tools to be offered, in order.
            scores: id to how well it fits, for the tools found this turn; by default the new ones.
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
        """Write the lines of the servers in use, as far as the pool does not tell them.

        Args:
            pool: of the catalog; None where all of it is in the prompt.
        """
        if self._working is None or pool is None:
            self.in_use = Lines()
            return
        latest = (
            pool.servers[server]
            for server in reversed(self._servers)
            if pool.levels.get(server, PoolLevel.ARGUMENTS) is not PoolLevel.ARGUMENTS
        )
        self.in_use = shared_lines().of_servers(latest, self._working.in_use)

    def tell(self, tools: Mapping[str, Tool], there: frozenset[str]) -> None:
        """Write the lines of what was found, in the room that servers in use leave.

        Args:
            tools: id to tool, of those that may be shown.
            there: ids of tools that can be called without.
        """
        if self._working is None:
            return
        known = self.in_use.ids | there
        untold = [tools[name] for name in self.ranked if name in tools and name not in known]
        self.found = shared_lines().of_tools(untold, self._working.tokens - self.in_use.tokens)

    def to_dict(self) -> dict[str, Any]:
        """JSON form of what the next turn depends on."""
        return {
            "servers": list(self._servers),
            "kept": sorted(self._kept),
            "active": sorted(self._active),
        }

    def resume(self, saved: Mapping[str, Any]) -> None:
        """Go on from a JSON form; an empty one is that of a beginning.

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
    """Writes the arguments of all tools where they have room, else how many tools there are.

    Args:
        budget: tokens of the arguments of all.
    """

    def __init__(self, budget: int) -> None:
        super().__init__(budget=budget, top=PoolLevel.ARGUMENTS)
        self._count = PoolWriter(budget=min(budget, _COUNTS), top=PoolLevel.ARGUMENTS)

    def write(self, catalog: Catalog, *, withheld: frozenset[str] = frozenset()) -> Pool:
        """See `PoolWriter.write`."""
        pool = super().write(catalog, withheld=withheld)
        return pool if pool.level is self.top else self._count.write(catalog, withheld=withheld)


@cache
def pool_beside(working: WorkingSet) -> PoolWriter:
    """Writes the pool that stands beside a working set, for all prompts of the process."""
    return AllOrCount(working.tokens)
