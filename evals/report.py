"""Results of an evaluation: their JSON form, and their tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from ..retrieval.ranking_metrics import QUALITY_METRICS
from .dataset import RowProblem
from .regression import MetricChange
from .runner import QueryOutcome, Summary, group_by, summarise

_DECIMALS = 6

Outcomes = Mapping[str, Sequence[QueryOutcome]]
"""tier -> outcomes."""


@dataclass(frozen=True)
class EvaluationResult:
    """Everything one run found.

    Args:
        tools: size of the catalog.
        outcomes: tier to outcomes.
        malformed: rows that were left out or repaired.
        by: field the results are broken down by, or None.
    """

    tools: int
    outcomes: Outcomes
    malformed: tuple[RowProblem, ...] = ()
    by: str | None = None

    @cached_property
    def summaries(self) -> dict[str, Summary]:
        """Tier to summary."""
        return {tier: summarise(ran) for tier, ran in self.outcomes.items()}

    @property
    def queries(self) -> int:
        """Number of queries per tier."""
        return max((len(ran) for ran in self.outcomes.values()), default=0)


def to_json(result: EvaluationResult) -> dict[str, Any]:
    """The JSON form: fractions from 0 to 1, milliseconds, None where a metric is undefined.

    Keys besides `tools`, `queries` and `tiers`: always `intervals`; `by`, `malformed` and `ran_as`
    (queries that another tier answered) only if they are not empty.
    """
    figures: dict[str, Any] = {
        "tools": result.tools,
        "queries": result.queries,
        "tiers": {tier: rounded(summary) for tier, summary in result.summaries.items()},
        "intervals": {
            tier: {
                metric: [round(end, _DECIMALS) for end in ends]
                for metric, ends in summary.intervals.items()
            }
            for tier, summary in result.summaries.items()
        },
    }
    if result.by is not None:
        figures["by"] = {
            result.by: {
                tier: {
                    value: {"queries": len(group)} | rounded(summarise(group))
                    for value, group in group_by(tier_outcomes, result.by).items()
                }
                for tier, tier_outcomes in result.outcomes.items()
            }
        }
    if result.malformed:
        figures["malformed"] = list(map(asdict, result.malformed))
    if replaced := replaced_tiers(result.outcomes):
        figures["ran_as"] = replaced
    return figures


def rounded(summary: Summary) -> dict[str, float | None]:
    """A summary's values, rounded for JSON."""
    return {
        metric: None if value is None else round(value, _DECIMALS)
        for metric, value in summary.values.items()
    }


def replaced_tiers(outcomes: Outcomes) -> dict[str, dict[str, int]]:
    """Requested tier -> the tier that ran instead and why -> number of queries.

    Empty if there are none.
    """
    replaced = {}
    for tier, tier_outcomes in outcomes.items():
        reasons = Counter(
            f"{outcome.answer.tier_run}: {outcome.answer.reason}"
            for outcome in tier_outcomes
            if outcome.answer.reason is not None
        )
        if refusals := Counter(
            f"refused: {outcome.refused}"
            for outcome in tier_outcomes
            if outcome.refused is not None
        ):
            reasons += refusals
        if reasons:
            replaced[tier] = dict(sorted(reasons.items()))
    return replaced


def quality_table(summaries: Mapping[str, Summary], *, intervals: bool = True) -> Table:
    """Metrics in per cent and milliseconds, one row a tier.

    Abstention is shown only if there is a query that no tool fits.
    """
    abstention = {"abstain_precision": "abst. P", "abstain_recall": "abst. R"}
    if all(summary.values["abstain_recall"] is None for summary in summaries.values()):
        abstention = {}
    rows: list[tuple[Cell, ...]] = []
    for tier, summary in summaries.items():
        cells: list[Cell] = [tier]
        for metric in QUALITY_METRICS:
            ends = summary.intervals.get(metric) if intervals else None
            cells.append(_percent(summary.values[metric], ends))
        cells.extend(_percent(summary.values[metric]) for metric in abstention)
        cells.extend(_milliseconds(summary.values[f"p{share}_ms"]) for share in (50, 95))
        rows.append(tuple(cells))
    columns = ("tier", *QUALITY_METRICS, *abstention.values(), "p50 ms", "p95 ms")
    return Table(columns, tuple(rows))


_BROKEN_DOWN = ("hit@1", "hit@3", "recall@10", "complete@10", "ndcg@10")


def breakdown_table(outcomes: Outcomes, by: str) -> Table:
    """Some metrics in per cent for each value of a field; the JSON form has all.

    For queries that no tool fits, the share with an abstention.
    """
    rows: list[tuple[Cell, ...]] = []
    for tier, tier_outcomes in outcomes.items():
        for value, group in group_by(tier_outcomes, by).items():
            values = summarise(group).values
            cells = (_percent(values[metric]) for metric in (*_BROKEN_DOWN, "abstain_recall"))
            rows.append((f"{value} ({len(group)})", tier, *cells))
    rows.sort(key=lambda row: str(row[0]))
    return Table((by, "tier", *_BROKEN_DOWN, "abst. R"), tuple(rows))


def differences(changes: Sequence[MetricChange]) -> dict[str, dict[str, float | None]]:
    """Tier -> metric -> difference as a fraction, None where one side has no value."""
    by_tier: dict[str, dict[str, float | None]] = {}
    for change in changes:
        if change.before is not None or change.now is not None:
            difference = change.difference
            by_tier.setdefault(change.tier, {})[change.metric] = (
                None if difference is None else round(difference, _DECIMALS)
            )
    return by_tier


def difference_table(changes: Sequence[MetricChange]) -> Table:
    """Before, now and the difference in points, for every metric either side has a value of."""
    rows: list[tuple[Cell, ...]] = []
    for change in changes:
        if change.before is None and change.now is None:
            continue
        difference = change.difference
        rows.append(
            (
                f"{change.tier} {change.metric}",
                _percent(change.before),
                _percent(change.now),
                None if difference is None else f"{100 * difference:+.2f}",
            )
        )
    return Table(("metric", "before", "now", "points"), tuple(rows))


def _percent(value: float | None, ends: tuple[float, float] | None = None) -> Cell:
    if value is None:
        return None
    shown = f"{100 * value:.1f}"
    return shown if ends is None else f"{shown} [{100 * ends[0]:.0f}-{100 * ends[1]:.0f}]"


def _milliseconds(value: float | None) -> Cell:
    return None if value is None else f"{value:.2f}"


Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Table:
    """A table of formatted figures.

    Args:
        columns: headings. The first column is text, the others are aligned right.
        rows: formatted cells; None is shown as a dash.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def transposed(self) -> Table:
        """The same with rows as columns."""
        head, *rows = zip(self.columns, *self.rows, strict=True)
        return Table(tuple(map(str, head)), tuple(rows))
