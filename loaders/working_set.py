"""The working set: lines for servers in use and for tools found, if the pool cannot list all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from ..catalog import Catalog, Tool
from ..errors import RequestError
from .history import ToolHistory
from .pool import Lines, Pool, PoolLevel, PoolWriter, lines_of_servers, lines_of_tools
from .summaries import Summaries

_COUNT_TOKENS = 100
"""Tokens of a pool that only says how many servers and tools there are."""


@dataclass(frozen=True, slots=True)
class WorkingSet:
    """Token budgets of the lines for servers in use and for tools found.

    The defaults were chosen at 10,000 tools, see `docs/tool-attention.md`. A session finds 250
    tools a turn there, slightly more than fit in 3,000 tokens of lines.

    Args:
        tokens: maximum tokens of all lines.
        in_use: maximum tokens of the lines for servers in use, of which a tool was called.
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


class TurnChoice(NamedTuple):
    """How the tools of a turn are shown.

    Attributes:
        definition_ids: ids of the tools that get their definition, in order.
        scores: id to score, for those of them that were found in this turn.
        new_ids: ids of the tools that get their definition from this turn on.
        line_ids: ids of all tools found in this turn, best first. Those without a definition may
            get a line.
    """

    definition_ids: Sequence[str]
    scores: Mapping[str, float]
    new_ids: frozenset[str] = frozenset()
    line_ids: Sequence[str] = ()


def choose_tools(
    working_set: WorkingSet | None,
    history: ToolHistory,
    active: Sequence[str],
    scores: Mapping[str, float],
    model_search_ids: Collection[str] = (),
) -> TurnChoice:
    """Which tools get their definition in a turn, and which may get a line.

    Without a working set, all active tools get their definition. With one, these tools do: the best
    tools found, those promoted in earlier turns, and new tools that no search found, because the
    model named them.

    Args:
        working_set: the token budgets.
        history: what the model has seen.
        active: ids of all tools to offer, in order.
        scores: id to score, for the tools found in this turn; by default the new ones.
        model_search_ids: ids of tools found by a search of the model, which all get their
            definition.
    """
    if working_set is None:
        return TurnChoice(active, scores)
    new_active_ids = [name for name in active if not history.record_of(name).offered]
    ranked = sorted(scores, key=scores.__getitem__, reverse=True) or new_active_ids
    best = (
        [name for name in ranked if name in model_search_ids]
        if model_search_ids
        else ranked[: working_set.promoted]
    )
    found_ids = frozenset(ranked)
    new_ids = frozenset(best).union(name for name in new_active_ids if name not in found_ids)
    return TurnChoice(
        [name for name in active if name in new_ids or history.record_of(name).promoted],
        {name: scores[name] for name in best if name in scores},
        new_ids,
        ranked,
    )


def lists_found_tools(working_set: WorkingSet | None, pool: Pool | None) -> bool:
    """Whether tools found in a turn get lines, because the pool does not list them.

    Args:
        working_set: the token budgets.
        pool: pool of the catalog; None if the prompt has the whole catalog.
    """
    if working_set is None or pool is None:
        return False
    return pool.level is not PoolLevel.ARGUMENTS


def lines_in_use(
    working_set: WorkingSet | None, servers: Sequence[str], pool: Pool | None
) -> Lines:
    """The lines of the servers in use that the pool does not show, latest called first.

    Args:
        working_set: the token budgets.
        servers: servers in use, the one called last at the end.
        pool: pool of the catalog; None if the prompt has the whole catalog.
    """
    if working_set is None or pool is None:
        return Lines()
    latest = (
        pool.tools_by_server[server]
        for server in reversed(servers)
        if pool.levels.get(server, PoolLevel.ARGUMENTS) is not PoolLevel.ARGUMENTS
    )
    return lines_of_servers(latest, working_set.in_use)


def lines_found(working_set: WorkingSet | None, tools: Iterable[Tool], in_use: Lines) -> Lines:
    """The lines of tools found, in the tokens that servers in use leave.

    Args:
        working_set: the token budgets.
        tools: tools that are shown nowhere else, best first.
        in_use: lines of the servers in use.
    """
    if working_set is None:
        return Lines()
    return lines_of_tools(tools, working_set.tokens - in_use.tokens)


class AllOrCount(PoolWriter):
    """Writes the arguments of all tools if they fit, otherwise the number of tools.

    Args:
        budget: maximum tokens of the arguments of all tools.
        summaries: summaries of tools; from their descriptions by default.
    """

    def __init__(self, budget: int, summaries: Summaries | None = None) -> None:
        super().__init__(budget=budget, summaries=summaries, top=PoolLevel.ARGUMENTS)
        self._count = PoolWriter(budget=min(budget, _COUNT_TOKENS), top=PoolLevel.ARGUMENTS)

    def write(self, catalog: Catalog, *, withheld: frozenset[str] = frozenset()) -> Pool:
        """See `PoolWriter.write`."""
        pool = super().write(catalog, withheld=withheld)
        return pool if pool.level is self.top else self._count.write(catalog, withheld=withheld)


@lru_cache(16)
def working_set_pool_writer(
    working_set: WorkingSet, summaries: Summaries | None = None
) -> PoolWriter:
    """The pool writer for prompts with a working set, shared by the process."""
    return AllOrCount(working_set.tokens, summaries)
