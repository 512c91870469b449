"""The page about events shows code that runs, and names what there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import shortlist
from shortlist.session import read_events
from shortlist.session.event import Event

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
    assert [row.kind for row in rows] == ["turn", "call"]
    assert rows[0].turn_id == "42/1"
    assert rows[-1].status in ("promoted", "passed")
    recorder.turn(names["session"].id, 2, names["turn"])
    assert [*read_events("decisions.jsonl")][-1].turn == 2


def test_the_page_names_every_field_of_every_event():
    page = _PAGE.read_text(encoding="utf-8")
    for model in Event.__subclasses__():
        kind = model.model_fields["kind"].default
        cells = re.findall(rf"^\| `{kind}`[^|]*\|(?:.*\|)? (.*) \|$", page, re.MULTILINE)
        fields = [name for name in model.model_fields if name not in Event.model_fields]
        assert re.findall(r"`(\w+)`", "".join(cells)) == [x for x in fields if x != "content"], kind
