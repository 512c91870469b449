from __future__ import annotations

import json
from pathlib import Path

import pytest

from shortlist import Engine, Tool
from shortlist.enrichment import read_example_queries
from shortlist.session import JsonLines, Recorder

# A query's word decides its tool, in words no definition has.
PLACES = ("north", "south", "east", "west")
WORDS = ("zorp", "quax", "fleem", "drindle", "vash", "mip", "tragul", "oskin")


@pytest.fixture(scope="module")
def plant(tmp_path_factory) -> Path:
    """A file of tools that users ask for in a jargon of their own."""
    rows = [
        {"name": f"process_{place}_{step}", "description": f"Runs step {step} of line {place}."}
        for place in PLACES
        for step in range(8)
    ]
    path = tmp_path_factory.mktemp("plant") / "tools.json"
    path.write_text(json.dumps({"tools": rows}), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def index(run, plant, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("index") / "plant"
    run("index", plant, "--out", folder)
    return folder


@pytest.fixture(scope="module")
def jargon(tmp_path_factory) -> Path:
    rows = [
        {"query": f"{word} the {place} {turn}", "tool": f"process_{place}_{step}"}
        for place in PLACES
        for step, word in enumerate(WORDS)
        for turn in ("now", "please", "again", "for me")
    ]
    path = tmp_path_factory.mktemp("jargon") / "events.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def recorded(folder: Path, rows: list[dict], *, content: bool) -> Path:
    """Events of sessions in which each query led to a successful call of its tool."""
    path = folder / f"events-{content}.jsonl"
    tools = [Tool(name) for name in dict.fromkeys(row["tool"] for row in rows)]
    engine = Engine.from_tools(tools, tiers=["lexical"])
    with JsonLines(path) as log:
        recorder = Recorder(log, content=content)
        for number, row in enumerate(rows):
            session = engine.session(events=recorder, session_id=str(number), must_offer=False)
            session.turn(row["query"])
            verdict = session.check(row["tool"], {})
            session.result(verdict.tool.id, "done")
            failed = session.check(tools[0].id, {})
            session.result(failed.tool.id, "failed", ok=False)
    return path


def without_fingerprints(path: Path) -> Path:
    """The recorded tools have no description; those of the plant do."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        row.pop("fingerprint", None)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_the_file_is_written_kept_and_used(run, run_json, index, jargon, tmp_path):
    out = tmp_path / "usage.jsonl"
    mine = {"tool": "process_north_0", "requests": ["start the north line"]}
    out.write_text(json.dumps(mine) + "\n", encoding="utf-8")
    text = run("learn", jargon, "--index", index, "--out", out).stdout
    assert "tools with events" in text
    assert "tools without" in text
    assert "128 queries from 128 events of 32 tools" in " ".join(text.split())
    report = run_json("learn", jargon, "--index", index, "--out", out)
    assert report["accepted"]
    assert (report["events"], report["rows"]) == (128, 32)
    assert report["seen"]["after"][0] > report["seen"]["before"][0] + 0.2
    rows = read_example_queries([out])
    assert [row.source for row in rows] == ["hand", *["usage"] * 32]

    settings = tmp_path / "engine.toml"
    settings.write_text(f'[index]\nexample_queries = ["{out.as_posix()}"]\n')
    search = ("search", "fleem the south, it is late", "--index", index)
    before = run_json(*search)["hits"]
    after = run_json(*search, "--engine-settings", settings)["hits"]
    assert after[0]["id"] == "process_south_2"
    assert before[0]["id"] != "process_south_2"
    assert run_json(*search)["hits"] == before


def test_a_refusal_writes_nothing(run, run_json, index, tmp_path):
    events, out = tmp_path / "few.jsonl", tmp_path / "usage.jsonl"
    events.write_text(
        '{"query": "a", "tool": "process_north_1"}\n{"query": "b", "tool": "gone"}\n'
        '{"query": "tell me@example.com", "tool": "process_north_1"}\n',
        encoding="utf-8",
    )
    result = run("learn", events, "--index", index, "--out", out, code=3)
    assert "not written" in result.stdout
    assert "too few events" in result.stdout
    assert "row 2: relevant: no tool has the id or name 'gone' (left out)" in result.stderr
    assert "1 event left out: the query has a secret" in result.stderr
    assert run_json("learn", events, "--index", index, "--out", out, code=3)["accepted"] is False
    assert not out.exists()


def test_events_of_sessions_are_learned_from(run_json, plant, jargon, tmp_path):
    rows = [json.loads(line) for line in jargon.read_text().splitlines()]
    path, out = recorded(tmp_path, rows[:64], content=True), tmp_path / "usage.jsonl"
    arguments = ("learn", path, "--tools", plant, "--out", out)
    (tmp_path / "rest.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[64:]))
    report = run_json(*arguments, tmp_path / "rest.jsonl")
    assert report["left_out"] == {"changed": 64}
    without_fingerprints(path)
    report = run_json(*arguments, tmp_path / "rest.jsonl")
    assert report["accepted"]
    assert (report["events"], report["tools"], report["left_out"]) == (128, 32, {})
    assert out.exists()


def test_hashed_events_name_the_setting_that_records_texts(run, index, jargon, tmp_path):
    rows = [json.loads(line) for line in jargon.read_text().splitlines()[:3]]
    path = recorded(tmp_path, rows, content=False)
    result = run("learn", path, "--index", index, "--out", tmp_path / "usage.jsonl", code=1)
    assert "no query with a tool that served it" in result.stderr
    assert "content=True" in result.stderr


def test_wrong_usage_and_bad_files(run, index, jargon, tmp_path):
    out = ("--out", tmp_path / "usage.jsonl")
    run("learn", "--index", index, *out, code=2)
    run("learn", jargon, "--index", index, code=2)
    run("learn", jargon, *out, code=2)
    run("learn", jargon, "--index", tmp_path / "none", *out, code=1)
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"query": "a"}\n', encoding="utf-8")
    assert "row 1" in run("learn", bad, "--index", index, *out, code=1).stderr
