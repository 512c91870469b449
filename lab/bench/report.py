"""Converts a bench to JSON and tables, and compares it with the limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...evals.report import Cell, Table
from .bars import Bar
from .budgets import BUDGET_MS, CASES, COLD, OVER_MS
from .comparison import BARE, EMBED, HYBRID, TORCH, CallComparison
from .decision import RULES
from .perturbed import NOISE
from .run import CHANGED, UPDATED_SIZE, Bench
from .timing import Latency
from .updates import EVERY_S, REPLACED

IMPORT_LIMIT_S = 0.15
FIRST_ANSWER_LIMIT_S = 1.0
BUILD_LIMIT = 1.5
MEMORY_LIMIT_MB = 700
MEMORY_TOOLS = 50_000
INSTALL_LIMIT_MB = 250
ADDED_LIMITS_MS = {1_000: 1.0, 50_000: 5.0}
"""Tools to the milliseconds that gate, session and decision may add to a request over them."""
UPDATE_LIMIT_MS = 250
SEARCH_LIMIT = 1.5
"""p95 of searches while a server is replaced again and again, to that of searches alone."""
_NOT_DECIDED = "not a size of this run, or no query that is one request"
_SMALL = 0.01
"""Milliseconds below which a stage is not worth a column of its own."""


def to_json(bench: Bench) -> dict[str, Any]:
    """Every figure, JSON-able."""
    material, plan = bench.material, bench.plan
    return {
        "tools": {
            "given": len(material.given),
            "from": list(material.tools_from) or ["demo catalog"],
            "rejected": material.rejected,
            "synthetic": {str(n): material.synthetic(n) for n in plan.sizes},
            "seed": material.seed,
        },
        "queries": {
            "count": len(material.queries),
            "from": list(material.queries_from) or ["demo requests"],
        },
        "notes": notes(bench),
        "load_average": bench.load,
        "builds": bench.builds,
        "latencies": [found.to_dict() for found in bench.latencies],
        "against_bare": [found.to_dict() for found in bench.bare],
        "against_torch": [found.to_dict() for found in bench.torch],
        "torch_absent": bench.torch_absent,
        "decided": [found.to_dict() for found in bench.decided],
        "start": bench.start,
        "memory": bench.memory,
        "reopened": bench.reopened,
        "budgets": [found.to_dict() for found in bench.budgets],
        "stuffing": [found.to_dict() for found in bench.stuffed],
        "updated": None if bench.updated is None else bench.updated.to_dict(),
        "install": bench.install,
        "bars": [bar.to_dict() for bar in bars(bench)],
    }


def notes(bench: Bench) -> list[str]:
    """Notes for readers of the figures."""
    material, plan = bench.material, bench.plan
    found = []
    if any(map(material.synthetic, plan.sizes)):
        found.append(
            f"catalogs of more than {len(material.given):,} tools are filled up with synthetic "
            "ones: each joins halves of the name, description and parameters of two real tools "
            f"(seed {material.seed})"
        )
    if plan.fast and max(plan.sizes) > plan.compared:
        found.append(
            f"vectors of tools beyond the first {plan.compared:,} are not encoded: each is that of "
            f"another tool with noise of length {NOISE}"
        )
    if material.rejected:
        found.append(f"{material.rejected} definitions in the files are bad and left out")
    cores = _cores_busy(bench.load)
    if cores is not None:
        found.append(cores)
    return found


def _cores_busy(load: list[float]) -> str | None:
    # One process of our own is at work when the run ends.
    before = load[0]
    if before < 1:
        return None
    return f"the machine was not idle: load average {before} before the run; ratios hold better"


def bars(bench: Bench) -> list[Bar]:
    """The limits with the figures of this run."""
    found: list[Bar] = []
    for one in bench.bare:
        at = f"{one.tools:,} tools, {_counted(one.threads)}"
        found += [
            Bar(f"embed to bare session call, {at}", 1.3, "most", one.ratio(EMBED, BARE), "x"),
            Bar(f"hybrid to embed, {at}", 1.6, "most", one.ratio(HYBRID, EMBED), "x"),
            Bar(f"embed p95 to p50, {at}", 3.0, "most", one.spread(EMBED), "x"),
            Bar(f"hybrid p95 to p50, {at}", 3.0, "most", one.spread(HYBRID), "x"),
        ]
    for one in bench.torch:
        name = f"{TORCH} to embed, {one.tools:,} tools, {_counted(one.threads)}"
        found.append(Bar(name, 5.0, "least", one.ratio(TORCH, EMBED), "x"))
    if bench.torch_absent is not None:
        found.append(Bar(f"{TORCH} to embed", 5.0, "least", None, "x", bench.torch_absent))
    for size, limit in ADDED_LIMITS_MS.items():
        measured = [one for one in bench.decided if one.tools == size]
        name = f"gate of {RULES} rules, session and decision add, {size:,} tools"
        found += [
            Bar(f"{name}, {_counted(one.threads)}", limit, "most", one.wall_ms, "ms")
            for one in measured
        ] or [Bar(name, limit, "most", None, "ms", _NOT_DECIDED)]
    found += [
        Bar(
            f"budget {BUDGET_MS:g} ms, {_did(one.case)}, p99",
            BUDGET_MS + OVER_MS,
            "most",
            one.p99_ms,
            "ms",
        )
        for one in bench.budgets
    ]
    found += _update_bars(bench)
    build, start, memory = bench.compared_build, bench.start, bench.memory
    of_largest = memory["tools"] == MEMORY_TOOLS
    return [
        *found,
        Bar(
            "import shortlist, CPU beyond numpy's",
            IMPORT_LIMIT_S,
            "most",
            start["import_beyond_numpy_cpu_s"],
            "s",
        ),
        Bar(
            f"import, open {build['tools']:,} tools, first answer",
            FIRST_ANSWER_LIMIT_S,
            "most",
            start["first_answer"]["total_s"],
            "s",
        ),
        Bar(
            f"index {build['tools']:,} tools, to bare encoder",
            BUILD_LIMIT,
            "most",
            build["seconds"] / build["bare_encoder_s"],
            "x",
        ),
        Bar(
            f"encoded on opening with {CHANGED} tools changed",
            CHANGED,
            "exactly",
            bench.reopened["encoded"],
            "tools",
        ),
        Bar(
            f"memory to index and search {MEMORY_TOOLS:,} tools",
            MEMORY_LIMIT_MB,
            "most",
            memory["peak_mb"] if of_largest else None,
            "MB",
            None if of_largest else f"the largest catalog of this run has {memory['tools']:,}",
        ),
        Bar("core install", INSTALL_LIMIT_MB, "most", bench.install["total_mb"], "MB"),
        Bar("torch in the core install", 0, "exactly", float(bench.install["torch"]), ""),
    ]


def _update_bars(bench: Bench) -> list[Bar]:
    one = bench.updated
    absent = None if one else f"the largest catalog of this run has fewer than {UPDATED_SIZE:,}"
    return [
        Bar(
            f"replacing {REPLACED} of {UPDATED_SIZE:,} tools, p95 beyond encoding",
            UPDATE_LIMIT_MS,
            "most",
            None if one is None else one.update.p95_ms,
            "ms",
            absent,
        ),
        Bar(
            f"search p95 while that happens every {EVERY_S:g} s, to alone",
            SEARCH_LIMIT,
            "most",
            None if one is None else one.meanwhile.p95_ms / one.alone.p95_ms,
            "x",
            absent,
        ),
        Bar(
            "p95 of the searches that overlap such an update, to the others",
            SEARCH_LIMIT,
            "most",
            None if one is None else one.slowdown,
            "x",
            absent or (None if one and one.slowdown else "no search ran between updates"),
        ),
    ]


def bars_table(bench: Bench) -> Table:
    """Bar, limit, measured, verdict."""
    signs = {"most": "≤", "least": "≥", "exactly": "="}
    rows: list[tuple[Cell, ...]] = []
    for bar in bars(bench):
        limit = f"{signs[bar.at]} {bar.limit:g} {bar.unit}".rstrip()
        measured = None if bar.measured is None else f"{_significant(bar.measured)} {bar.unit}"
        rows.append((bar.name, limit, measured and measured.rstrip(), bar.verdict))
    return Table(("bar", "limit", "measured", "verdict"), tuple(rows))


def latency_table(bench: Bench) -> Table:
    """p50 / p95 milliseconds, a row for each size, thread number and caller number."""
    tiers = list(dict.fromkeys(found.tier for found in bench.latencies))
    lines: dict[tuple[int, int, int], dict[str, str]] = {}
    for found in bench.latencies:
        line = lines.setdefault((found.tools, found.threads, found.callers), {})
        text = f"{_significant(found.total.p50_ms)} / {_significant(found.total.p95_ms)}"
        if set(found.ran) != {found.tier}:
            text += f" as {', '.join(found.ran)}"
        line[found.tier] = text
    rows = tuple(
        (f"{tools:,}", threads, callers, *(line.get(tier) for tier in tiers))
        for (tools, threads, callers), line in lines.items()
    )
    return Table(("tools", "threads", "callers", *tiers), rows)


def stage_table(bench: Bench) -> Table:
    """p50 milliseconds of each stage with one caller."""
    alone = [found for found in bench.latencies if found.callers == 1]
    stages = [
        stage
        for stage in dict.fromkeys(stage for found in alone for stage in found.stages)
        if any(f.stages[stage].p50_ms >= _SMALL for f in alone if stage in f.stages)
    ]
    rows = tuple(
        (
            f"{found.tools:,}",
            found.threads,
            found.tier,
            *(
                _significant(found.stages[stage].p50_ms) if stage in found.stages else None
                for stage in stages
            ),
        )
        for found in alone
    )
    return Table(("tools", "threads", "tier", *stages), rows)


def comparison_table(bench: Bench) -> Table:
    """Compared calls: p50, p95 and the ratio to the first."""
    rows: list[tuple[Cell, ...]] = []
    for one, base in [
        *((found, BARE) for found in bench.bare),
        *((found, TORCH) for found in bench.torch),
    ]:
        rows += [_compared(one, name, base) for name in one.latencies]
    return Table(("call", "threads", "p50 ms", "p95 ms", "to"), tuple(rows))


def _compared(one: CallComparison, name: str, base: str) -> tuple[Cell, ...]:
    found = one.latencies[name]
    times = _significant(found.p50_ms), _significant(found.p95_ms)
    return (name, one.threads, *times, f"{one.ratio(name, base):.2f}x {base}")


def decided_table(bench: Bench) -> Table:
    """Time that gate, session and decision add to a search, by the clock and in CPU time."""
    rows: list[tuple[Cell, ...]] = []
    for one in bench.decided:
        times = (_significant(ms) for ms in (one.search_ms, one.wall_ms, one.cpu_ms))
        rows.append((f"{one.tools:,}", f"{one.admitted:,}", one.threads, *times))
    heads = ("tools", "admitted", "threads", "search p50 ms", "added p50 ms", "added CPU ms")
    return Table(heads, tuple(rows))


def budget_table(bench: Bench) -> Table:
    """Answers under a budget: p50, p99 and the tiers that ran."""
    rows: list[tuple[Cell, ...]] = []
    for one in bench.budgets:
        ran = ", ".join(f"{tier} {count}" for tier, count in one.ran.items())
        times = _significant(one.p50_ms), _significant(one.p99_ms)
        rows.append((_did(one.case), f"{one.tools:,}", one.calls, *times, ran))
    return Table(("case", "tools", "calls", "p50 ms", "p99 ms", "ran"), tuple(rows))


def stuffing_table(bench: Bench) -> Table:
    """Share of unrelated requests that stuffed tools reach, per tier."""
    rows: list[tuple[Cell, ...]] = [
        (
            one.tier,
            f"{one.tools:,}",
            one.stuffed,
            one.queries,
            *map(_percent, (one.reached, one.first)),
        )
        for one in bench.stuffed
    ]
    return Table(("tier", "tools", "stuffed", "queries", "top ten", "first"), tuple(rows))


def build_table(bench: Bench) -> Table:
    """Seconds to an index of each size, and its size on disk."""
    rows = tuple(
        (
            f"{built['tools']:,}",
            bench.material.synthetic(built["tools"]),
            built["encoded"],
            built["seconds"],
            built.get("bare_encoder_s"),
            built["disk_mb"],
        )
        for built in sorted(bench.builds, key=lambda built: int(built["tools"]))
    )
    heads = ("tools", "synthetic", "encoded", "seconds", "bare encoder s", "disk MB")
    return Table(heads, rows)


def process_table(bench: Bench) -> Table:
    """Start and memory."""
    first: Mapping[str, float] = bench.start["first_answer"]
    memory = bench.memory
    resident = [(f"resident after {name}, MB", mb) for name, mb in memory["resident_mb"].items()]
    rows: list[tuple[Cell, ...]] = [
        ("import numpy, CPU s", bench.start["import_numpy_cpu_s"]),
        ("import shortlist beyond it, CPU s", bench.start["import_beyond_numpy_cpu_s"]),
        ("import of Engine, s", first["import_s"]),
        (f"open {bench.compared_build['tools']:,} tools, s", first["open_s"]),
        (f"first query ({bench.start['tier']}), s", first["first_query_s"]),
        ("all three, s", first["total_s"]),
        ("all three, CPU s", first["cpu_s"]),
        (f"open with {bench.reopened['changed']} tools changed, s", bench.reopened["seconds"]),
        (f"indexing {memory['tools']:,} tools and searching, peak MB", memory["peak_mb"]),
        *resident,
        *_update_rows(bench),
        ("core install, MB", bench.install["total_mb"]),
    ]
    return Table(("figure", "measured"), tuple(rows))


def _update_rows(bench: Bench) -> list[tuple[Cell, ...]]:
    one = bench.updated
    if one is None:
        return []
    head = f"replace {REPLACED} of {one.tools:,} tools"
    return [
        (f"{head} beyond encoding, p50 ms", one.update.p50_ms),
        (f"{head} beyond encoding, p95 ms", one.update.p95_ms),
        (f"{head}, encoding, p50 ms", one.encoding.p50_ms),
        (f"{head}, first after opening, beyond encoding, ms", round(one.first_ms, 1)),
        ("search alone, p95 ms", one.alone.p95_ms),
        (f"search while that happens every {EVERY_S:g} s, p95 ms", one.meanwhile.p95_ms),
        ("of these, those that overlap an update, p95 ms", _p95(one.overlapping)),
        ("of these, those between updates, p95 ms", _p95(one.apart)),
    ]


def _p95(latency: Latency | None) -> float | None:
    return None if latency is None else latency.p95_ms


def _significant(number: float) -> str:
    return f"{number:.2f}" if number < 10 else f"{number:.1f}" if number < 100 else f"{number:.0f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _did(case: str) -> str:
    return "first answer of a process" if case == COLD else f"reranker {CASES[case]}"


def _counted(threads: int) -> str:
    return f"{threads} thread" if threads == 1 else f"{threads} threads"
