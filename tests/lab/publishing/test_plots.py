from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from shortlist.errors import EvaluationError, MissingExtraError
from shortlist.evals.report import Table
from shortlist.lab.publishing.plots import PLOTS, draw_plots, label_points
from shortlist.lab.publishing.record import Record, write_record

ROWS = [
    {"method": "shortlist hybrid", "set": "dev", "hit@1": 0.6, "p50_ms": 2.0},
    {"method": "other", "set": "dev", "hit@1": 0.4, "p50_ms": 40.0},
    {"method": "offline", "set": "dev", "hit@1": None, "p50_ms": None},
    {"method": "other", "set": "bench", "hit@1": 0.5, "p50_ms": 41.0},
]
POOLS = {
    "2-5": {"tiers": {"hybrid": {"hit@1": 1.0, "hit@3": 1.0}}},
    "50": {"tiers": {"hybrid": {"hit@1": 0.9, "hit@3": 0.95}}},
    "all": {"tiers": {"hybrid": {"hit@1": 0.7, "hit@3": 0.8}}},
}
RESULTS: dict[str, dict[str, Any]] = {
    "peers": {"rows": ROWS},
    "xlam": {"tools": 900, "pools": POOLS},
    "bench": {
        "latencies": [
            {"tier": "embed", "tools": n, "p50_ms": n / 100, "threads": 1, "callers": callers}
            for n in (5000, 120)
            for callers in (1, 8)
        ]
    },
    "gateway": {
        "definitions": {"servers": 2, "tools": 30, "tokens_behind": 9000, "tokens_shown": 800}
    },
    "postgres": {
        "searches": [
            {"where": where, "among": "all tools", "tools": tools, "p50_ms": 2.0, "p95_ms": 3.0}
            for where in ("in process", "PostgreSQL")
            for tools in (1_000, 10_000)
        ]
    },
    "tool-attention": {
        "arms": {
            name: {"coverage": 0.9, "long_tokens": 4000.0, "long_cached": 900.0}
            for name in ("full", "discovery", "library defaults")
        },
        "sizes": {
            "rows": [
                {
                    "tools": tools,
                    "same_work": False,
                    "pool_tokens": 1900,
                    "library defaults": {"coverage": 0.9},
                    "retrieval, tier embed": {"coverage": 0.7},
                }
                for tools in (120, 1000)
            ]
        },
    },
}


def held(folder: Path, name: str, result: dict[str, Any]) -> None:
    write_record(Record(name, name, Table(("a",), ()), result, {}), folder)


def test_every_plot_is_drawn_from_its_record(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name, result in RESULTS.items():
        held(tmp_path, name, result)
    drawn = draw_plots(tmp_path / "plots", tmp_path)
    assert drawn.keys() == PLOTS.keys()
    assert all(path is not None and b"<svg" in path.read_bytes() for path in drawn.values())


def test_one_record_makes_one_plot_and_the_same_each_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    held(tmp_path, "bench", RESULTS["bench"])
    drawn = draw_plots(tmp_path, tmp_path)
    assert [plot for plot, path in drawn.items() if path is not None] == ["time-by-size"]
    first = (tmp_path / "time-by-size.svg").read_bytes()
    draw_plots(tmp_path, tmp_path)
    assert (tmp_path / "time-by-size.svg").read_bytes() == first


@pytest.mark.parametrize(
    ("name", "result"), [("peers", {"rows": []}), ("xlam", {}), ("bench", {"latencies": []})]
)
def test_a_record_of_another_form_is_an_error(
    tmp_path: Path, name: str, result: dict[str, Any]
) -> None:
    pytest.importorskip("matplotlib")
    held(tmp_path, name, result)
    with pytest.raises(EvaluationError, match=f"record '{name}'"):
        draw_plots(tmp_path, tmp_path)


def test_without_matplotlib_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"\[lab\]"):
        draw_plots(tmp_path, tmp_path)


def test_labels_cover_neither_each_other_nor_a_point() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.add_subplot(1, 1, 1)
    places = {f"the method {n}": (10 + n % 4, 50 + 0.3 * n) for n in range(14)}
    axes.scatter(*zip(*places.values(), strict=True))
    axes.set(xlim=(0, 30), ylim=(40, 70))
    boxes = list(label_points(figure, axes, places).items())
    points = {label: axes.transData.transform(place) for label, place in places.items()}
    assert len(boxes) == len(places)
    for number, (label, (left, bottom, right, top)) in enumerate(boxes):
        for other, box in boxes[:number]:
            apart = right <= box[0] or box[2] <= left or top <= box[1] or box[3] <= bottom
            assert apart, f"{label} covers {other}"
        covered = [p for p, (x, y) in points.items() if left < x < right and bottom < y < top]
        assert covered == [], label


def test_the_plot_of_the_readme_is_drawn_for_dark_pages_too(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    held(tmp_path, "peers", RESULTS["peers"])
    draw_plots(tmp_path, tmp_path)
    light = (tmp_path / "quality-by-time.svg").read_text()
    dark = (tmp_path / "quality-by-time-dark.svg").read_text()
    assert "#e6e4df" in dark
    assert "#e6e4df" not in light
