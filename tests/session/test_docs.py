"""What docs/session.md says, run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import shortlist

PAGE = Path(shortlist.__file__).parent / "docs" / "session.md"


def test_the_examples_do_what_the_page_says() -> None:
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
