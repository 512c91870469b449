"""The pool (phase 1): lines at the start of the prompt that list the available tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from ..catalog import Catalog, Tool
from ..errors import RequestError
from .counting import bundled_counter
from .pool_levels import PoolLevel, ServerBlock, choose_levels, group
from .summaries import Summaries

POOL_BUDGET = 2_000
"""Default maximum of tokens of a pool: 1 % of a context of 200,000."""
_VERSIONS = 8
"""Maximum number of cached pools, one for each catalog version and set of withheld ids in use."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The text of a pool, and the level of each server.

    The same catalog, budget and summaries give the same bytes, in whatever order the tools are.

    Args:
        text: the text, with a newline at the end; "" if there is nothing to show or no line fits.
        tokens: tokens of the text.
        tools: number of tools that it covers.
        levels: server to the level of its tools; "" for tools without a server.
        standing: ids of the tools whose arguments are shown, so that they can be called.
        servers: server to its tools, ordered by id.
    """

    text: str
    tokens: int
    tools: int
    levels: Mapping[str, PoolLevel]
    standing: frozenset[str]
    servers: Mapping[str, tuple[Tool, ...]]

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
        self._written = lru_cache(_VERSIONS)(self._write)

    def write(self, catalog: Catalog, *, withheld: frozenset[str] = frozenset()) -> Pool:
        """The pool of a catalog, at the highest levels that fit in the budget.

        See `choose_levels`.

        Args:
            catalog: the catalog version.
            withheld: ids that are left out completely, such as quarantined ones.
        """
        return self._written(catalog, withheld)

    def _write(self, catalog: Catalog, withheld: frozenset[str]) -> Pool:
        blocks = group((tool for tool in catalog if tool.id not in withheld), self.summaries)
        shown = choose_levels(blocks, self.budget, self.top)
        text = assemble(shown)
        tokens = bundled_counter().count(text)
        if tokens > self.budget:  # even the number of tools does not fit
            text, tokens = "", 0
        levels = {block.server: level for block, level in shown.items()}
        standing = frozenset(
            tool.id
            for block, level in shown.items()
            if level is PoolLevel.ARGUMENTS
            for tool in block.tools
        )
        servers = {block.server: block.tools for block in blocks}
        return Pool(text, tokens, sum(map(len, servers.values())), levels, standing, servers)


def assemble(shown: Mapping[ServerBlock, PoolLevel]) -> str:
    """The text of a pool: heading, one block per server, and the number of tools not listed."""
    if not shown:
        return ""
    total = sum(len(block.tools) for block in shown)
    texts = [block.text(level) for block, level in shown.items() if level > PoolLevel.SEARCH]
    hidden = [block for block, level in shown.items() if level is PoolLevel.SEARCH]
    return "".join((heading(total, len(shown)), *texts, remainder(hidden, len(shown))))


def heading(tools: int, servers: int) -> str:
    """The first line of a pool."""
    return f"{_number(tools, 'tool')} on {_number(servers, 'server')}.\n"


def remainder(hidden: list[ServerBlock], servers: int) -> str:
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
