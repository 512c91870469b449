from __future__ import annotations

import json
from pathlib import Path

import pytest

from shortlist.errors import EvaluationError, RequestError
from shortlist.evals import regression
from shortlist.evals.report import difference_table


@pytest.mark.parametrize(
    "text",
    [
        "recall@10",
        "recall@10=high",
        "recall@10=90",
        "recall@10=nan",
        "recall@7=0.5",
        "p50_ms=1",
        "",
    ],
)
def test_floors_are_checked_as_they_are_read(text: str) -> None:
    with pytest.raises(RequestError, match="--min"):
        regression.parse_floor(text)


def test_floors() -> None:
    figures = {"hybrid": {"recall@10": 0.91, "mrr": 0.5, "abstain_recall": None}}
    floors = [regression.parse_floor(text) for text in ("recall@10=0.9", "recall@10=0.91")]
    assert regression.below_floors(figures, floors) == []
    short = regression.below_floors(figures, [regression.parse_floor("mrr=0.6")])
    assert short == ["hybrid: mrr is 0.5000, 0.6 asked"]
    undefined = regression.below_floors(figures, [regression.parse_floor("abstain_recall=0")])
    assert "no value" in undefined[0]


def test_regressions_beyond_the_tolerance() -> None:
    before = {"hybrid": {"mrr": 0.5, "hit@1": 0.4, "recall@5": 0.7}, "old": {"mrr": 1.0}}
    now = {"hybrid": {"mrr": 0.48, "hit@1": 0.6, "recall@5": None}, "new": {"mrr": 0.0}}
    changes = regression.compare(before, now)
    assert regression.regressions(changes) == [
        "hybrid: recall@5 was 0.7000 and has no value now",
        "hybrid: mrr fell from 0.5000 to 0.4800",
    ]
    assert len(regression.regressions(changes, tolerance=0.03)) == 1
    shown = {row[0]: row[1:] for row in difference_table(changes).rows}
    assert shown["hybrid mrr"] == ("50.0", "48.0", "-2.00")
    assert shown["old mrr"] == ("100.0", None, None)
    assert "hybrid complete@10" not in shown


def test_nothing_in_common_is_no_comparison() -> None:
    with pytest.raises(EvaluationError, match="nothing to compare"):
        regression.compare({"a": {}}, {"b": {}})


def test_baselines_are_read_plain_or_recorded(tmp_path: Path) -> None:
    figures = {"tools": 1, "queries": 1, "tiers": {"hybrid": {"mrr": 0.5}}}
    path = tmp_path / "old.json"
    for held in (figures, {"name": "x", "result": figures}):
        path.write_text(json.dumps(held))
        assert regression.read_figures(path) == figures


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"tiers": [1]}', '{"tiers": {"a": 1}}'])
def test_a_baseline_that_is_none_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "old.json"
    path.write_text(text)
    with pytest.raises(EvaluationError, match=r"old\.json"):
        regression.read_figures(path)
    with pytest.raises(EvaluationError, match="cannot be read"):
        regression.read_figures(tmp_path / "absent.json")
