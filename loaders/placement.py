"""Where the tools of a turn go: appended to the suffix, or the suffix laid out anew."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from ..catalog import Tool
from .detail import Detail
from .entry import EntryWriter, PoolEntry
from .layout import Batch, Layout
from .packing import Candidate, callable_level, pack
from .pool_levels import PoolLevel
from .summaries import Summaries

REBUILT_SHARE = 0.75
"""Share of the budget a rebuilt suffix fills, so that the next turns can append to it again."""
ABOVE = {
    PoolLevel.SEARCH: Detail.NAME,
    PoolLevel.DIGEST: Detail.NAME,
    PoolLevel.NAMES: Detail.SUMMARY,
    PoolLevel.SUMMARIES: Detail.SIGNATURE,
    PoolLevel.ARGUMENTS: Detail.SIGNATURE,
}
"""The lowest level that says more of a tool than its server's level in the pool."""
_WITHOUT_SCHEMA = (Detail.NAME, Detail.SUMMARY)


class Wanted(NamedTuple):
    """A tool to be offered.

    Attributes:
        tool: its definition, or what the catalog knows where that could not be had.
        loaded: whether it is the definition.
        called_for: whether it was found this turn, or was not asked for last turn.
        least: the lowest level that says more than the pool does.
        score: how well it fits.
    """

    tool: Tool
    loaded: bool
    called_for: bool
    least: Detail
    score: float


class Placement(NamedTuple):
    """A layout that offers what is wanted as far as the budget goes.

    Attributes:
        layout: the new one.
        rebuilt: whether its suffix was laid out anew.
    """

    layout: Layout
    rebuilt: bool


class Placer:
    """Places tools within a budget.

    Args:
        entries: writes them.
        summaries: what is said of tools that are not shown in full.
        budget: tokens of a suffix at most.
        heading: tokens that stand before the lines of a batch.
        turn_budget: tokens that a turn may write, as far as the first tool in full and the others
            with their signatures do not take more; None for no such bound.
    """

    def __init__(
        self,
        entries: EntryWriter,
        summaries: Summaries,
        budget: int,
        heading: int,
        turn_budget: int | None = None,
    ) -> None:
        self._entries = entries
        self._summaries = summaries
        self._budget = budget
        self._heading = heading
        self._turn_budget = turn_budget

    def tokens(self, layout: Layout) -> int:
        """What the suffix of a layout takes, its headings included."""
        told = sum(any(entry.tool is None for entry in batch) for batch in layout.batches)
        return layout.tokens + told * self._heading

    def write(self, tool: Tool, detail: Detail) -> PoolEntry:
        """A tool at a level of detail."""
        summary = "" if detail is Detail.FULL else self._summaries.of(tool)
        return self._entries.write(tool, detail, summary)

    def place(self, layout: Layout, wanted: Mapping[str, Wanted], *, stale: bool) -> Placement:
        """The layout that offers these tools.

        Tools that are called for and not there are appended. If a tool leaves, or one that is
        called for would not be shown well enough to be called, the suffix is laid out anew
        instead, those called for ranked first and then the latest. A tool that no room was left
        for is tried again only when it is called for, so that a suffix that is full stays as it is.

        Args:
            layout: of the last turn.
            wanted: id to tool, in order.
            stale: whether what is promoted there no longer holds.
        """
        present = {entry.tool_id: entry for entry in layout.promoted}
        if not stale and present.keys() <= wanted.keys():
            called = [name for name, one in wanted.items() if one.called_for]
            fresh = [wanted[name] for name in called if name not in present]
            weak = any(
                present[name].detail < Detail.SIGNATURE and wanted[name].loaded
                for name in called
                if name in present
            )
            if not fresh and not weak:
                return Placement(layout, rebuilt=False)
            room = self._budget - self.tokens(layout) - self._heading
            batch = self._packed(fresh, room) if fresh else ()
            if not present or (not weak and self._shown_well(fresh, batch)):
                return Placement(layout.promote(batch), rebuilt=False)
        return Placement(layout.rebuild(self._anew(wanted)), rebuilt=True)

    def _anew(self, wanted: Mapping[str, Wanted]) -> Batch:
        ranked = by_need(wanted.values())
        if not ranked:
            return ()
        first = self._costs(ranked[0])
        most = self._budget - self._heading
        aimed = int(REBUILT_SHARE * self._budget) - self._heading
        called = [one for one in ranked if one.called_for]
        fitting = [cost for cost in first.values() if cost <= most]
        room = max([aimed, min(most, self._callable(called)), *fitting])
        kept = self._staying(ranked[len(called) :], room - self._callable(called))
        batch = self._packed([*called, *kept], room)
        entries = {entry.tool_id: entry for entry in batch}
        return tuple(entries[name] for name in wanted if name in entries)

    def _staying(self, others: Sequence[Wanted], room: int) -> list[Wanted]:
        """Those not called for that can still be shown well enough to be called."""
        staying = []
        for one in others:
            costs = self._costs(one)
            if (cost := costs[callable_level(costs)]) <= room:
                room -= cost
                staying.append(one)
        return staying

    def _packed(self, ranked: Sequence[Wanted], room: int) -> Batch:
        """Tools in rank order, each at the best level there is room for."""
        if self._turn_budget is not None:
            room = min(room, max(self._turn_budget - self._heading, self._callable(ranked)))
        if all(one.loaded for one in ranked):
            full = tuple(self.write(one.tool, Detail.FULL) for one in ranked)
            if sum(entry.tokens for entry in full) <= room:
                return full
        candidates = [Candidate(one.tool.id, one.score, self._costs(one)) for one in ranked]
        details = pack(candidates, room)
        return tuple(
            self.write(one.tool, details[one.tool.id]) for one in ranked if one.tool.id in details
        )

    def _shown_well(self, fresh: Sequence[Wanted], batch: Collection[PoolEntry]) -> bool:
        """Whether the first is shown in full, if it can be at all, and all can be called."""
        shown = {entry.tool_id: entry.detail for entry in batch}
        loaded = [one for one in fresh if one.loaded]
        if any(shown.get(one.tool.id, Detail.NAME) < Detail.SIGNATURE for one in loaded):
            return False
        if not fresh[0].loaded or shown[fresh[0].tool.id] is Detail.FULL:
            return True
        return self.write(fresh[0].tool, Detail.FULL).tokens > self._budget - self._heading

    def _callable(self, ranked: Sequence[Wanted]) -> int:
        """Tokens of the first in full and of the others at their signatures."""
        if not ranked:
            return 0
        first, *others = (self._costs(one) for one in ranked)
        return first[max(first)] + sum(costs[callable_level(costs)] for costs in others)

    def _costs(self, one: Wanted) -> dict[Detail, int]:
        levels = [level for level in Detail if level >= one.least]
        return {
            level: self.write(one.tool, level).tokens
            for level in (levels if one.loaded else _WITHOUT_SCHEMA)
        }


def by_need(wanted: Collection[Wanted]) -> list[Wanted]:
    """Those called for, in order; then the others, the latest first."""
    called = [one for one in wanted if one.called_for]
    return called + [one for one in reversed(list(wanted)) if not one.called_for]
