"""Requests known to belong to a tool, as an index uses them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

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
    """The example queries of one tool.

    Args:
        requests: example queries.
        when: sentences on when to use the tool.
        sources: sources of the queries, without duplicates.
        stale: whether they were written for another definition of the tool.
        mean: mean vector of the requests, if it is known.
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
        """The texts to encode: the requests, or the sentences if there are none."""
        return self.requests or self.when

    def to_dict(self) -> dict[str, Any]:
        """Who wrote them, without their texts; JSON form."""
        return {"sources": list(self.sources), "stale": self.stale}

    def to_saved(self) -> list[Any]:
        """All of it but the mean; JSON form."""
        return [self.requests, self.when, self.sources, self.stale]

    @classmethod
    def from_saved(cls, row: Sequence[Any]) -> Self:
        """Example queries from the result of `to_saved`."""
        requests, when, sources, stale = row
        return cls(tuple(requests), tuple(when), tuple(sources), bool(stale))

    @property
    def key(self) -> bytes:
        """Hash of requests and sentences, 16 bytes."""
        text = json.dumps([self.requests, self.when], ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "replace")).digest()[:16]


def digest(known: Mapping[str, KnownRequests]) -> str:
    """Hash of the example queries of all tools."""
    # Names the form of documents beside them: a saved lexical index of another form is rebuilt.
    whole = hashlib.sha256(b"distinct words twice more")
    for tool_id in sorted(known):
        whole.update(tool_id.encode("utf-8", "replace") + b"\0" + known[tool_id].key)
    return whole.hexdigest()
