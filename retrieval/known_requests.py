"""Requests known to belong to a tool, as an index uses them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json


class RequestMean(NamedTuple):
    """The mean of the vectors of some requests, made beforehand.

    Args:
        model: fingerprint of the encoder.
        values: shape (dim,).
    """

    model: str
    values: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class KnownRequests:
    """The example queries of one tool.

    Args:
        requests: example queries.
        when: sentences on when to use the tool.
        sources: sources of the queries, without duplicates.
        stale: whether they were written for another definition of the tool.
        mean: mean vector of the requests, if it is known.
        summary: what the tool does, in the user's words, for prompts; it is not searched.
    """

    requests: tuple[str, ...]
    when: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    stale: bool = False
    mean: RequestMean | None = field(default=None, compare=False, repr=False)
    summary: str = field(default="", compare=False)

    @property
    def text(self) -> str:
        """All of it, as the lexical index reads it."""
        return " ".join((*self.requests, *self.when))

    @property
    def encoded(self) -> tuple[str, ...]:
        """The texts to encode: the requests, or the sentences if there are none."""
        return self.requests or self.when

    def to_dict(self) -> dict[str, Any]:
        """Who wrote them, without their texts; JSON form."""
        return {"sources": list(self.sources), "stale": self.stale}

    @property
    def key(self) -> bytes:
        """Hash of requests and sentences, 16 bytes."""
        text = json.dumps([self.requests, self.when], ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "replace")).digest()[:16]


def save_known(path: Path, known: Mapping[str, KnownRequests]) -> None:
    """Write the example queries of all tools, without their means."""
    rows = {
        tool_id: [one.requests, one.when, one.sources, one.stale, one.summary]
        for tool_id, one in known.items()
    }
    path.write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")


def load_known(path: Path) -> dict[str, KnownRequests]:
    """Tool id to the example queries that `save_known` wrote; empty where there is no such file."""
    rows = from_json(path.read_bytes()) if path.exists() else {}
    return {
        tool_id: KnownRequests(tuple(requests), tuple(when), tuple(sources), stale, summary=summary)
        for tool_id, (requests, when, sources, stale, summary) in rows.items()
    }
