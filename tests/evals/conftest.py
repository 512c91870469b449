"""A small engine that answers by word overlap, so that measuring is tested apart from retrieval."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shortlist.catalog import Catalog, Tool
from shortlist.errors import RequestError

QUERIES = [
    {"query": "create an issue", "relevant": ["create_issue"], "style": "natural"},
    {"query": "what lies in this document", "relevant": ["read_file"], "style": "natural"},
    {"query": "tell the team", "relevant": ["slack/send_message"], "style": "terse"},
    {"query": "zzz", "relevant": [], "style": "none"},
    {"query": "x", "relevant": ["absent"]},
]


@dataclass
class OverlapEngine:
    """Ranks tools by how many words of the query their names hold; ties by id; nothing for none."""

    catalog: Catalog
    tiers: tuple[str, ...] = ("lexical",)
    asked: list[tuple[str, str]] = field(default_factory=list)
    ran: Mapping[str, str] = field(default_factory=dict)

    def view(self, *, allowed: Iterable[str] | None = None) -> Any:
        return SimpleNamespace(search=partial(self._search, allowed=allowed))

    def _search(self, query: str, *, tier: str, k: int, allowed: Iterable[str] | None) -> Any:
        self.asked.append((tier, query))
        if query == "refuse me":
            raise RequestError("query: refused")
        words = set(query.casefold().split())
        pool = None if allowed is None else set(allowed)
        scored = [
            (-len(words & set(tool.name.split("_"))), tool.id)
            for tool in self.catalog
            if pool is None or tool.id in pool
        ]
        ids = [tool_id for score, tool_id in sorted(scored) if score < 0]
        ran = self.ran.get(tier, tier)
        return SimpleNamespace(
            hits=tuple(SimpleNamespace(id=tool_id) for tool_id in ids[:k]),
            tier=ran,
            tier_reason=None if ran == tier else "cannot load",
        )


@pytest.fixture
def catalog() -> Catalog:
    return Catalog(
        [
            Tool("create_issue", "github", "Open an issue"),
            Tool("close_issue", "github", "Close an issue"),
            Tool("send_message", "slack", "Post a message"),
            Tool("send_message", "teams", "Post a message"),
            Tool("read_file", "disk", "Read a file"),
        ]
    )


@pytest.fixture
def engine(catalog: Catalog) -> OverlapEngine:
    return OverlapEngine(catalog)


@pytest.fixture
def overlap_engine() -> type[OverlapEngine]:
    return OverlapEngine


@pytest.fixture
def files(tmp_path: Path, catalog: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with tools, queries and a configuration that needs no model."""
    lines = {"tools.jsonl": [tool.to_dict() for tool in catalog], "queries.jsonl": QUERIES}
    for name, rows in lines.items():
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "lexical.toml").write_text('tiers = ["lexical"]\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path
