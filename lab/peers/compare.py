"""Compares peers and tiers in the same process, with the same queries: quality and milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TypeVar

from ...catalog import Tool
from ...config import TrustConfig
from ...engine import Engine
from ...errors import EvaluationError, MissingExtraError
from ...evals.dataset import LabelledQuery
from ...evals.report import Cell, Table, rounded
from ...evals.runner import Answer, Method, Summary, measure, summarise, tier_method
from .protocol import Peer
from .registry import NOT_OFFLINE, PUBLISHED, load_peer

T = TypeVar("T")

_RESTRICTED = "ranked the whole catalog, restricted to the pool afterwards"
_DEPTH_BOUND = (
    "has no mask, and its order depends on how many tools are asked for, so that restricting an "
    "answer to a pool would not give its ranking of the pool"
)

DEPTH = 10
"""Ranks every method is asked for: as deep as the metrics look."""


@dataclass(frozen=True, slots=True)
class ComparisonSet:
    """Tools and labelled queries that every method is run on.

    Args:
        name: as the table shows it.
        tools: the whole catalog, ids unique.
        queries: labelled over those ids.
        limit_to_pool: each query is restricted to its own pool. Peers have no mask in their
            interface: they rank the whole catalog and what lies outside the pool is passed over.
            The order within the pool is theirs, BM25 counts its words over the catalog, and no
            time is given. A peer whose order depends on how many tools are asked for does not run.
    """

    name: str
    tools: tuple[Tool, ...]
    queries: tuple[LabelledQuery, ...]
    limit_to_pool: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One method on one set.

    Args:
        method: name of a peer, or ``shortlist TIER``.
        set_name: name of the set.
        tools: how many tools it searched.
        status: ``ran``, ``published`` (figures of its authors, not measured here), ``missing``
            (library not installed), ``offline`` (cannot run without a network), ``no pools``
            (cannot be restricted to a pool) or ``failed``.
        reason: why it did not run, or what its figures leave out; None where there is nothing
            to say.
        index_seconds: building its index, loading its model included, importing its library not.
        summary: its figures; None where it did not run.
    """

    method: str
    set_name: str
    tools: int
    status: str
    reason: str | None = None
    index_seconds: float | None = None
    summary: Summary | None = None

    def to_dict(self) -> dict[str, str | int | float | None]:
        """The row as one flat JSON object, fractions from 0 to 1 and milliseconds."""
        return {
            "method": self.method,
            "set": self.set_name,
            "tools": self.tools,
            "queries": self.summary.queries if self.summary else None,
            **(rounded(self.summary) if self.summary else {}),
            "index_s": None if self.index_seconds is None else round(self.index_seconds, 3),
            "status": self.status,
            "reason": self.reason,
        }


def compare(
    sets: Sequence[ComparisonSet],
    *,
    peers: Sequence[str],
    tiers: Sequence[str],
    build: Callable[[Sequence[Tool]], Engine] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Row]:
    """Run tiers and peers on every set, one method after another, yielding each row as it is done.

    Every method answers the queries one by one, on one thread of calls. A peer that fails costs
    its own row, which says how; a failure of shortlist is raised.

    Args:
        sets: what to run on.
        peers: names out of `PEERS` and `NOT_OFFLINE`.
        tiers: tiers of the engine.
        build: makes the engine the tiers run in, one for each set; one that trusts every
            definition when absent.
        progress: called with 1 after each query.

    Raises:
        ConfigError: a peer is unknown.
        EvaluationError: a set has no tools or no queries.
    """
    for group in sets:
        if not group.tools or not group.queries:
            raise EvaluationError(f"set {group.name!r}: needs at least one tool and one query")
        yield from _tier_rows(group, tiers, build or _trusting, progress)
        for name in peers:
            yield _peer_row(group, name, progress)


def _trusting(tools: Sequence[Tool]) -> Engine:
    return Engine.from_tools(tools, trust=TrustConfig(scan=False), index={"example_queries": ()})


def _tier_rows(
    group: ComparisonSet,
    tiers: Sequence[str],
    build: Callable[[Sequence[Tool]], Engine],
    progress: Callable[[int], None] | None,
) -> Iterator[Row]:
    if not tiers:
        return
    engine, seconds = _timed(lambda: build(group.tools))
    for tier in tiers:
        method = tier_method(engine, tier, k=DEPTH, limit_to_pool=group.limit_to_pool)
        summary = summarise(measure(method, group.queries, progress=progress))
        yield Row(f"shortlist {tier}", group.name, len(group.tools), "ran", None, seconds, summary)


def _peer_row(group: ComparisonSet, name: str, progress: Callable[[int], None] | None) -> Row:
    size = len(group.tools)
    if name in NOT_OFFLINE:
        return Row(name, group.name, size, "offline", NOT_OFFLINE[name])
    try:
        peer = load_peer(name)
    except MissingExtraError as error:
        return Row(name, group.name, size, "missing", str(error))
    if group.limit_to_pool and not peer.depth_free:
        return Row(name, group.name, size, "no pools", _DEPTH_BOUND)
    try:
        _, seconds = _timed(lambda: peer.index(group.tools))
        outcomes = measure(peer_method(peer, group), group.queries, progress=progress)
    except Exception as error:  # noqa: BLE001 - foreign code; its row says what happened
        return Row(name, group.name, size, "failed", f"{type(error).__name__}: {error}")
    summary = summarise(outcomes)
    note = None
    if group.limit_to_pool:
        untimed = dict(summary.values) | {"p50_ms": None, "p95_ms": None}
        summary = Summary(untimed, summary.intervals, summary.queries)
        note = _RESTRICTED
    return Row(name, group.name, size, "ran", note, seconds, summary)


def published_row(group: ComparisonSet) -> Iterator[Row]:
    """The figures that others published on a set, if there are any."""
    if group.name in PUBLISHED:
        method, values, origin = PUBLISHED[group.name]
        summary = Summary(values, {}, len(group.queries))
        yield Row(method, group.name, len(group.tools), "published", origin, None, summary)


def table(rows: Sequence[Row]) -> Table:
    """Rows of one set as a table: quality in per cent, then time; a reason where one did not run.

    Args:
        rows: rows of one set, in the order they are shown.
    """
    metrics = ("hit@1", "hit@3", "recall@5", "recall@10")
    shown: list[tuple[Cell, ...]] = []
    for row in rows:
        values = row.summary.values if row.summary else {}
        shown.append(
            (
                row.method,
                *(_shown(values.get(metric), 100, 1) for metric in metrics),
                _shown(values.get("p50_ms"), 1, 2),
                _shown(values.get("p95_ms"), 1, 2),
                _shown(row.index_seconds, 1, 1),
                row.status if row.reason is None else f"{row.status}: {row.reason}",
            )
        )
    return Table(("method", *metrics, "p50 ms", "p95 ms", "index s", "status"), tuple(shown))


def framework_table(rows: Sequence[Row]) -> Table:
    """A row for each framework and search, with hit@1 and recall@5 in per cent on every set.

    Args:
        rows: rows of every set. A method that did not run has no figures.
    """
    sets = list(dict.fromkeys(row.set_name for row in rows))
    figures = {(row.method, row.set_name): row.summary for row in rows}
    shown: list[tuple[Cell, ...]] = []
    for method in dict.fromkeys(row.method for row in rows):
        cells: list[Cell] = []
        for name in sets:
            summary = figures.get((method, name))
            values = summary.values if summary else {}
            cells += [_shown(values.get(metric), 100, 1) for metric in ("hit@1", "recall@5")]
        shown.append((method, *cells))
    columns = [f"{name} {metric}" for name in sets for metric in ("hit@1", "recall@5")]
    return Table(("search", *columns), tuple(shown))


def _shown(value: float | None, scale: int, digits: int) -> Cell:
    return None if value is None else f"{scale * value:.{digits}f}"


def peer_method(peer: Peer, group: ComparisonSet) -> Method:
    """A peer that has indexed the set's tools, as a method that can be measured."""
    if not group.limit_to_pool:
        return lambda query: Answer(tuple(peer.search(query.text, DEPTH)))

    def within_pool(query: LabelledQuery) -> Answer:
        pool = frozenset(query.pool or ())
        ranked = peer.search(query.text, len(group.tools))
        return Answer(tuple([one for one in ranked if one in pool][:DEPTH]))

    return within_pool


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    start = perf_counter()
    result = work()
    return result, perf_counter() - start
