from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A command that answers for four tools, and counts how often it was asked."""
    rows = [
        {"number": number, "when": "", "not": "", "requests": [f"make a bill, number {number}"]}
        for number in range(1, 5)
    ]
    answers = tmp_path / "answer.json"
    answers.write_text(json.dumps(rows), encoding="utf-8")
    return f"cat > /dev/null; echo asked >> {tmp_path / 'log'}; cat {answers}"


@pytest.fixture
def shop(tools_file) -> Path:
    return tools_file(
        *({"name": f"make_bill_{place}", "description": "Makes a bill."} for place in "abcde")
    )


def test_rows_are_written_once(run_json, shop, model, tmp_path):
    out = tmp_path / "enriched.jsonl"
    first = run_json("enrich", shop, "--command", model, "--out", out)
    assert (first["tools"], first["written"], first["failed"]) == (5, 5, {})
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert {row["source"] for row in rows} == {"model"}
    assert (tmp_path / "log").read_text().count("asked") == 2
    again = run_json("enrich", shop, "--command", model, "--out", out)
    assert again["written"] == 0
    assert (tmp_path / "log").read_text().count("asked") == 2
    assert [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()] == rows


def test_rows_by_hand_are_kept(run_json, shop, model, tmp_path):
    out = tmp_path / "enriched.jsonl"
    by_hand = {"tool": "other/tool", "requests": ["mine"], "source": "hand"}
    out.write_text(json.dumps(by_hand) + "\n", encoding="utf-8")
    run_json("enrich", shop, "--command", model, "--out", out)
    assert json.loads(out.read_text(encoding="utf-8").splitlines()[0]) == by_hand


def test_the_price_comes_first(run_json, shop, tmp_path):
    out = tmp_path / "enriched.jsonl"
    told = run_json("enrich", shop, "--command", "false", "--out", out, "--price")
    assert told["tools"] == 5
    assert told["tokens"] > 5 * 190
    assert not out.exists()


def test_a_command_that_fails(run, shop, tmp_path):
    out = tmp_path / "enriched.jsonl"
    done = run("enrich", shop, "--command", "exit 7", "--out", out, code=1)
    assert "exited with 7" in done.output
