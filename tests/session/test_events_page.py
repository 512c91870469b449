"""The page about events shows code that runs, and names what there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import shortlist
from shortlist.session import read_events

_PAGE = Path(shortlist.__file__).parent / "docs" / "observing.md"


def test_the_page_runs_and_names_every_field(engine, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = _PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {"engine": engine}
    for block in blocks:
        exec(compile(block, "observing.md", "exec"), names)
    recorder = names["recorder"]
    assert recorder.failures == (0, 0)
    rows = list(read_events("decisions.jsonl"))
    assert [row["kind"] for row in rows] == ["turn", "prompt", "call"]
    assert rows[0]["turn_id"] == "42/1"
    assert rows[-1]["status"] in ("promoted", "passed")
    recorder.prompt(names["session"].id, 1, names["turn"].shown)
    assert [*read_events("decisions.jsonl")][-1]["kind"] == "prompt"
    head = {"kind", "turn_id", "session", "turn", "at"}
    for row in rows:
        (line,) = re.findall(rf"^\| `{row['kind']}` \| (.*) \|$", page, re.MULTILINE)
        assert re.findall(r"`(\w+)`", line) == [name for name in row if name not in head]
