"""What docs/speed.md says, run."""

from __future__ import annotations

import re
from pathlib import Path

import shortlist

PAGE = (Path(shortlist.__file__).parent / "docs" / "speed.md").read_text(encoding="utf-8")


def test_the_examples_run() -> None:
    found: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(block, "speed.md", "exec"), found)  # the project's own page
