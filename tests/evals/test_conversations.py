"""`shortlist eval --session`: conversations and several wishes, on the same files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shortlist.cli.app import app
from shortlist.decision import Decider

_TOOLS = [
    {"id": "weather/get_forecast", "name": "get_forecast", "server": "weather"}
    | {"description": "The weather forecast for a city"},
    {"id": "mail/send_message", "name": "send_message", "server": "mail"}
    | {"description": "Send a message by mail"},
    {"id": "music/play_song", "name": "play_song", "server": "music"}
    | {"description": "Play a song"},
]
_ASKED: list[dict[str, Any]] = [
    {"query": "play a song", "relevant": ["music/play_song"], "style": "one"},
    {
        "messages": [
            {"role": "user", "content": "What is the weather forecast for Porto?"},
            {"role": "assistant", "content": "18 degrees."},
            {"role": "user", "content": "and for Braga?"},
        ],
        "relevant": ["weather/get_forecast"],
        "style": "talk",
    },
    {
        "messages": [
            {"role": "user", "content": "Play a song"},
            {"role": "assistant", "content": "Playing."},
            {"role": "user", "content": "thanks!"},
        ],
        "relevant": [],
        "style": "none",
    },
]


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    """What measures a lexical session on the rows above, without a decision."""
    tools, asked, config = (tmp_path / name for name in ("t.jsonl", "q.jsonl", "c.json"))
    tools.write_text("\n".join(map(json.dumps, _TOOLS)))
    asked.write_text("\n".join(map(json.dumps, _ASKED)))
    config.write_text(json.dumps({"tiers": ["lexical"]}))
    Decider().save(tmp_path / "decision.json")
    files = ["--tools", str(tools), "--queries", str(asked), "--engine-settings", str(config)]
    return [
        "eval",
        *files,
        "--abstention",
        str(tmp_path / "decision.json"),
        "--by",
        "style",
        "--json",
    ]


def test_conversations_are_put_to_sessions(arguments: list[str]) -> None:
    ran = CliRunner().invoke(app, [*arguments, "--session", "--k", "1"])
    assert ran.exit_code == 0, ran.output
    held = json.loads(ran.stdout)
    assert held["session"] is True
    assert held["tiers"]["lexical"]["hit@1"] == 1.0
    assert held["tiers"]["lexical"]["abstain_recall"] == 1.0
    assert held["tiers"]["lexical"]["abstain_precision"] == 1.0
    assert held["by"]["style"]["lexical"]["talk"]["recall@10"] == 1.0


def test_what_only_a_session_does_needs_one(arguments: list[str]) -> None:
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 2
    assert "--session" in ran.output
