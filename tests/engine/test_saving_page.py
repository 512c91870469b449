"""What docs/saving.md says, run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import shortlist
from shortlist.retrieval.store import versions as store

PAGE = (Path(shortlist.__file__).parent / "docs" / "saving.md").read_text(encoding="utf-8")


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    exec(compile(code, "saving.md", "exec"), {})  # the project's own page


def test_the_numbers_are_those_of_the_code() -> None:
    assert f"up to {store._LOCK_SECONDS:.0f} seconds" in PAGE
