"""The files of the wheel, as `pyproject.toml` names them."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The checkout."""


def shipped_files() -> list[Path]:
    """Files that an installed package has, relative to the checkout, sorted."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    setuptools = tomllib.loads(text)["tool"]["setuptools"]
    found: set[Path] = set()
    for package in setuptools["packages"]:
        folder = ROOT.joinpath(*package.split(".")[1:])
        patterns = ("*.py", *setuptools["package-data"].get(package, ()))
        found.update(path for pattern in patterns for path in folder.glob(pattern))
    return sorted(path.relative_to(ROOT) for path in found)
