"""What docs/loading.md says, run."""

from __future__ import annotations

import re
from pathlib import Path

import shortlist
from shortlist.loaders.render import FORMATS
from shortlist.loaders.schemas import TIMEOUT

PAGE = Path(shortlist.__file__).parent / "docs" / "loading.md"


def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 7
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)  # the project's own page
    definition = names["load_catalog"]().get("web/fetch_page")

    class Client:
        def definition(self, tool_id):
            assert tool_id == definition.id
            return definition

    from shortlist.loaders import SchemaLoader

    loaded = SchemaLoader(names["Registry"](Client()), timeout=TIMEOUT).load([definition])
    assert list(loaded.tools.values()) == [definition]


def test_every_format_is_on_the_page():
    text = PAGE.read_text(encoding="utf-8")
    for style in FORMATS:
        assert f"`{style}`" in text
