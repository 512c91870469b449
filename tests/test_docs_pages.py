"""Every page: its links, and the files that it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import shortlist

ROOT = Path(shortlist.__file__).parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def anchors(page: Path) -> set[str]:
    """What a link to a heading of a page may end in."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", one).lower().replace(" ", "-") for one in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith("http"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_files_named_are_there(page: Path) -> None:
    named = re.findall(r"`([a-z_]+/[\w/]+\.py)`", page.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).is_file()] == []
