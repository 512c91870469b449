from __future__ import annotations

import copy
import json

import pytest
from typer.testing import CliRunner

from shortlist.cli.app import app
from shortlist.lab.attention import report, run
from shortlist.lab.attention.bars import bars
from shortlist.lab.publishing.record import read_record


@pytest.fixture
def found():
    return copy.deepcopy(dict(read_record("tool-attention").result))


@pytest.fixture
def measured(found, monkeypatch):
    plans = []

    def measure(plan, *, step):
        step("something")
        plans.append(plan)
        return found

    monkeypatch.setattr(run, "measure", measure)
    return plans


def test_every_table_fits_its_headings(found):
    for table in report.tables(found).values():
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}


def test_what_discovery_finds_is_no_measurement(found):
    row = next(r for r in report.main_table(found).rows if "oracle" in str(r[0]))
    assert row.count("assumed") == 5


def test_ours_has_no_published_row_and_the_paper_s_own_is_the_one_rebuilt(found):
    rows = {row[0]: row for row in report.main_table(found).rows}
    assert rows["shortlist, library defaults"][1] is None
    if "as published" in found["arms"]:
        assert rows["Tool Attention as published, stock MiniLM"][1] == "2,368"


def test_bars_are_held_to_the_figures(found):
    ours = found["arms"]["library defaults"]
    ours["coverage"], ours["long_cached"], ours["turns"]["tokens"] = 0.969, 1_400.1, 9_999.0
    verdicts = {bar.what: bar.passed for bar in bars(found)}
    assert list(verdicts.values())[:3] == [False, False, False]
    ours["coverage"], ours["long_cached"], ours["turns"]["tokens"] = 0.97, 1_400.0, 10.0
    assert [bar.passed for bar in bars(found)][:4] == [True] * 4


def test_catalogs_of_one_size_have_no_bar_on_growth(found):
    found["sizes"]["rows"] = [row for row in found["sizes"]["rows"] if row["tools"] <= 120]
    assert len(bars(found)) == 4


def test_the_command_shows_tables_and_writes_records(measured, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    path = tmp_path / "again.json"
    told = CliRunner().invoke(
        app,
        ["lab", "bench", "tool-attention", "--size", "120", "--size", "50", "--record", str(path)],
    )
    assert told.exit_code == 0, told.output
    assert "shortlist, library defaults" in told.output
    assert measured[0].sizes == (50, 120)
    names = {one.stem for one in tmp_path.iterdir()}
    assert names == {
        "again",
        *(f"again-{w}" for w in ("ablations", "sizes", "curve", "poison", "bars")),
    }
    assert read_record("again-bars", tmp_path).result == {"in": "again"}


def test_the_command_writes_json_alone(measured, found):
    told = CliRunner().invoke(app, ["lab", "bench", "tool-attention", "--json"])
    assert json.loads(told.stdout)["arms"] == found["arms"]
    assert measured[0].others == ()


def test_plots_are_drawn_from_records(measured, tmp_path):
    refused = CliRunner().invoke(app, ["lab", "bench", "tool-attention", "--plots", str(tmp_path)])
    assert refused.exit_code == 2
    assert not measured


def test_bench_alone_is_the_bench_of_speed():
    told = CliRunner().invoke(app, ["lab", "bench", "--help"])
    assert "tool-attention" in told.output
    refused = CliRunner().invoke(app, ["lab", "bench", "--quick", "--size", "120"])
    assert refused.exit_code == 2


def test_harmless_tools_in_quarantine_are_counted(found):
    found["poison"]["benign_quarantined"] = ["jira/add_comment", "web/read_feed"]
    rows = {row[0]: row[-1] for row in report.poison_table(found).rows}
    assert rows["shortlist, library defaults"] == "2"
    assert rows["full schemas"] == "0"


def test_library_defaults_are_first_and_a_prompt_with_every_signature_says_so(found):
    names = [row[0] for row in report.main_table(found).rows]
    assert names[:2] == [
        "shortlist, library defaults",
        "shortlist, a signature of every tool in the prompt",
    ]
