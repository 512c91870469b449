"""Code of pages that no other test runs: Python, and settings as TOML and JSON."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import shortlist
from shortlist import Config

ROOT = Path(shortlist.__file__).parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    """The blocks of a page in one language."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def all_blocks(language: str) -> list[Any]:
    """The blocks of all pages in one language, as parameters of a test."""
    return [
        pytest.param(block, id=f"{page.name}-{number}")
        for page in PAGES
        for number, block in enumerate(blocks(page, language))
    ]


def test_the_python_of_the_page_on_the_configuration_runs() -> None:
    names: dict[str, Any] = {}
    found = blocks(ROOT / "docs" / "configuration.md", "python")
    assert found
    for block in found:
        exec(compile(block, "configuration.md", "exec"), names)


@pytest.mark.parametrize("block", all_blocks("toml"))
def test_settings_in_toml_are_valid(block: str) -> None:
    given = tomllib.loads(block)
    given.get("gate", {}).pop("conditions", None)
    assert Config(**given)


@pytest.mark.parametrize("block", all_blocks("json"))
def test_settings_in_json_are_valid(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = json.loads(block)
    if "mcpServers" not in given and "shortlist" not in given:
        return
    pytest.importorskip("mcp")
    from shortlist.gateway.clients.client_config import read_client_config
    from shortlist.gateway.profiles.gateway_settings import read_gateway_settings

    for name in re.findall(r"\$\{([A-Z_]+)\}", block):
        monkeypatch.setenv(name, "x")
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {}} | given), encoding="utf-8")
    found = read_client_config(path)
    assert not found.problems
    assert read_gateway_settings(found, None)
