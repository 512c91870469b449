"""Searches through the interface of each agent framework, compared on the same queries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shortlist import Tool
from shortlist.cli.app import app
from shortlist.lab.peers.registry import FRAMEWORKS, load_peer

_SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = [
    Tool("send", "mail", "Send an electronic mail to a person", _SCHEMA),
    Tool("delete", "mail", "Delete an electronic mail for ever", _SCHEMA),
    Tool("forecast", "weather", "Forecast the weather of tomorrow", _SCHEMA),
    Tool("play", "music", "Play a song of an album", _SCHEMA),
]


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_each_framework_finds_the_tool_and_gives_ids(name: str) -> None:
    search = load_peer(name)
    search.index(TOOLS)
    for _ in range(2):
        ids = search.search("send an electronic mail", 2)
        assert ids[0] == "mail/send"
        assert len(ids) <= 2
    assert search.search("play a song", 3)[0] == "music/play"


def test_the_command_records_a_row_for_each_search(tmp_path: Path) -> None:
    for folder in ("livemcpbench", "peers/ironclaw", "peers/mcpproxy_golden"):
        path = tmp_path / folder
        path.mkdir(parents=True)
        rows = [
            {"name": tool.name, "server": tool.server, "description": tool.description}
            for tool in TOOLS
        ]
        query = {"query": "send an electronic mail", "relevant": ["mail/send"]}
        (path / "tools.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        (path / "queries.jsonl").write_text(json.dumps(query))
    file = tmp_path / "frameworks.json"
    result = CliRunner().invoke(app, ["lab", "frameworks", str(file), "--data", str(tmp_path)])
    assert result.exit_code == 0, result.output
    table = json.loads(file.read_text())["table"]
    assert [row[0] for row in table["rows"]] == list(FRAMEWORKS)
    assert table["columns"][1:3] == ["livemcpbench hit@1", "livemcpbench recall@5"]
    assert {row[1] for row in table["rows"]} == {"100.0"}
