from __future__ import annotations

import json
import re

import pytest

from shortlist import Engine

ROWS = [
    {
        "id": f"one/tool_{n}",
        "name": f"tool_{n}",
        "server": "one",
        "description": f"Does thing number {n} for a user.",
    }
    for n in range(5)
]


BAD = {"id": "one/bad", "name": "bad", "server": "one", "input_schema": "text"}


def counts(output: str) -> tuple[int, int, int]:
    match = re.search(r"([\d,]+) tools?, ([\d,]+) encoded, ([\d,]+) reused, [\d.]+ sec", output)
    assert match, output
    return tuple(int(group.replace(",", "")) for group in match.groups())


def test_only_what_changed_is_encoded_again(run, tools_file, tmp_path):
    out = tmp_path / "index"
    assert counts(run("index", tools_file(*ROWS), "--out", out).stdout) == (5, 5, 0)
    assert counts(run("index", tools_file(*ROWS), "--out", out).stdout) == (5, 0, 5)
    changed = [*ROWS[:3], {**ROWS[3], "description": "Sends a letter."}]
    assert counts(run("index", tools_file(*changed), "--out", out).stdout) == (4, 1, 3)
    engine = Engine.open(out)
    assert len(engine.catalog) == 4
    assert engine.catalog.get("one/tool_3").description == "Sends a letter."


def test_several_files_and_a_server_for_those_that_name_none(run, tools_file, tmp_path):
    first = tools_file({"name": "a", "description": "x"}, name="first.jsonl")
    second = tools_file({"name": "b", "description": "y"}, name="second.jsonl")
    run("index", first, second, "--out", tmp_path / "index", "--server", "mine")
    assert {tool.id for tool in Engine.open(tmp_path / "index").catalog} == {"mine/a", "mine/b"}


def test_a_bad_definition_stops_it_and_nothing_is_written(run, tools_file, tmp_path):
    tools = tools_file(ROWS[0], BAD)
    result = run("index", tools, "--out", tmp_path / "index", code=1)
    assert "bad" in result.stderr
    assert "input_schema" in result.stderr
    assert not (tmp_path / "index").exists()


def test_lenient_keeps_the_good_ones_and_names_the_bad(run, tools_file, tmp_path):
    tools = tools_file(ROWS[0], BAD)
    result = run("index", tools, "--out", tmp_path / "index", "--lenient")
    assert counts(result.stdout) == (1, 1, 0)
    assert "1 definition left out" in result.stderr
    assert "'bad' input_schema" in result.stderr


def test_collisions_are_told(run, tools_file, tmp_path):
    tools = tools_file(ROWS[0], ROWS[0], {**ROWS[0], "description": "Another."})
    result = run("index", tools, "--out", tmp_path / "index")
    assert counts(result.stdout)[0] == 2
    assert "1 definition repeated word for word, kept once" in result.stderr
    assert "one/tool_0 -> one/tool_0~2" in result.stderr


def test_a_damaged_index_is_built_anew_and_said_so(run, tools_file, tmp_path):
    out = tmp_path / "index"
    run("index", tools_file(*ROWS), "--out", out)
    manifest = next(out.glob("v-*/manifest.json"))
    manifest.write_text("{", encoding="utf-8")
    result = run("index", tools_file(*ROWS), "--out", out)
    assert counts(result.stdout) == (5, 5, 0)
    assert "cannot be reused" in result.stderr
    assert len(Engine.open(out).catalog) == 5


@pytest.mark.parametrize("damage", ["manifest.json", "tools.jsonl", "CURRENT", "no CURRENT"])
def test_what_was_quarantined_survives_a_damaged_index(run, tools_file, tmp_path, damage):
    out = tmp_path / "index"
    run("index", tools_file(*ROWS), "--out", out)
    engine = Engine.open(out)
    engine.quarantine({"one/tool_0": "under review"})
    engine.save(out)
    version = out / (out / "CURRENT").read_text()
    if damage == "no CURRENT":
        (out / "CURRENT").unlink()
    else:
        (out if damage == "CURRENT" else version).joinpath(damage).write_text("{")
    result = run("index", tools_file(*ROWS), "--out", out)
    assert "quarantined tools stay quarantined" in result.stderr
    assert dict(Engine.open(out).quarantined) == {"one/tool_0": "under review"}


@pytest.mark.parametrize("damage", ["changed", "gone", "no version"])
def test_an_index_whose_quarantine_cannot_be_read_is_not_replaced(
    run, tools_file, tmp_path, damage
):
    out = tmp_path / "index"
    run("index", tools_file(*ROWS), "--out", out)
    engine = Engine.open(out)
    engine.quarantine({"one/tool_0": "under review"})
    engine.save(out)
    version = out / (out / "CURRENT").read_text()
    if damage == "changed":
        (version / "quarantine.json").write_text("{}")
    elif damage == "gone":
        (version / "quarantine.json").unlink()
    else:
        for path in out.glob("v-*/manifest.json"):
            path.unlink()
        (out / "CURRENT").write_text("v-000009")
    before = sorted(out.rglob("*"))
    result = run("index", tools_file(*ROWS), "--out", out, code=1)
    assert "it cannot be read which tools were quarantined" in result.stderr
    assert "backup" in result.stderr
    assert sorted(out.rglob("*")) == before


def test_format_and_config(run, tmp_path):
    tools = tmp_path / "tools.json"
    function = {"type": "function", "function": {"name": "f", "description": "A function."}}
    tools.write_text(json.dumps([function]), encoding="utf-8")
    config = tmp_path / "config.toml"
    config.write_text('tiers = ["lexical"]\n', encoding="utf-8")
    out = tmp_path / "index"
    result = run("index", tools, "--out", out, "--format", "openai", "--engine-settings", config)
    assert counts(result.stdout) == (1, 0, 1)
    assert not list(out.glob("v-*/vectors.npy"))
    refused = run("index", tools, "--out", out, "--format", "nonsense", code=2)
    assert "auto, openapi, skills, jsonl, openai, anthropic, mcp" in refused.stderr


@pytest.mark.parametrize("setting", ["nonsense = 1", "tiers = [", "k = 0"])
def test_a_bad_config_is_an_error_that_names_the_file(run, tools_file, tmp_path, setting):
    config = tmp_path / "config.toml"
    config.write_text(setting, encoding="utf-8")
    out = tmp_path / "index"
    result = run("index", tools_file(*ROWS), "--out", out, "--engine-settings", config, code=1)
    assert "config.toml" in result.stderr
