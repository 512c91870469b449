"""docs/enrichment.md shows code that runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import shortlist

_PAGE = Path(shortlist.__file__).parent / "docs" / "enrichment.md"


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", _PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, "enrichment.md", "exec"), names)
