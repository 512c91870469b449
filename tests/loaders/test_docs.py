"""What docs/loading.md says, run."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import shortlist
from shortlist import Config
from shortlist.loaders.render import FORMATS
from shortlist.loaders.schemas import CACHED_DEFINITIONS, LOAD_TIMEOUT_S

DOCS = Path(shortlist.__file__).parent / "docs"
LOADING = (DOCS / "loading.md").read_text(encoding="utf-8")


def run(page: str, count: int) -> dict[str, Any]:
    """The names that a page's examples define."""
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == count
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)  # the project's own page
    return names


def test_the_examples_on_loading_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("loading.md", 4)


def test_every_format_is_on_the_page():
    for style in FORMATS:
        assert f"`{style}`" in LOADING


def test_the_configuration_is_read():
    (declared,) = re.findall(r"```toml\n(.*?)```", LOADING, re.DOTALL)
    assert Config(**tomllib.loads(declared)).session.active_tools == 30


def test_the_limits_of_a_source_are_those_of_the_code():
    assert f"a time limit of {LOAD_TIMEOUT_S:g} seconds" in LOADING
    assert f"keeps {CACHED_DEFINITIONS:,} definitions" in LOADING
