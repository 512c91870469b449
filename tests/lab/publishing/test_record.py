from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shortlist.errors import EvaluationError
from shortlist.evals.report import Table
from shortlist.lab.publishing import record
from shortlist.lab.publishing.record import Record, provenance, read_record, write_record
from shortlist.lab.publishing.tables import fill_tables, markdown

ROOT = record.RESULTS.parents[1]
#: Every page with a generated table; `make tables` writes the same ones.
PAGES = [
    page
    for page in (
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        ROOT / "lab" / "training" / "README.md",
    )
    if "\n<!-- table:" in page.read_text(encoding="utf-8")
]
ORIGIN = {
    "command": "shortlist eval",
    "commit": "abc",
    "machine": {"processor": "CPU", "cores": 2},
}


def made(name: str, title: str = "Set", *rows: tuple[str, str]) -> Record:
    table = Table(("tier", "hit@1"), rows or (("hybrid", "50.0"),))
    return Record(name, title, table, {"tiers": {}}, ORIGIN)


def test_a_record_reads_back(tmp_path: Path) -> None:
    held = made("one")
    assert write_record(held, tmp_path) == tmp_path / "one.json"
    assert read_record("one", tmp_path) == held
    with pytest.raises(EvaluationError, match="use one of: one"):
        read_record("two", tmp_path)
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(EvaluationError, match="damaged"):
        read_record("bad", tmp_path)


def test_a_record_that_cannot_be_shown_is_refused(tmp_path: Path) -> None:
    for cells in (("a",), ("a", math.nan)):
        table = Table(("tier", "hit@1"), (cells,))
        with pytest.raises(EvaluationError, match="record 'x'"):
            write_record(Record("x", "X", table, {}, ORIGIN), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_provenance_says_where_figures_come_from(monkeypatch: pytest.MonkeyPatch) -> None:
    origin = provenance(["shortlist", "eval", "--tools", "/some/where/set/tools.jsonl", "a b"])
    assert origin["command"] == "shortlist eval --tools set/tools.jsonl 'a b'"
    assert origin["machine"]["cores"] >= 1
    assert origin["machine"]["processor"]
    assert {"python", "shortlist", "numpy", "onnxruntime"} <= origin["versions"].keys()
    json.dumps(origin)

    def no_git(*args: object, **kwargs: object) -> None:
        raise subprocess.CalledProcessError(128, "git")

    monkeypatch.setattr(record.subprocess, "run", no_git)
    assert provenance(["x"])["commit"] is None


def test_a_token_is_never_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["x/shortlist", "eval", "xlam", "--token", "hf_a", "--n", "3", "--token=hf_b", "--json"]
    monkeypatch.setattr(record.sys, "argv", words)
    assert record.running_command() == ["shortlist", "eval", "xlam", "--n", "3", "--json"]


PAGE = """# Title
<!-- table:one -->
old
<!-- /table -->
between | kept
<!-- table:one,two -->
<!-- /table -->
"""


def test_tables_are_written_between_their_markers(tmp_path: Path) -> None:
    write_record(made("one", "First"), tmp_path)
    write_record(made("two", "Second", ("embed | dense", "40.0")), tmp_path)
    text = fill_tables(PAGE, tmp_path)
    assert "old" not in text
    assert text.count("between | kept") == 1
    assert "| hybrid | 50.0 |" in text
    assert "| set | tier | hit@1 |\n| --- | ---: | ---: |\n| First | hybrid | 50.0 |" in text
    assert "| Second | embed \\| dense | 40.0 |" in text
    assert "First: `shortlist eval`; at abc on CPU, 2 cores." in text
    assert fill_tables(text, tmp_path) == text


@pytest.mark.parametrize(
    "page",
    [
        "<!-- table:one -->\n",
        "<!-- table:one -->\n<!-- table:one -->\n<!-- /table -->",
        "<!-- table: one -->\n<!-- /table -->",
        "<!-- table:absent -->\n<!-- /table -->",
        "<!-- table:one,other -->\n<!-- /table -->",
    ],
)
def test_a_page_that_cannot_be_filled_is_an_error(tmp_path: Path, page: str) -> None:
    write_record(made("one"), tmp_path)
    other = Record("other", "Other", Table(("tier", "mrr"), (("a", "b"),)), {}, ORIGIN)
    write_record(other, tmp_path)
    with pytest.raises(EvaluationError):
        fill_tables(page, tmp_path)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=60).filter(lambda text: "<!--" not in text))
def test_what_lies_outside_tables_is_kept(tmp_path: Path, text: str) -> None:
    write_record(made("one"), tmp_path)
    page = f"{text}\n<!-- table:one -->\n<!-- /table -->\n{text}"
    filled = fill_tables(page, tmp_path)
    assert filled.startswith(f"{text}\n<!-- table:one -->\n| tier")
    assert filled.endswith(f"<!-- /table -->\n{text}")


def test_a_marker_picks_columns_and_rows(tmp_path: Path) -> None:
    table = Table(("method", "set", "hit@1", "ms"), (("a", "x", "1", 2), ("b", "x", "3", 4)))
    write_record(Record("one", "One", table, {}, ORIGIN), tmp_path)
    page = '<!-- table:one columns="method|ms" set="x" method="b" -->\n<!-- /table -->'
    lines = fill_tables(page, tmp_path).splitlines()
    assert lines[1:4] == ["| method | ms |", "| --- | ---: |", "| b | 4 |"]
    assert lines[5].startswith("From `lab/results/one.json`; at ")
    for wrong in ('columns="speed"', 'speed="1"', 'method="c"'):
        with pytest.raises(EvaluationError, match=r"speed|'c'"):
            fill_tables(f"<!-- table:one {wrong} -->\n<!-- /table -->", tmp_path)


def test_markdown_shows_absent_cells_as_dashes() -> None:
    assert markdown(Table(("a", "b"), (("x", None),))).endswith("| x | – |\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_show_what_was_recorded(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert fill_tables(text) == text, f"run: shortlist lab tables {page}"


def test_pages_with_tables_are_found() -> None:
    names = {str(page.relative_to(ROOT)) for page in PAGES}
    assert names >= {"README.md", "docs/benchmarks.md", "docs/loop.md", "lab/training/README.md"}
