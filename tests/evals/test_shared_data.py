"""The sets this project is measured on, where they lie beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from shortlist.evals import xlam_protocol as xlam
from shortlist.evals.dataset import read_queries, read_tool_files
from shortlist.evals.xlam_rows import stream_rows


@pytest.mark.parametrize(
    ("tools", "queries", "count"),
    [
        ("mcp_dev/judged_tools.jsonl", ("queries", "no_tool", "turns"), 484 + 120 + 60),
        ("livemcpbench/tools.jsonl", ("queries",), 94),
    ],
)
def test_every_row_of_the_sets_is_usable(
    shared_data: Path, tools: str, queries: tuple[str, ...], count: int
) -> None:
    path = shared_data / "eval" / tools
    catalog, bad = read_tool_files([path])
    read = read_queries([path.parent / f"{name}.jsonl" for name in queries], catalog)
    assert (bad, read.malformed) == ((), ())
    assert len(read.queries) == count


@pytest.mark.no_cover
def test_xlam_has_the_functions_it_is_described_by(shared_data: Path) -> None:
    rows = stream_rows(shared_data / "eval" / "xlam" / "xlam_first_1000.jsonl")
    data = xlam.prepare(rows)
    assert (data.rows, len(data.catalog), data.malformed) == (1000, 1554, ())
    sizes = {pool.name: len(pool.queries) for pool in data.pools}
    assert sizes.pop("6-15") == 82
    assert list(sizes) == ["2-5", "50", "100", "200", "300", "1000", "all"]
    assert set(sizes.values()) == {400}
