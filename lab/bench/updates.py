"""Measures the replacement of one server's tools, and searches during it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from time import perf_counter
from typing import Any
from unittest.mock import patch

from ...catalog import Catalog, Tool
from ...engine import Engine
from ...errors import EvaluationError
from ...retrieval.store.versions import read
from .decision import RULES, mixed_rules
from .timing import Latency, warm_up

REPLACED = 30
"""Tools of the server that is replaced."""
EVERY_S = 2.0
"""Seconds from one replacement to the next while searches are timed."""
_SERVER = "replaced"
_TIER = "hybrid"
_ROUNDS = 20


@dataclass(frozen=True, slots=True)
class Updates:
    """A server's tools replaced again and again by tools with other descriptions.

    Args:
        tools: in the catalog.
        threads: CPU threads of the encoder.
        first_ms: the first update of an index opened from disk, without the encoding.
        update: later updates without the encoding.
        encoding: the encoding of the server's tools.
        alone: searches while nothing else happens.
        meanwhile: searches while the server is replaced every `EVERY_S` seconds.
        overlapping: those of them during which an update was under way, encoding included.
        apart: the others of them; None if updates left no time for any.
    """

    tools: int
    threads: int
    first_ms: float
    update: Latency
    encoding: Latency
    alone: Latency
    meanwhile: Latency
    overlapping: Latency | None
    apart: Latency | None

    @property
    def slowdown(self) -> float | None:
        """p95 of the searches that overlap an update, to that of those between updates."""
        if self.overlapping is None or self.apart is None:
            return None
        return self.overlapping.p95_ms / self.apart.p95_ms

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "tools": self.tools,
            "replaced": REPLACED,
            "rules": RULES,
            "threads": self.threads,
            "tier": _TIER,
            "every_s": EVERY_S,
            "first_ms": round(self.first_ms, 1),
            "update_beyond_encoding": self.update.to_dict(),
            "encoding": self.encoding.to_dict(),
            "search_alone": self.alone.to_dict(),
            "search_meanwhile": self.meanwhile.to_dict(),
            "search_overlapping": self.overlapping and self.overlapping.to_dict(),
            "search_apart": self.apart and self.apart.to_dict(),
        }


def updates(folder: Path, queries: Sequence[str], *, threads: int) -> Updates:
    """Replace a server of `REPLACED` tools in a saved index, alone and beside searches.

    Args:
        folder: folder of the index.
        queries: texts to search for.
        threads: CPU threads of the encoder.
    """
    gate, _ = mixed_rules(read(folder).catalog)
    engine = Engine.open(folder, threads=threads, gate=gate)
    editions = _editions(engine.catalog)
    search = _Searches(engine, queries)
    warm_up(search, len(queries))
    with _encoding_timed(engine) as encoding:
        first_ms = _replace(engine, next(editions)) - encoding.pop()
        _replace(engine, next(editions))
        encoding.clear()
        times = [_replace(engine, next(editions)) for _ in range(_ROUNDS)]
        spent = list(encoding)
        alone = search.times(len(queries))
        begun, ended, meanwhile = _beside(engine, editions, search)
    spans = list(zip(begun, ended, strict=True))
    times_by_overlap: dict[bool, list[float]] = {True: [], False: []}
    for start, end in meanwhile:
        overlaps = any(start < last and first < end for first, last in spans)
        times_by_overlap[overlaps].append((end - start) * 1e3)
    return Updates(
        tools=len(engine.catalog),
        threads=threads,
        first_ms=first_ms,
        update=Latency.of([ms - part for ms, part in zip(times, spent, strict=True)]),
        encoding=Latency.of(spent),
        alone=Latency.of([(end - start) * 1e3 for start, end in alone]),
        meanwhile=Latency.of([(end - start) * 1e3 for start, end in meanwhile]),
        overlapping=_latency(times_by_overlap[True]),
        apart=_latency(times_by_overlap[False]),
    )


class _Searches:
    """Searches for the queries one after the other."""

    def __init__(self, engine: Engine, queries: Sequence[str]) -> None:
        self._engine, self._queries = engine, queries

    def __call__(self, position: int) -> None:
        self._engine.search(self._queries[position % len(self._queries)], tier=_TIER)

    def times(self, least: int, until: Event | None = None) -> list[tuple[float, float]]:
        """Start and end of each search, at least so many and on until the event."""
        found: list[tuple[float, float]] = []
        while len(found) < least or not (until is None or until.is_set()):
            start = perf_counter()
            self(len(found))
            found.append((start, perf_counter()))
        return found


def _beside(
    engine: Engine, editions: Iterator[list[Tool]], search: _Searches
) -> tuple[list[float], list[float], list[tuple[float, float]]]:
    """Start and end of each update, and of each search beside them."""
    begun: list[float] = []
    ended: list[float] = []
    over = Event()

    def replace() -> None:
        try:
            for _ in range(_ROUNDS):
                begun.append(perf_counter())
                _replace(engine, next(editions))
                ended.append(perf_counter())
                over.wait(max(0.0, EVERY_S - (ended[-1] - begun[-1])))
        finally:
            over.set()

    thread = Thread(target=replace)
    thread.start()
    found = search.times(0, over)
    thread.join()
    return begun, ended, found


def _latency(times: Sequence[float]) -> Latency | None:
    return Latency.of(times) if times else None


def _replace(engine: Engine, tools: Sequence[Tool]) -> float:
    start = perf_counter()
    engine.replace_server(_SERVER, tools)
    return (perf_counter() - start) * 1e3


def _editions(catalog: Catalog) -> Iterator[list[Tool]]:
    """Tools like the first ones of a catalog, with other descriptions each time."""
    like = catalog[:REPLACED]
    number = 0
    while True:
        number += 1
        yield [
            Tool(
                f"{tool.name}_{place}"[:200],
                _SERVER,
                f"Edition {number}. {tool.description}",
                tool.input_schema,
            )
            for place, tool in enumerate(like)
        ]


@contextmanager
def _encoding_timed(engine: Engine) -> Iterator[list[float]]:
    """Milliseconds that each update spends in the encoder, while the block runs."""
    spent: list[float] = []
    encoder = engine.view().admission.index.encoder
    if encoder is None:
        raise EvaluationError("no tier of the engine uses vectors, so no update encodes")
    encode = encoder.encode

    def timed(texts: Sequence[str], *, query: bool = False, **settings: Any) -> Any:
        start = perf_counter()
        try:
            return encode(texts, query=query, **settings)
        finally:
            if not query:
                spent.append((perf_counter() - start) * 1e3)

    with patch.object(encoder, "encode", timed):
        yield spent
