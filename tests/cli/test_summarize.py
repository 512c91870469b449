from __future__ import annotations

import json
import sys

import pytest

from shortlist.catalog import Catalog
from shortlist.loaders.summary import summarize

PYTHON = f'"{sys.executable}"'


@pytest.fixture
def three(tools_file):
    rows = [{"name": f"tool_{n}", "server": "s", "description": f"Does thing {n}."} for n in "abc"]
    return tools_file(*rows)


def rows_of(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def model(tmp_path, answer: str) -> tuple[str, object]:
    """A command that notes each tool it is asked about and answers with an expression."""
    log = tmp_path / "asked.txt"
    program = tmp_path / "model.py"
    program.write_text(
        "import re, sys\n"
        "prompt = sys.stdin.read()\n"
        "name = re.search('^name: (.*)$', prompt, re.M)[1]\n"
        f"open({str(log)!r}, 'a').write(name + '\\n')\n"
        f"print({answer})\n",
        encoding="utf-8",
    )
    return f'{PYTHON} "{program}"', log


def test_offline_summaries_of_the_demo(run, run_json, servers, tmp_path):
    out = tmp_path / "summaries.jsonl"
    found = run_json("summarize", servers, "--out", out)
    assert (found["tools"], found["failed"]) == (120, {})
    lengths = found["tokens_per_tool"]
    assert 5 < lengths["summary"] < 0.4 * lengths["description"] < 0.1 * lengths["full_definition"]
    catalog = Catalog.read(servers)
    assert {row["id"]: row["summary"] for row in rows_of(out)} == {
        tool.id: summarize(tool) for tool in catalog
    }
    again = out.read_bytes()
    assert "120 tools" in run("summarize", servers, "--out", out).stdout
    assert out.read_bytes() == again


def test_a_command_writes_them_and_is_not_asked_twice(run_json, three, tmp_path):
    out = tmp_path / "out.jsonl"
    command, log = model(tmp_path, "'Do ' + name")
    run_json("summarize", three, "--out", out, "--command", command)
    assert {(row["summary"], row["source"]) for row in rows_of(out)} == {
        ("Do tool_a", "model"), ("Do tool_b", "model"), ("Do tool_c", "model"),
    }  # fmt: skip
    run_json("summarize", three, "--out", out, "--command", command)
    assert sorted(log.read_text().split()) == ["tool_a", "tool_b", "tool_c"]


def test_an_interrupted_run_goes_on_and_a_changed_tool_is_asked_for(
    run_json, three, tools_file, tmp_path
):
    out = tmp_path / "out.jsonl"
    command, log = model(tmp_path, "'Do ' + name")
    run_json("summarize", three, "--out", out, "--command", command)
    kept = out.read_text(encoding="utf-8").splitlines()
    out.write_text(f'{kept[0]}\n{kept[1]}\n{{"id": "s/to', encoding="utf-8")
    log.write_text("")
    changed = tools_file(
        {"name": "tool_a", "server": "s", "description": "Another."},
        *({"name": f"tool_{n}", "server": "s", "description": f"Does thing {n}."} for n in "bc"),
        name="changed.jsonl",
    )
    run_json("summarize", changed, "--out", out, "--command", command)
    assert sorted(log.read_text().split()) == ["tool_a", "tool_c"]
    assert len(rows_of(out)) == 3


def test_tools_without_an_answer_keep_their_offline_summary_and_are_named(run, three, tmp_path):
    out = tmp_path / "out.jsonl"
    command, _ = model(tmp_path, "'' if name == 'tool_b' else 'Do ' + name")
    result = run("summarize", three, "--out", out, "--command", command, "--workers", 1, code=1)
    assert "s/tool_b: empty answer" in result.stderr
    assert [row["source"] for row in rows_of(out)] == ["model", "offline", "model"]


def test_a_command_that_does_not_work_is_an_error(run, three, tmp_path):
    out = tmp_path / "out.jsonl"
    command = f"{PYTHON} -c \"import sys; sys.exit('no key')\""
    result = run("summarize", three, "--out", out, "--command", command, code=1)
    assert "the command exited with 1: no key" in result.stderr


def test_summaries_by_hand_come_first(run_json, three, tmp_path):
    out, hand = tmp_path / "out.jsonl", tmp_path / "hand.json"
    hand.write_text(json.dumps({"s/tool_a": "By hand"}), encoding="utf-8")
    run_json("summarize", three, "--out", out, "--overrides", hand)
    rows = rows_of(out)
    assert rows[-1] == {
        "id": "s/tool_a",
        "fingerprint": None,
        "summary": "By hand",
        "source": "hand",
    }
    assert len(rows) == 4
