"""What docs/session.md says, run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import shortlist
from shortlist.session import Turn

DOCS = Path(shortlist.__file__).parent / "docs"


def test_the_examples_do_what_the_page_says() -> None:
    names: dict[str, Any] = {}
    text = (DOCS / "session.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 6
    for block in blocks:
        exec(compile(block, "session.md", "exec"), names)


def test_what_the_pages_say_of_a_turn_is_there() -> None:
    pages = [path for path in sorted(DOCS.glob("*.md")) if path.name != "renamed.md"]
    text = "".join(path.read_text(encoding="utf-8") for path in pages)
    named = set(re.findall(r"`turn\.(\w+)`", text))
    assert named
    for name in named:
        assert name in Turn.__dataclass_fields__ or hasattr(Turn, name), name
