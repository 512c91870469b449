"""Checks for CI: minimum values of metrics, and differences from a recorded run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import EvaluationError, RequestError
from ..retrieval.ranking_metrics import QUALITY_METRICS

COMPARED_METRICS = (*QUALITY_METRICS, "abstain_precision", "abstain_recall")
"""Metrics for minimum values and baselines. Times are excluded, because they vary."""

Figures = Mapping[str, Mapping[str, float | None]]
"""tier -> metric -> value."""


@dataclass(frozen=True, slots=True)
class Floor:
    """The minimum value of a metric, for every measured tier.

    Args:
        metric: name of the metric.
        least: the minimum, from 0 to 1.
    """

    metric: str
    least: float


@dataclass(frozen=True, slots=True)
class MetricChange:
    """A metric of a tier, before and now; None without a value."""

    tier: str
    metric: str
    before: float | None
    now: float | None

    @property
    def difference(self) -> float | None:
        """Now less before, or None when one side has no value."""
        return None if self.before is None or self.now is None else self.now - self.before


def parse_floor(text: str) -> Floor:
    """Read `METRIC=VALUE`, such as `recall@10=0.9`.

    Raises:
        RequestError: not of that form, no such metric, or a value outside 0..1.
    """
    metric, separator, value = text.partition("=")
    if not separator:
        raise RequestError(f"--min {text!r}: write METRIC=VALUE, such as recall@10=0.9")
    if metric not in COMPARED_METRICS:
        raise RequestError(
            f"--min {text!r}: no such metric; use one of: {', '.join(COMPARED_METRICS)}"
        )
    try:
        least = float(value)
    except ValueError as error:
        raise RequestError(f"--min {text!r}: {value!r} is not a number") from error
    if not 0.0 <= least <= 1.0:
        raise RequestError(f"--min {text!r}: metrics are fractions from 0 to 1")
    return Floor(metric, least)


def below_floors(figures: Figures, floors: Sequence[Floor]) -> list[str]:
    """The metrics below their minimum, one sentence each.

    A metric without a value counts as below.
    """
    failures = []
    for tier, values in figures.items():
        for floor in floors:
            value = values.get(floor.metric)
            if value is None:
                failures.append(f"{tier}: {floor.metric} has no value, {floor.least:g} asked")
            elif value < floor.least:
                failures.append(f"{tier}: {floor.metric} is {value:.4f}, {floor.least:g} asked")
    return failures


def read_figures(path: Path) -> dict[str, Any]:
    """Read a result that `shortlist eval --json` or `shortlist lab record` wrote.

    Raises:
        EvaluationError: it cannot be read, or is no such result.
    """
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise EvaluationError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise EvaluationError(f"{path}: not JSON: {error}") from error
    if isinstance(content, dict) and isinstance(content.get("result"), dict):
        content = content["result"]
    tiers = content.get("tiers") if isinstance(content, dict) else None
    if not isinstance(tiers, dict) or not all(
        isinstance(figures, dict) for figures in tiers.values()
    ):
        raise EvaluationError(f"{path}: no result of an evaluation: it has no 'tiers'")
    return dict(content)


_OPTIONS = {
    "k": "another --k",
    "pool": "another --pool",
    "session": "the other choice of --session",
    "library": "the other choice of --no-library",
}
"""Keys of a result that say how it was measured, and what differs if they do."""


def check_comparable(path: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse a baseline of other rows, or one that was measured with other options.

    A key that the baseline lacks, because an earlier release wrote it, is not compared.

    Args:
        path: file of the baseline.
        before: its result.
        now: keys of this run's result: `queries`, `rows` and those of the options.

    Raises:
        EvaluationError: the two cannot be compared.
    """
    differences = [
        difference
        for key, difference in _OPTIONS.items()
        if key in before and before[key] != now.get(key, before[key])
    ]
    if before.get("queries") != now["queries"] or before.get("rows", now["rows"]) != now["rows"]:
        differences.append(f"other rows ({before.get('queries')} queries, now {now['queries']})")
    if differences:
        raise EvaluationError(
            f"{path}: the baseline is of {' and '.join(differences)}, so that its figures cannot "
            "be compared: use the rows and options it was recorded with, or record it again"
        )


def compare(before: Figures, now: Figures) -> list[MetricChange]:
    """Every compared metric of every tier on either side.

    Raises:
        EvaluationError: the two have no tier in common, so nothing would be compared.
    """
    if not set(before) & set(now):
        raise EvaluationError(
            f"the baseline has the tiers {', '.join(before)}, this run {', '.join(now)}: "
            "nothing to compare"
        )
    nothing: Mapping[str, float | None] = {}
    return [
        MetricChange(
            tier, metric, before.get(tier, nothing).get(metric), now.get(tier, nothing).get(metric)
        )
        for tier in dict.fromkeys((*now, *before))
        for metric in COMPARED_METRICS
    ]


def regressions(changes: Sequence[MetricChange], *, tolerance: float = 0.0) -> list[str]:
    """The metrics that fell by more than the tolerance, or have no value now.

    Args:
        changes: changes from `compare`.
        tolerance: how far a metric may fall, as a fraction. Runs are deterministic, so 0 is
            possible.
    """
    ran = {change.tier for change in changes if change.now is not None}
    failures = []
    for change in changes:
        if change.tier not in ran or change.before is None:
            continue
        name = f"{change.tier}: {change.metric}"
        if change.now is None:
            failures.append(f"{name} was {change.before:.4f} and has no value now")
        elif change.before - change.now > tolerance + 1e-9:
            failures.append(f"{name} fell from {change.before:.4f} to {change.now:.4f}")
    return failures
