"""Saved indexes, opened and asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shortlist import Engine

QUERIES = ("create an issue", "share a page", "jira/create_issue", "list")


def answers(engine: Engine) -> list[Any]:
    return [
        [(hit.id, hit.score, hit.rank) for hit in engine.search(query, tier=tier, k=20)]
        for query in QUERIES
        for tier in engine.tiers
    ]


def open_engine(folder: Path, tools: Any = None, **settings_: Any) -> Engine:
    return Engine.open(folder, tools, **{"reranker": "overlap", **settings_})


def version_of(folder: Path) -> Path:
    return folder / (folder / "CURRENT").read_text()
