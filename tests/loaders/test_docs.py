"""What docs/loading.md says, run."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import shortlist
from shortlist import Config
from shortlist.loaders import Level
from shortlist.loaders.providers import PROVIDERS

DOCS = Path(shortlist.__file__).parent / "docs"
LOADING = (DOCS / "loading.md").read_text(encoding="utf-8")


def first_columns(heading: str) -> list[str]:
    """The first cells of the tables of a section that are names in code."""
    section = LOADING.split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


def test_the_examples_on_loading_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", LOADING, re.DOTALL)
    assert len(blocks) == 4
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "loading.md", "exec"), names)


def test_every_provider_and_way_is_on_the_page() -> None:
    rows = first_columns("Providers and ways")
    assert rows[: len(PROVIDERS)] == ["openai", "openai_responses", "anthropic", "text"]
    assert set(rows[: len(PROVIDERS)]) == set(PROVIDERS)
    ways = {way for provider in PROVIDERS.values() for way in provider.ways}
    assert set(rows[len(PROVIDERS) :]) == ways
    for name, provider in PROVIDERS.items():
        (row,) = re.findall(rf"^\| `{name}` \| .* \| (.*) \|$", LOADING, re.MULTILINE)
        assert re.findall(r"`(\w+)`", row) == list(provider.ways)


def test_every_level_is_on_the_page() -> None:
    assert first_columns("Defaults by catalog size") == [level.label for level in Level]


def test_the_configuration_is_read() -> None:
    (declared,) = re.findall(r"```toml\n(.*?)```", LOADING, re.DOTALL)
    assert Config(**tomllib.loads(declared)).session.list_tokens == 1_500
