"""What docs/trust.md says, run."""

from __future__ import annotations

import re
from pathlib import Path

import shortlist
from shortlist.cli.trust import trust
from shortlist.trust.flag import SENTENCES
from shortlist.trust.scan import MAX_SCANNED_CHARACTERS, MAX_SCANNED_STRINGS
from shortlist.trust.scan_rules import RULES

PAGE = (Path(shortlist.__file__).parent / "docs" / "trust.md").read_text(encoding="utf-8")


def test_the_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [block] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(block, "trust.md", "exec"), {})  # the project's own page


def test_the_commands_are_those_there_are():
    named = set(re.findall(r"shortlist trust (\w+)", PAGE))
    assert named == {command.callback.__name__ for command in trust.registered_commands}


def test_the_rules_and_numbers_are_those_of_the_code():
    for rule in RULES:
        assert f"`{rule.code}`" in PAGE
    for code in SENTENCES:
        assert f"`{code}`" in PAGE
    assert f"{MAX_SCANNED_CHARACTERS:,} characters" in PAGE
    assert f"{MAX_SCANNED_STRINGS:,} strings" in PAGE
