"""Definitions written for these tests: attacks, and benign ones that look much like attacks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from shortlist import Tool

Cases = Callable[[str], list[Tool]]


@pytest.fixture(scope="session")
def cases() -> Cases:
    """Reads the tools of a file beside this one."""

    def read(name: str) -> list[Tool]:
        lines = (Path(__file__).parent / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        rows = (json.loads(line) for line in lines)
        return [
            Tool(row["name"], row.get("server"), row["description"], row.get("input_schema"))
            for row in rows
        ]

    return read
