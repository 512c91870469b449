"""Chromium for tests of the page, driven by playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_NAMES = ("chromium", "chromium-browser", "chromium-headless-shell", "google-chrome")
_FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars"),
]
#: Width, height: a desktop, a laptop, a tablet and a telephone.
SIZES = ((1600, 1000), (1280, 800), (768, 1024), (400, 800))
VIEWS = ("search", "catalog", "trust", "conversations", "overview")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; skips the test where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


def axe_script() -> str:
    """The script of axe-core."""
    axe = pytest.importorskip("axe_playwright_python", reason="axe is not installed")
    [path] = Path(axe.__file__).parent.rglob("axe.min.js")
    return path.read_text(encoding="utf-8")


def serious_faults(page: Page, script: str) -> list[str]:
    """What axe finds serious or critical on a page: rule, and the first places."""
    page.evaluate(script)
    found = page.evaluate("axe.run(document)")
    return [
        f"{rule['id']}: {[node['html'][:120] for node in rule['nodes'][:3]]}"
        for rule in found["violations"]
        if rule["impact"] in ("serious", "critical")
    ]
