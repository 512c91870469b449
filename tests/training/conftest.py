"""A toy world small enough to train on in seconds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

SERVERS = {
    "mail": ("letter", "inbox", "draft", "attachment"),
    "calendar": ("meeting", "reminder", "birthday", "holiday"),
    "files": ("folder", "document", "archive", "picture"),
    "music": ("song", "album", "playlist", "concert"),
}


def _write(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture(scope="session")
def toy_sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two sets in the common form, `toy` and `plain` (no servers)."""
    root = tmp_path_factory.mktemp("sets")
    tools: list[dict[str, object]] = []
    queries: list[dict[str, object]] = []
    for server, things in SERVERS.items():
        for thing in things:
            for verb in ("find", "delete"):
                tool = f"{server}/{verb}_{thing}"
                tools.append(
                    {
                        "id": tool,
                        "name": f"{verb}_{thing}",
                        "server": server,
                        "description": f"{verb.title()} one {thing}. Works in the {server} app.",
                        "input_schema": {
                            "type": "object",
                            "properties": {f"{thing}_id": {"type": "string"}},
                        },
                    }
                )
                if thing != things[-1]:
                    word = {"find": "where is", "delete": "get rid of"}[verb]
                    queries.append(
                        {"query": f"{word} my {thing}", "relevant": [tool], "style": "natural"}
                    )
    queries.append(
        {"query": "lose the song, keep the album", "relevant": ["music/delete_song"], "style": ""}
    )
    queries.append({"query": "hello", "relevant": []})
    _write(root / "toy" / "tools.jsonl", tools)
    _write(root / "toy" / "queries.jsonl", queries)
    _write(root / "toy" / "judged_tools.jsonl", tools)
    plain = [
        {"id": f"t{i}", "name": f"compute{i}", "server": None, "description": f"Compute {i}."}
        for i in range(5)
    ]
    _write(root / "plain" / "tools.jsonl", [*plain])
    _write(
        root / "plain" / "queries.jsonl",
        [{"query": f"number {i % 5} of {i}", "relevant": [f"t{i % 5}"]} for i in range(50)],
    )
    return root
