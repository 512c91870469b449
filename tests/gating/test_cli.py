"""`search` and `explain` with a state: what is denied, why, and what unlocks it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shortlist.cli.app import app

from .conftest import small_catalog

RULES = """
[[gate.rules]]
tools = "merge_*"
needs = { all_of = [{ scope = "w" }, { after = "search_issues" }] }

[[gate.rules]]
tools = "slack/*"
needs = { fact = { name = "rooms", equals = 2 } }

[[gate.rules]]
tools = "clock"
needs = { milestone = "awake" }
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    for name in ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    tools, config = tmp_path / "tools.jsonl", tmp_path / "shortlist.toml"
    tools.write_text("\n".join(json.dumps(tool.to_dict()) for tool in small_catalog()))
    config.write_text(RULES)
    return ["--tools", str(tools), "--engine-settings", str(config), "--tier", "lexical"]


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


def found(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json"))


def test_search_tells_what_is_held_back(source: list[str]) -> None:
    text = run("search", "merge a pull request", *source)
    assert "denied: 5 of 12 tools; the nearest:" in text
    assert "github/merge_pull_request: needs the scope 'w' and a call of 'search_issues'" in text
    form = found("search", "merge a pull request", *source)["denied"]
    assert form["count"] == 5
    assert form["nearest"][0]["tool"] == "github/merge_pull_request"


@pytest.mark.parametrize(
    ("query", "tool", "options"),
    [
        (
            "merge a pull request",
            "github/merge_pull_request",
            ["--scope", "w", "--called", "github/search_issues"],
        ),
        ("post a message", "slack/post_message", ["--fact", "rooms=2"]),
        ("tell the time", "clock", ["--milestone", "awake"]),
    ],
)
def test_what_the_state_permits_is_offered(
    source: list[str], query: str, tool: str, options: list[str]
) -> None:
    before = found("search", query, *source)
    after = found("search", query, *source, *options)
    assert tool not in [hit["id"] for hit in before["hits"]]
    assert tool in [hit["id"] for hit in after["hits"]]
    assert found("explain", query, tool, *source, *options)["refusal"] is None
    refusal = found("explain", query, tool, *source)["refusal"]
    assert refusal["tool"] == tool


@pytest.mark.parametrize("fact", ["rooms=3", "rooms=true", "rooms", 'rooms="2"', "rooms=[2]"])
def test_another_fact_does_not(source: list[str], fact: str) -> None:
    hits = found("search", "post a message", *source, "--fact", fact)["hits"]
    assert "slack/post_message" not in [hit["id"] for hit in hits]


def test_explain_shows_what_unlocks_a_tool(source: list[str]) -> None:
    ask = ["explain", "merge a pull request", "github/merge_pull_request", *source]
    text = run(*ask, "--scope", "w")
    assert "denied: needs the scope 'w' and a call of 'search_issues' first" in text
    assert "; unlocked by github/search_issues" in text
    assert "unlocked by" not in run(*ask)


def test_explain_names_the_rules_about_single_calls(source: list[str]) -> None:
    rules = """
[[gate.rules]]
name = "loud posts"
tools = "slack/*"
when = { text = { matches = "*!*" } }
approval = true
"""
    Path(source[3]).write_text(rules)
    ask = ["explain", "post a message", "slack/post_message", *source]
    text = run(*ask, "--arguments", '{"channel": "a", "text": "hey!"}')
    assert "rule 'loud posts': a person approves calls whose text matches ['*!*']" in text
    assert "this call: unapproved" in text
    quiet = found(*ask, "--arguments", '{"channel": "a", "text": "hey"}')
    assert quiet["call_rules"][0]["name"] == "loud posts"
    assert quiet["call"]["status"] == "passed"
    assert "this call" not in run(*ask)


def test_an_unknown_tool_names_only_what_may_be_used(source: list[str]) -> None:
    told = run("explain", "x", "github/merge_pull_requests", *source, code=1)
    assert "github/merge_pull_request'" not in told
    assert "nearest: " in told
    assert "github/merge_pull_request," not in told


def test_rules_that_are_wrong_are_told(source: list[str]) -> None:
    config = Path(source[3])
    config.write_text('[[gate.rules]]\nname = "r"\ntools = "x"\nneeds = { scop = "w" }\n')
    told = run("search", "x", *source, code=1)
    assert "gate.rules.0 ('r'): no condition 'scop'; use one of: scope, after" in told
