from __future__ import annotations

import pytest

from shortlist.lab.bench.bars import Bar, short


@pytest.mark.parametrize(
    ("at", "measured", "verdict"),
    [
        ("most", 1.3, "pass"),
        ("most", 1.31, "short"),
        ("least", 1.3, "pass"),
        ("least", 1.29, "short"),
        ("exactly", 1.3, "pass"),
        ("exactly", 1.4, "short"),
        ("most", None, "not measured"),
    ],
)
def test_verdicts(at: str, measured: float | None, verdict: str) -> None:
    bar = Bar("b", 1.3, at, measured, "x")  # type: ignore[arg-type]
    assert bar.verdict == verdict
    assert bar.to_dict()["verdict"] == verdict
    assert short([bar]) == ([bar] if verdict == "short" else [])
