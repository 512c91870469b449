from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from shortlist import Engine
from shortlist.cli.app import app
from shortlist.enrichment.library import Library

from .conftest import QUERIES


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["eval", *arguments])


STRICT = (
    "--tools",
    "tools.jsonl",
    "--queries",
    "queries.jsonl",
    "--engine-settings",
    "lexical.toml",
)
COMMON = (*STRICT, "--lenient")


def test_json_alone_on_stdout(files: Path) -> None:
    result = run(*COMMON, "--json")
    assert result.exit_code == 0
    held = json.loads(result.stdout)
    assert (held["tools"], held["queries"]) == (5, 4)
    assert held["tiers"]["lexical"]["hit@1"] == pytest.approx(1 / 3, abs=1e-6)
    assert held["tiers"]["lexical"]["abstain_recall"] == 1.0
    assert [row["row"] for row in held["malformed"]] == [5]
    assert "row 5: relevant: no tool has the id or name 'absent'" in result.stderr


def test_tables_and_misses_for_people(files: Path) -> None:
    result = run(*COMMON, "--by", "style", "--misses")
    assert result.exit_code == 0
    for part in ("5 tools, 4 queries", "hit@1", "33.3", "natural (2)", "2 of 4 queries failed"):
        assert part in result.stdout
    assert "missing disk/read_file (lexical unmatched): no stage proposed it" in result.stdout
    listed = json.loads(run(*COMMON, "--misses", "--json").stdout)["misses"]["lexical"]
    assert [miss["row"] for miss in listed] == [2, 3]
    assert listed[0]["missing"][0]["stages"] == {"lexical": None}


def test_floors_have_their_own_exit_code(files: Path) -> None:
    assert run(*COMMON, "--min", "hit@1=0.3", "--min", "mrr=0.3").exit_code == 0
    result = run(*COMMON, "--min", "hit@1=0.9", "--json")
    assert result.exit_code == 3
    assert "lexical: hit@1 is 0.3333, 0.9 asked" in result.stderr
    assert json.loads(result.stdout)["failures"] == ["lexical: hit@1 is 0.3333, 0.9 asked"]


def test_a_baseline_is_compared_and_gated(files: Path) -> None:
    old = run(*COMMON, "--json").stdout
    (files / "old.json").write_text(old)
    same = run(*COMMON, "--baseline", "old.json")
    assert same.exit_code == 0
    assert "against the baseline" in same.stdout
    assert "+0.00" in same.stdout
    better = json.loads(old)
    better["tiers"]["lexical"]["mrr"] += 0.1
    better["tools"] = 99
    (files / "old.json").write_text(json.dumps(better))
    worse = run(*COMMON, "--baseline", "old.json", "--json")
    assert worse.exit_code == 3
    assert "mrr fell" in worse.stderr
    assert "the baseline is of 99 tools, this run of 5" in worse.stderr
    assert json.loads(worse.stdout)["difference"]["lexical"]["mrr"] == pytest.approx(-0.1)
    assert run(*COMMON, "--baseline", "old.json", "--max-drop", "0.1").exit_code == 0


def test_a_row_whose_tool_vanished_fails(files: Path) -> None:
    result = run(*STRICT, "--json")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "1 row cannot be used, first queries.jsonl, row 5" in result.stderr
    assert "--lenient" in result.stderr
    rows = [json.dumps(row) for row in QUERIES[:4]]
    (files / "queries.jsonl").write_text("\n".join(rows))
    assert run(*STRICT).exit_code == 0
    tools = (files / "tools.jsonl").read_text()
    (files / "tools.jsonl").write_text(tools.replace('"read_file"', '"open_file"'))
    renamed = run(*STRICT, "--min", "hit@1=0.1")
    assert renamed.exit_code == 1
    assert "row 2: relevant: no tool has the id or name 'read_file'" in renamed.stderr


def test_a_tool_that_cannot_be_read_fails_but_a_copy_does_not(files: Path) -> None:
    (files / "queries.jsonl").write_text(json.dumps(QUERIES[0]))
    tools = (files / "tools.jsonl").read_text()
    (files / "tools.jsonl").write_text(tools + tools.splitlines()[0] + "\n")
    assert run(*STRICT).exit_code == 0
    (files / "tools.jsonl").write_text(tools + '{"name": ""}\n')
    result = run(*STRICT)
    assert result.exit_code == 1
    assert "tools.jsonl, row 6" in result.stderr


@pytest.mark.parametrize(
    ("change", "options", "difference"),
    [
        (lambda rows: rows[:3], (), "other rows (4 queries, now 3)"),
        (lambda rows: [*rows[:3], {"query": "yyy", "relevant": []}], (), "other rows"),
        (lambda rows: [rows[0] | {"relevant": ["close_issue"]}, *rows[1:]], (), "other rows"),
        (lambda rows: rows, ("--k", "3"), "another --k"),
        (lambda rows: rows, ("--session",), "the other choice of --session"),
    ],
)
def test_a_baseline_of_other_rows_or_options_is_an_error(
    files: Path, change: Any, options: tuple[str, ...], difference: str
) -> None:
    def write(rows: list[dict[str, Any]]) -> None:
        (files / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    write(QUERIES[:4])
    (files / "old.json").write_text(run(*STRICT, "--json").stdout)
    # The order of the rows, and fields that are not measured, may change.
    write([row | {"style": "new"} for row in reversed(QUERIES[:4])])
    assert run(*STRICT, "--baseline", "old.json").exit_code == 0
    write(change(QUERIES[:4]))
    result = run(*STRICT, "--baseline", "old.json", *options)
    assert result.exit_code == 1
    assert difference in result.stderr


def test_the_rows_of_the_package_can_be_left_out(files: Path) -> None:
    navigate = {
        "id": "playwright/browser_navigate",
        "name": "browser_navigate",
        "server": "playwright",
        "description": "Navigate to a URL",
        "input_schema": {"type": "object", "properties": {"url": {"type": "string"}}},
    }
    (files / "known.jsonl").write_text(json.dumps(navigate))
    [example] = [row for row in Library().rows() if row["tool"] == navigate["id"]]
    query = {"query": example["requests"][2], "relevant": [navigate["id"]]}
    (files / "asked.jsonl").write_text(json.dumps(query))
    common = ("--tools", "known.jsonl", "--queries", "asked.jsonl", "--json")
    lexical = (*common, "--engine-settings", "lexical.toml")
    with_rows = json.loads(run(*lexical).stdout)
    without = json.loads(run(*lexical, "--no-library").stdout)
    assert (with_rows["library"], without["library"]) == (True, False)
    assert with_rows["tiers"]["lexical"]["hit@1"] == 1.0
    assert without["tiers"]["lexical"]["hit@1"] == 0.0
    (files / "with.json").write_text(json.dumps(with_rows))
    compared = run(*lexical, "--no-library", "--baseline", "with.json")
    assert "the other choice of --no-library" in compared.output


def test_a_saved_index_is_measured_with_what_it_keeps(files: Path) -> None:
    (files / "queries.jsonl").write_text(json.dumps(QUERIES[0]))
    made = CliRunner().invoke(
        app, ["index", "tools.jsonl", "--out", "saved", "--engine-settings", "lexical.toml"]
    )
    assert made.exit_code == 0, made.output
    measured = ("--index", "saved", "--queries", "queries.jsonl", "--json")
    assert json.loads(run(*measured).stdout)["tiers"]["lexical"]["hit@1"] == 1.0
    engine = Engine.open("saved")
    engine.quarantine({"github/create_issue": "under review"})
    engine.save("saved")
    figures = json.loads(run(*measured).stdout)
    assert (figures["tools"], list(figures["tiers"])) == (5, ["lexical"])
    assert figures["tiers"]["lexical"]["recall@10"] == 0.0
    assert run(*STRICT, "--index", "saved").exit_code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("--tools", "tools.jsonl"),
        (*COMMON, "--min", "nonsense"),
        (*COMMON, "--tier", "none"),
        (*COMMON, "--by", "nothing"),
        (*COMMON, "--pool", "x"),
        (*COMMON, "--k", "0"),
    ],
)
def test_wrong_usage(files: Path, arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


def test_bad_tools_are_left_out_and_reported(files: Path) -> None:
    held = (files / "tools.jsonl").read_text().splitlines()
    again = json.dumps(json.loads(held[0]) | {"description": "Another"})
    (files / "tools.jsonl").write_text("\n".join([*held, "{", again, held[1], '{"name": ""}']))
    found = json.loads(run(*COMMON, "--json").stdout)
    assert found["tools"] == 6
    broken, nameless, other, same = found["malformed"][:4]
    assert {one["source"] for one in found["malformed"][:4]} == {"tools.jsonl"}
    assert [broken["row"], nameless["row"]] == [6, 9]
    assert "is not JSON" in broken["reason"]
    assert "is empty" in nameless["reason"]
    assert "held as 'github/create_issue~2'" in other["reason"]
    assert not other["left_out"]
    assert "this one is the same" in same["reason"]


def test_what_cannot_be_read_is_an_error(files: Path) -> None:
    assert run(*COMMON, "--baseline", "absent.json").exit_code == 1
    (files / "queries.jsonl").write_text("{")
    result = run(*COMMON)
    assert result.exit_code == 1
    assert "no usable query" in result.stderr


def test_pools_of_the_queries(files: Path) -> None:
    rows = [QUERIES[0] | {"pool": ["create_issue", "close_issue"]}, QUERIES[1]]
    (files / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    held = json.loads(run(*COMMON, "--pool", "queries", "--json").stdout)
    assert held["queries"] == 1
    assert held["malformed"][0]["row"] == 2


def test_xlam(files: Path) -> None:
    rows = [
        {
            "id": n,
            "query": f"please verb{n}",
            "answers": json.dumps([{"name": f"verb{n}"}]),
            "tools": json.dumps([{"name": f"verb{n}"}, {"name": f"noun{n}"}]),
        }
        for n in range(60)
    ]
    (files / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, {}]))
    common = ("xlam", "--data", "rows.jsonl", "--engine-settings", "lexical.toml", "--n", "20")
    result = run(*common, "--json")
    held = json.loads(result.stdout)
    assert (held["tools"], held["rows"], held["sample"], held["seed"]) == (120, 61, 20, 0)
    assert list(held["pools"]) == ["2-5", "50", "100", "all", "50-200"]
    assert held["pools"]["50"]["tiers"]["lexical"]["hit@1"] == 1.0
    assert held["published"]["BM25"]["200+"] == {"hit@1": 0.8, "hit@3": 0.875}
    assert held["malformed"][0]["row"] == 61
    assert "row 61" in result.stderr
    shown = run(*common).stdout
    assert "100.0 / 100.0" in shown


def test_xlam_from_the_hub_without_access(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")

    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError("no network")

    monkeypatch.setattr(hub, "hf_hub_download", refuse)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    assert run("xlam").exit_code == 2
    result = run("xlam", "--token", "t")
    assert result.exit_code == 1
    assert "--data" in result.stderr
