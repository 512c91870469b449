from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from shortlist import Engine, Tool
from shortlist.session import JsonLines, Recorder

# A request's word decides its tool, in words no definition holds.
PLACES = ("north", "south", "east", "west")
WORDS = ("zorp", "quax", "fleem", "drindle", "vash", "mip", "tragul", "oskin")


@pytest.fixture(scope="module")
def made(run, tmp_path_factory) -> Path:
    """An index of tools that users ask for in a jargon of their own."""
    rows = [
        {"name": f"process_{place}_{step}", "description": f"Runs step {step} of line {place}."}
        for place in PLACES
        for step in range(8)
    ]
    folder = tmp_path_factory.mktemp("made")
    (folder / "tools.json").write_text(json.dumps({"tools": rows}), encoding="utf-8")
    run("index", folder / "tools.json", "--out", folder / "shop")
    return folder / "shop"


@pytest.fixture
def shop(made, tmp_path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "shop"))


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


@pytest.fixture(scope="module")
def taught(run, made, jargon, tmp_path_factory) -> tuple[Path, str]:
    """An index that has learned the jargon, and what the command printed."""
    folder = Path(shutil.copytree(made, tmp_path_factory.mktemp("taught") / "shop"))
    return folder, run("learn", jargon, "--index", folder).stdout


@pytest.fixture
def learned(taught, tmp_path) -> Path:
    return Path(shutil.copytree(taught[0], tmp_path / "learned"))


def test_learning_and_forgetting(run, run_json, shop, jargon):
    query = "fleem the south, it is late"
    before = run_json("search", query, "--index", shop, "--tier", "embed")["hits"]
    report = run_json("learn", jargon, "--index", shop)
    assert report["accepted"]
    assert report["seen"]["after"][0] > report["seen"]["before"][0] + 0.2
    assert report["events"] == 128
    learned = run_json("search", query, "--index", shop, "--tier", "embed")["hits"]
    assert "process_south_2" in [hit["id"] for hit in learned[:3]]
    assert learned != before
    # Words heard in other sentences find their tool in this one: by chance, one in eight would.
    asked = [(word, place, step) for step, word in enumerate(WORDS) for place in PLACES]
    found = (
        Engine.open(shop)
        .view()
        .search_many([f"{word} the {place}, it is late" for word, place, _ in asked], tier="embed")
    )
    right = [
        one.hits[0].id == f"process_{place}_{step}"
        for one, (_, place, step) in zip(found, asked, strict=True)
    ]
    assert sum(right) > len(right) / 2
    assert run_json("learn", "--forget", "--index", shop)["forgotten"]["events"] == 128
    assert run_json("search", query, "--index", shop, "--tier", "embed")["hits"] == before
    assert run_json("learn", "--forget", "--index", shop)["forgotten"] is None
    assert "nothing was learned" in run("learn", "--forget", "--index", shop).stdout


def test_the_table_names_both_kinds(run, taught, learned):
    printed = taught[1]
    assert "tools with events" in printed
    assert "tools without" in printed
    assert "learned from 128 events of 32 tools" in printed
    assert "removed what was learned" in run("learn", "--forget", "--index", learned).stdout


def test_indexing_again_keeps_what_was_learned(run, learned, tools_file):
    held = Engine.open(learned).learned
    assert held is not None
    more = [tool.to_dict() for tool in Engine.open(learned).catalog] + [{"name": "extra"}]
    run("index", tools_file(*more), "--out", learned)
    assert Engine.open(learned).learned == held


def test_a_refusal_writes_nothing(run, run_json, shop, tmp_path):
    events = tmp_path / "few.jsonl"
    events.write_text(
        '{"query": "a", "tool": "process_north_1"}\n{"query": "b", "tool": "gone"}\n',
        encoding="utf-8",
    )
    before = [(shop / "CURRENT").read_text(), *sorted(shop.glob("v-*"))]
    result = run("learn", events, "--index", shop, code=3)
    assert "not changed" in result.stdout
    assert "too few events" in result.stdout
    assert "row 2: relevant: no tool has the id or name 'gone' (left out)" in result.stderr
    assert run_json("learn", events, "--index", shop, code=3)["accepted"] is False
    assert [(shop / "CURRENT").read_text(), *sorted(shop.glob("v-*"))] == before


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


def test_events_of_sessions_are_learned_from(run, run_json, shop, jargon, tmp_path):
    rows = [json.loads(line) for line in jargon.read_text().splitlines()]
    path = recorded(tmp_path, rows, content=True)
    report = run_json("learn", path, "--index", shop)
    assert report["accepted"]
    assert (report["events"], report["tools"]) == (128, 32)
    measured = ("eval", "--index", shop, "--queries", jargon, "--tier", "embed")
    after = run_json(*measured)["tiers"]["embed"]["hit@1"]
    run("learn", "--forget", "--index", shop)
    assert after > run_json(*measured)["tiers"]["embed"]["hit@1"] + 0.2


def test_hashed_events_name_the_setting_that_records_texts(run, shop, jargon, tmp_path):
    rows = [json.loads(line) for line in jargon.read_text().splitlines()[:3]]
    result = run("learn", recorded(tmp_path, rows, content=False), "--index", shop, code=1)
    assert "no query with a tool that served it" in result.stderr
    assert "content=True" in result.stderr


def test_several_files_are_learned_from_together(run_json, shop, jargon, tmp_path):
    rows = [json.loads(line) for line in jargon.read_text().splitlines()]
    (tmp_path / "rest.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[64:]))
    first = recorded(tmp_path, rows[:64], content=True)
    report = run_json("learn", first, tmp_path / "rest.jsonl", "--index", shop)
    assert report["events"] == 128


def test_wrong_usage_and_bad_files(run, shop, jargon, tmp_path):
    run("learn", "--index", shop, code=2)
    run("learn", jargon, "--index", shop, "--forget", code=2)
    run("learn", jargon, "--index", tmp_path / "none", code=1)
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"query": "a"}\n', encoding="utf-8")
    assert "row 1" in run("learn", bad, "--index", shop, code=1).stderr
