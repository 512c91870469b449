"""The example of the page runs as it stands, and gives what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import shortlist


def test_the_example_of_the_page(capsys):
    page = (Path(shortlist.__file__).parent / "docs" / "code-mode.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    held: dict = {"__name__": "page"}
    exec(compile(block, "code-mode.md", "exec"), held)
    ran = held["ran"]
    assert ran.error is None
    assert ran.value == ["created failure 0", "created failure 2"]
    assert len(ran.calls) == 12
    printed = capsys.readouterr().out
    assert "async def read_log(self, *, offset: int) -> ReadLogResult:" in printed
    assert "'result': ['created failure 0', 'created failure 2']" in printed
