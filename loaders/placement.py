"""Placement: how much of each tool fits the token budget, and where in the prompt it goes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple

from ..catalog import Tool
from ..errors import RequestError
from .counting import bundled_counter
from .detail import Detail
from .pool import PoolLevel
from .prompt_layout import Batch, Layout, ToolEntry
from .render.renderer import BATCH_HEADING, Renderer, write_entry
from .summaries import Summaries

REBUILT_SHARE = 0.75
"""Maximum share of the budget after a rebuild, so that later turns can append again."""
MIN_DETAIL_ABOVE_POOL = {
    PoolLevel.SEARCH: Detail.NAME,
    PoolLevel.DIGEST: Detail.NAME,
    PoolLevel.NAMES: Detail.SUMMARY,
    PoolLevel.SUMMARIES: Detail.SIGNATURE,
    PoolLevel.ARGUMENTS: Detail.SIGNATURE,
}
"""The lowest level with more detail than the server's level in the pool."""
_WITHOUT_SCHEMA = (Detail.NAME, Detail.SUMMARY)


class ToolToPlace(NamedTuple):
    """A tool to be offered.

    Attributes:
        tool: the definition, or the catalog's tool if it could not be loaded.
        loaded: whether `tool` is the definition; False where it could not be loaded.
        found_now: whether it was found in this turn, or is new.
        least_detail: the lowest level with more detail than the pool.
        score: how well it fits.
    """

    tool: Tool
    loaded: bool
    found_now: bool
    least_detail: Detail
    score: float


class Placement(NamedTuple):
    """A layout with the wanted tools, as far as the budget permits.

    Attributes:
        layout: the new layout.
        rebuilt: whether all definitions were written again.
    """

    layout: Layout
    rebuilt: bool


class Placer:
    """Places tools within a budget.

    Args:
        renderer: writes the tools.
        summaries: summaries of tools that are not shown in full.
        budget: maximum tokens of all definitions.
        turn_budget: tokens that a turn may add. The first tool in full and the signatures of the
            others are always permitted. None for no limit.
    """

    def __init__(
        self,
        renderer: Renderer,
        summaries: Summaries,
        budget: int,
        turn_budget: int | None = None,
    ) -> None:
        self._renderer = renderer
        self._summaries = summaries
        self._budget = budget
        self._heading = bundled_counter().count(BATCH_HEADING)
        self._turn_budget = turn_budget

    def tokens(self, layout: Layout) -> int:
        """Tokens of the definitions of a layout, headings included."""
        headed_batches = sum(
            any(entry.provider_object is None for entry in batch) for batch in layout.batches
        )
        return layout.tokens + headed_batches * self._heading

    def write(self, tool: Tool, detail: Detail) -> ToolEntry:
        """A tool at a level of detail."""
        summary = "" if detail is Detail.FULL else self._summaries.of(tool)
        return write_entry(self._renderer, tool, detail, summary)

    def place(
        self, layout: Layout, offered_tools: Mapping[str, ToolToPlace], *, stale: bool
    ) -> Placement:
        """The layout that offers these tools.

        New tools are appended. If a tool is removed, or a tool found in this turn would not be
        callable, all definitions are written again: tools found in this turn first, then the
        latest. A tool that did not fit is tried again only when it is found again, so a full prompt
        does not change.

        Args:
            layout: layout of the last turn.
            offered_tools: id to tool, in order.
            stale: whether its definitions are out of date.
        """
        present = {entry.tool_id: entry for entry in layout.promoted}
        if not stale and present.keys() <= offered_tools.keys():
            current_ids = [name for name, tool in offered_tools.items() if tool.found_now]
            new_tools = [offered_tools[name] for name in current_ids if name not in present]
            some_not_callable = any(
                present[name].detail < Detail.SIGNATURE and offered_tools[name].loaded
                for name in current_ids
                if name in present
            )
            if not new_tools and not some_not_callable:
                return Placement(layout, rebuilt=False)
            room = self._budget - self.tokens(layout) - self._heading
            batch = self._pack_batch(new_tools, room) if new_tools else ()
            if not present or (not some_not_callable and self._is_shown_well(new_tools, batch)):
                return Placement(layout.promote(batch), rebuilt=False)
        return Placement(layout.rebuild(self._rebuild_batch(offered_tools)), rebuilt=True)

    def _rebuild_batch(self, offered_tools: Mapping[str, ToolToPlace]) -> Batch:
        ranked = found_first_then_latest(offered_tools.values())
        if not ranked:
            return ()
        first_costs = self._token_costs(ranked[0])
        limit = self._budget - self._heading
        target = int(REBUILT_SHARE * self._budget) - self._heading
        current = [tool for tool in ranked if tool.found_now]
        fitting = [cost for cost in first_costs.values() if cost <= limit]
        room = max([target, min(limit, self._callable_tokens(current)), *fitting])
        earlier = self._fit_earlier_tools(
            ranked[len(current) :], room - self._callable_tokens(current)
        )
        batch = self._pack_batch([*current, *earlier], room)
        entries = {entry.tool_id: entry for entry in batch}
        return tuple(entries[name] for name in offered_tools if name in entries)

    def _fit_earlier_tools(
        self, earlier_tools: Sequence[ToolToPlace], room: int
    ) -> list[ToolToPlace]:
        """The tools not found in this turn that still fit at a callable level."""
        fitting = []
        for offered_tool in earlier_tools:
            costs = self._token_costs(offered_tool)
            if (cost := costs[callable_level(costs)]) <= room:
                room -= cost
                fitting.append(offered_tool)
        return fitting

    def _pack_batch(self, ranked: Sequence[ToolToPlace], room: int) -> Batch:
        """Tools in rank order, each at the best level that fits."""
        if self._turn_budget is not None:
            room = min(room, max(self._turn_budget - self._heading, self._callable_tokens(ranked)))
        if all(offered_tool.loaded for offered_tool in ranked):
            full = tuple(self.write(offered_tool.tool, Detail.FULL) for offered_tool in ranked)
            if sum(entry.tokens for entry in full) <= room:
                return full
        candidates = [
            Candidate(offered_tool.tool.id, offered_tool.score, self._token_costs(offered_tool))
            for offered_tool in ranked
        ]
        details = pack(candidates, room)
        return tuple(
            self.write(offered_tool.tool, details[offered_tool.tool.id])
            for offered_tool in ranked
            if offered_tool.tool.id in details
        )

    def _is_shown_well(
        self, new_tools: Sequence[ToolToPlace], batch: Collection[ToolEntry]
    ) -> bool:
        """Whether the first tool is shown in full, if possible, and all are callable."""
        details = {entry.tool_id: entry.detail for entry in batch}
        loaded = [offered_tool for offered_tool in new_tools if offered_tool.loaded]
        if any(
            details.get(offered_tool.tool.id, Detail.NAME) < Detail.SIGNATURE
            for offered_tool in loaded
        ):
            return False
        first = new_tools[0]
        if not first.loaded or details[first.tool.id] is Detail.FULL:
            return True
        return self.write(first.tool, Detail.FULL).tokens > self._budget - self._heading

    def _callable_tokens(self, ranked: Sequence[ToolToPlace]) -> int:
        """Tokens of the first tool in full and of the signatures of the others."""
        if not ranked:
            return 0
        first_costs, *other_costs = (self._token_costs(offered_tool) for offered_tool in ranked)
        return first_costs[max(first_costs)] + sum(
            costs[callable_level(costs)] for costs in other_costs
        )

    def _token_costs(self, offered_tool: ToolToPlace) -> dict[Detail, int]:
        levels = [level for level in Detail if level >= offered_tool.least_detail]
        return {
            level: self.write(offered_tool.tool, level).tokens
            for level in (levels if offered_tool.loaded else _WITHOUT_SCHEMA)
        }


def found_first_then_latest(tools: Collection[ToolToPlace]) -> list[ToolToPlace]:
    """The tools found in this turn, in order; then the others, latest first."""
    current = [tool for tool in tools if tool.found_now]
    return current + [tool for tool in reversed(list(tools)) if not tool.found_now]


_LOWEST_VALUE = 0.01
"""Value of the worst tool relative to the best, if scores are not positive."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One tool to fit into a token budget, with its costs.

    Args:
        tool_id: id of the tool.
        score: how well it fits; higher is better, on any scale.
        token_costs: detail to tokens, for each level it can be shown at; at least one.
    """

    tool_id: str
    score: float
    token_costs: Mapping[Detail, int]


def pack(candidates: Sequence[Candidate], budget: int) -> dict[str, Detail]:
    """The level of detail of each tool, within a token budget.

    Greedy, in four steps. The first tool gets its highest level that fits. The others get a
    callable level. Those for which it does not fit get less. The remaining tokens raise tools to
    their highest level. In each step, tools with the highest score per token come first, and a tool
    is skipped if its level does not fit.

    Args:
        candidates: in rank order; ids must differ.
        budget: maximum number of tokens.

    Returns:
        Id to level of the tools that fit, in the order of the candidates.

    Raises:
        RequestError: a score is not finite.
    """
    values = _relative_values([candidate.score for candidate in candidates])
    room = max(budget, 0)
    packed: dict[str, Detail] = {}
    if candidates:
        best = candidates[0]
        fitting = [level for level, cost in best.token_costs.items() if cost <= room]
        packed = {best.tool_id: max(fitting)} if fitting else {}
    other_candidates = candidates[1:]
    callable_levels = {
        candidate.tool_id: callable_level(candidate.token_costs) for candidate in other_candidates
    }
    packed = _raise_levels(packed, callable_levels, candidates, values, room)
    for level in (Detail.SUMMARY, Detail.NAME):
        line_levels = {
            candidate.tool_id: level
            for candidate in other_candidates
            if candidate.tool_id not in packed and level in candidate.token_costs
        }
        packed = _raise_levels(packed, line_levels, candidates, values, room)
    highest = {
        candidate.tool_id: max(candidate.token_costs)
        for candidate in candidates
        if candidate.tool_id in packed and packed[candidate.tool_id] < max(candidate.token_costs)
    }
    packed = _raise_levels(packed, highest, candidates, values, room)
    order = [candidate.tool_id for candidate in candidates]
    return {tool_id: packed[tool_id] for tool_id in order if tool_id in packed}


def callable_level(costs: Mapping[Detail, int]) -> Detail:
    """The cheapest level at which a tool can be called; without one, its highest level.

    Args:
        costs: detail to tokens.
    """
    able = [level for level in costs if level >= Detail.SIGNATURE]
    return min(able, key=lambda level: (costs[level], -level)) if able else max(costs)


def _raise_levels(
    packed: Mapping[str, Detail],
    levels: Mapping[str, Detail],
    candidates: Sequence[Candidate],
    values: Sequence[float],
    budget: int,
) -> dict[str, Detail]:
    """The levels after raising some tools, highest value per further token first.

    Args:
        packed: id to present level.
        levels: id to the level that the tool gets if it fits.
        candidates: all tools.
        values: positive score of each tool.
        budget: maximum tokens of all tools together.
    """
    used_tokens, steps = 0, []
    for candidate, value in zip(candidates, values, strict=True):
        name = candidate.tool_id
        present = candidate.token_costs[packed[name]] if name in packed else 0
        used_tokens += present
        if name in levels:
            further = candidate.token_costs[levels[name]] - present
            steps.append((value / max(further, 1), further, name))
    raised = dict(packed)
    for _, further, name in sorted(steps, key=lambda step: -step[0]):
        if used_tokens + further <= budget:
            raised[name] = levels[name]
            used_tokens += further
    return raised


def _relative_values(scores: Sequence[float]) -> list[float]:
    """Scores as positive values.

    If some are not positive (logits of a cross-encoder), all are shifted.
    """
    if not all(isfinite(score) for score in scores):
        raise RequestError(f"scores to pack by must be finite, got {list(scores)}")
    if not scores or min(scores) > 0:
        return list(scores)
    lowest, span = min(scores), max(scores) - min(scores)
    return [score - lowest + (_LOWEST_VALUE * span or 1.0) for score in scores]
