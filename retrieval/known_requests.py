"""Requests known to belong to a tool, as an index uses them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


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
    """What is known of one tool in users' words.

    Args:
        requests: what users say.
        when: sentences on when to use the tool.
        sources: who wrote them, each once.
        stale: whether they were written for another definition of the tool.
        mean: of the vectors of the requests, where it is known.
    """

    requests: tuple[str, ...]
    when: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    stale: bool = False
    mean: RequestMean | None = field(default=None, compare=False, repr=False)

    @property
    def text(self) -> str:
        """All of it, as the lexical index reads it."""
        return " ".join((*self.requests, *self.when))

    @property
    def encoded(self) -> tuple[str, ...]:
        """What is encoded: the requests, or else the sentences."""
        return self.requests or self.when

    def to_dict(self) -> dict[str, Any]:
        """Who wrote them, without their texts; JSON form."""
        return {"sources": list(self.sources), "stale": self.stale}

    @property
    def key(self) -> bytes:
        """Hash of requests and sentences, 16 bytes."""
        text = json.dumps([self.requests, self.when], ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "replace")).digest()[:16]


def digest(known: Mapping[str, KnownRequests]) -> str:
    """Hash of what is known of all tools."""
    # The form of documents beside them: a saved lexical index of another one is built again.
    whole = hashlib.sha256(b"distinct words twice more")
    for tool_id in sorted(known):
        whole.update(tool_id.encode("utf-8", "replace") + b"\0" + known[tool_id].key)
    return whole.hexdigest()
