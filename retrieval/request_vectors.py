"""Vectors of requests that tools are known to serve, and what they do to the tools' vectors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..catalog import Tool
from ..models import Encoder
from .known_requests import KnownRequests
from .stand_in import StandIn, is_static, static_key

#: What the mean of a tool's requests weighs beside its definition, and the length of the vector of
#: a tool with requests. Requests lie nearer to queries than definitions do: at full length such
#: tools would displace tools without requests. Chosen on mcp_dev (ADR 20).
WEIGHT, LENGTH = 1.3, 0.9


@dataclass(frozen=True, slots=True, eq=False)
class RequestVectors:
    """The mean vector of each tool's requests.

    Args:
        ids: ids of the tools.
        keys: hash of the requests of each; a `static_key` of it where the encoder has not read them
            yet.
        values: mean of the vectors of the requests of each, shape (m, dim).
        model: fingerprint of the encoder.
    """

    ids: tuple[str, ...]
    keys: tuple[bytes, ...]
    values: NDArray[np.float32]
    model: str

    @classmethod
    def of(
        cls,
        encoder: Encoder,
        requests: Mapping[str, KnownRequests],
        known: Self | None = None,
        stand_in: StandIn | None = None,
    ) -> Self:
        """Vectors of requests. They are reused from `known` if requests and encoder are the same.

        Args:
            encoder: encodes new requests.
            requests: tool id to its example queries.
            known: vectors of an earlier version.
            stand_in: returns vectors of new requests, in place of the encoder.
        """
        ids = tuple(sorted(requests))
        keys = tuple(requests[tool_id].key for tool_id in ids)
        values = np.empty((len(ids), encoder.dim), np.float32)
        fits = known is not None and known.model == encoder.fingerprint
        places = {key: place for place, key in enumerate(known.keys)} if known and fits else {}
        fresh: list[int] = []
        for place, (tool_id, key) in enumerate(zip(ids, keys, strict=True)):
            mean = requests[tool_id].mean
            if known is not None and key in places:
                values[place] = known.values[places[key]]
            elif mean is not None and mean.model == encoder.fingerprint:
                values[place] = mean.values
            else:
                fresh.append(place)
        if stand_in is not None:
            waiting = set(fresh)
            keys = tuple(
                static_key(key) if place in waiting else key for place, key in enumerate(keys)
            )
        if fresh:
            texts = [text for place in fresh for text in requests[ids[place]].encoded]
            if stand_in is None:
                made = encoder.encode(texts, query=True)
            else:
                made = stand_in.encoded(texts, query=True)
            ends = np.cumsum([len(requests[ids[place]].encoded) for place in fresh])
            for place, part in zip(fresh, np.split(made, ends[:-1]), strict=True):
                values[place] = part.mean(axis=0)
        return cls(ids, keys, values, encoder.fingerprint)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Vectors of several sets of tools, of one encoder."""
        return cls(
            tuple(one for part in parts for one in part.ids),
            tuple(key for part in parts for key in part.keys),
            np.concatenate([part.values for part in parts]),
            parts[0].model,
        )

    def pending(self) -> list[str]:
        """Ids of the tools whose requests the encoder has not read yet."""
        return [self.ids[place] for place in is_static(self.keys).tolist()]

    def filled(self, made: RequestVectors) -> RequestVectors:
        """These vectors with those of requests that the encoder has read meanwhile.

        Args:
            made: what it made; requests that are no longer those of the tool are passed over.
        """
        keys, values = list(self.keys), self.values.copy()
        fresh = {tool_id: place for place, tool_id in enumerate(made.ids)}
        for place, tool_id in enumerate(self.ids):
            source = fresh.get(tool_id)
            if source is not None and static_key(made.keys[source]) == keys[place]:
                keys[place], values[place] = made.keys[source], made.values[source]
        return replace(self, keys=tuple(keys), values=values)

    def applied(self, tools: Sequence[Tool], values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Vectors of tools, those with requests moved towards them; shape (n, dim).

        v becomes LENGTH * (v + WEIGHT * r) / |v + WEIGHT * r|, r the mean of the requests.

        Args:
            tools: any of the catalog.
            values: their vectors, L2-normalised, shape (n, dim).
        """
        places = {tool_id: place for place, tool_id in enumerate(self.ids)}
        rows = [row for row, tool in enumerate(tools) if tool.id in places]
        if not rows:
            return values
        requests = self.values[[places[tools[row].id] for row in rows]]
        moved = values[rows] + WEIGHT * requests
        lengths = np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-12)
        result = np.array(values, np.float32)
        result[rows] = LENGTH * moved / lengths
        return result

    def save(self, folder: Path) -> None:
        """Write them into an existing folder."""
        np.save(folder / "requests.npy", self.values)
        facts = {"ids": self.ids, "keys": [key.hex() for key in self.keys], "model": self.model}
        (folder / "requests.json").write_text(json.dumps(facts), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote.

        Raises:
            ValueError: its parts do not belong together.
            KeyError, OSError: a part is missing.
        """
        facts = json.loads((folder / "requests.json").read_text(encoding="utf-8"))
        values = np.load(folder / "requests.npy")
        ids, keys = tuple(facts["ids"]), tuple(bytes.fromhex(key) for key in facts["keys"])
        if not len(ids) == len(keys) == len(values):
            raise ValueError("requests: as many ids, keys and vectors are due")
        return cls(ids, keys, values, facts["model"])
