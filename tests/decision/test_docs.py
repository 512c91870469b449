"""What docs/deciding.md says, run."""

from __future__ import annotations

import re
from pathlib import Path

import shortlist


def test_the_example_runs(capsys):
    page = (Path(shortlist.__file__).parent / "docs" / "deciding.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(program, "docs/deciding.md", "exec"), {})
    cut, reason = capsys.readouterr().out.strip().splitlines()
    assert "keeps 95% of right tools" in cut
    assert re.search(r"no tool fits: the probability that any does is 0\.\d+", reason)
