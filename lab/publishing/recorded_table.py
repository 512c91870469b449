"""The table of a recorded evaluation, from the output of `shortlist eval --json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...evals.report import Table, quality_table
from ...evals.runner import Summary
from ...evals.xlam_protocol import table as xlam_table


def table_of(result: Mapping[str, Any]) -> Table:
    """The table of a result for README, one row per tier.

    Args:
        result: the JSON form of an evaluation, on labelled queries or on xlam.
    """
    if "pools" not in result:
        return quality_table(_summaries(result), intervals=False)
    by_tier: dict[str, dict[str, Summary]] = {}
    for pool, figures in result["pools"].items():
        for tier, summary in _summaries(figures).items():
            by_tier.setdefault(tier, {})[pool] = summary
    return xlam_table(by_tier)


def _summaries(figures: Mapping[str, Any]) -> dict[str, Summary]:
    return {
        tier: Summary(values, {}, figures["queries"]) for tier, values in figures["tiers"].items()
    }
