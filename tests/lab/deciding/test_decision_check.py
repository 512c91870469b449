"""`shortlist lab check-decision` measures the bundled decision as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shortlist.cli.app import app
from shortlist.demo import load_catalog


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    """Queries in the words of every second tool of the demo, and some that no tool serves."""
    tools = list(load_catalog())
    rows = {
        "served": [
            {"query": f"please {tool.description[:60]}", "relevant": [tool.id]}
            for tool in tools[::2]
        ],
        "none": [{"query": query, "relevant": []} for query in ("hello there", "tell me a joke")],
        "tools": [tool.to_dict() for tool in tools],
    }
    files = {name: tmp_path / f"{name}.jsonl" for name in rows}
    for name, lines in rows.items():
        text = "".join(json.dumps(line) + "\n" for line in lines)
        files[name].write_text(text, encoding="utf-8")
    options = ["--no-tool", str(files["none"]), "--tools", str(files["tools"])]
    return ["lab", "check-decision", str(files["served"]), *options]


def test_the_bundled_decision_is_measured_as_it_is(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, [*arguments, "--tier", "hybrid", "--tier", "embed", "--json"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert set(figures) == {"hybrid", "embed"}
    assert figures["hybrid"]["served"] == 60
    shown = CliRunner().invoke(app, [*arguments, "--tier", "hybrid"])
    assert "the bundled decision" in shown.stdout
