from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from shortlist.lab.training.evaluate import LabelledSet, ranking_figures


def test_figures_by_hand() -> None:
    scores = np.array([[3, 2, 1, 0], [0, 1, 2, 3], [1, 1, 0, 0]], dtype=np.float32)
    relevant = [frozenset({0}), frozenset({0, 1}), frozenset({1})]
    figures = ranking_figures(scores, relevant, ["a", "b", ""])
    assert figures["all"] == {
        "hit@1": pytest.approx(33.33),
        "hit@3": 100.0,
        "recall@5": 100.0,
        "recall@10": 100.0,
    }
    assert figures["a"]["hit@1"] == 100.0
    assert figures["b"]["hit@1"] == 0.0
    assert set(figures) == {"all", "a", "b"}


def test_recall_counts_the_share_found_in_the_top() -> None:
    scores = -np.arange(20, dtype=np.float32)[None, :]
    figures = ranking_figures(scores, [frozenset({3, 7, 15, 19})], [""])["all"]
    assert figures == {"hit@1": 0.0, "hit@3": 0.0, "recall@5": 25.0, "recall@10": 50.0}


def test_reading_leaves_out_what_no_tool_serves(toy_sets: Path) -> None:
    folder = toy_sets / "toy"
    labelled = LabelledSet.read(folder / "judged_tools.jsonl", folder / "queries.jsonl")
    assert len(labelled.tools) == 32
    assert len(labelled.queries) == len(labelled.relevant) == len(labelled.styles) == 25
    first = next(iter(labelled.relevant[0]))
    assert labelled.tools[first].name == "find_letter"
