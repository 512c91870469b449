"""Models that cost nothing and whose answers are known, and catalogs to search with them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from time import sleep
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shortlist import Tool

DIM = 32
_WORD = re.compile(r"[a-z0-9]+")


class BagEncoder:
    """A text's vector is the sum of its words' own; counts and keeps what it encodes."""

    dim = DIM

    def __init__(self, name: str = "bag") -> None:
        self.name = name
        self.fingerprint = f"bag-of-words:{name}"
        self.tools: list[str] = []
        self.queries: list[str] = []
        self.broken: Exception | None = None

    def encode(
        self,
        texts: Sequence[str],
        *,
        query: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> NDArray[np.float32]:
        if self.broken is not None:
            raise self.broken
        (self.queries if query else self.tools).extend(texts)
        values = np.zeros((len(texts), DIM), np.float32)
        for row, text in enumerate(texts):
            for word in _WORD.findall(text.lower()) or [""]:
                values[row] += self._vector(word)
            values[row] /= np.linalg.norm(values[row])
            if progress is not None:
                progress(1)
        return values

    def _vector(self, word: str) -> NDArray[np.float32]:
        seed = hashlib.sha256(f"{self.fingerprint}:{word}".encode()).digest()[:8]
        random = np.random.default_rng(int.from_bytes(seed, "big"))
        return random.normal(size=DIM).astype(np.float32)


class OverlapReranker:
    """Scores a text by the share of its words that the request holds."""

    def __init__(self, name: str = "overlap", ms_each: float = 0.0) -> None:
        self.name = self.fingerprint = name
        self.ms_each = ms_each
        self.scored: list[int] = []

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        self.scored.append(len(texts))
        sleep(self.ms_each * len(texts) / 1e3)
        asked = set(_WORD.findall(query.lower()))
        shares = []
        for text in texts:
            words = _WORD.findall(text.lower())
            shares.append(sum(word in asked for word in words) / max(1, len(words)))
        return np.array(shares, np.float32)


_OBJECTS = ("issue", "branch", "file", "message", "channel", "table", "page", "ticket", "board")
_ACTIONS = ("create", "list", "delete", "update", "search", "archive", "share", "copy")
_SERVERS = ("github", "slack", "jira")


def make_tools(count: int = 100, note: str = "") -> list[Tool]:
    """Distinct tools over a few servers, easily confused with one another."""
    tools = []
    for number in range(count):
        action = _ACTIONS[number % len(_ACTIONS)]
        thing = _OBJECTS[number // len(_ACTIONS) % len(_OBJECTS)]
        version = number // (len(_ACTIONS) * len(_OBJECTS))
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {f"{thing}_id": {"type": "string", "description": f"Which {thing}"}},
        }
        tools.append(
            Tool(
                f"{action}_{thing}" + (f"_v{version}" if version else ""),
                _SERVERS[number % len(_SERVERS)],
                f"{action.capitalize()} a {thing} number {number} {note}".strip(),
                schema,
            )
        )
    return tools
