"""The whole benchmark: arms, ablations, sizes, poison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from time import perf_counter, process_time
from typing import Any

from .... import demo
from ....catalog import Catalog
from ....loaders import Summaries
from .arm import Arm
from .growth import Plan, Step
from .overlap import word_overlap
from .poison import exposure, poisoned_tools, with_poison
from .preconditions import testbed_gate
from .replay import brief
from .settings import DEFAULTS, OURS, SEARCHED, WORKING, Settings
from .stock import STOCK_THREADS, stock_absence, stock_spec
from .tasks import KINDS, Script, asked, load_scripts
from .transcript import Prices
from .workbench import Shared, Workbench

__all__ = ["Plan", "measure"]


def measure(plan: Plan, *, step: Step = lambda _: None) -> dict[str, Any]:
    """Run everything; deterministic but for the seconds, on the clock and of all cores together.

    Args:
        plan: what to measure besides the testbed.
        step: is told what is being measured.

    Returns:
        Every figure, JSON-able.
    """
    start, worked, shared = perf_counter(), process_time(), Shared()
    with ThreadPoolExecutor(1, "encoding") as aside:
        # The arms keep one core busy: what the larger catalogs need is encoded beside them.
        encoded = aside.submit(shared.encoders.load().encode, plan.texts())
        found = _measured(plan, shared, encoded, step)
    took = {"seconds": perf_counter() - start, "cpu_seconds": process_time() - worked}
    return found | took


def _measured(plan: Plan, shared: Shared, encoded: Future[Any], step: Step) -> dict[str, Any]:
    step("tasks")
    catalog = demo.load_catalog()
    scripts = load_scripts(catalog)
    bench = Workbench(catalog, scripts, shared)
    fewer = Workbench(catalog, some(scripts), shared, engine=bench.engine)
    found: dict[str, Any] = {
        "tasks": _tasks(scripts, catalog),
        "prices": asdict(Prices()),
        "settings": {
            "two-phase": _settings(OURS),
            "by search": _settings(SEARCHED),
            "working set": _settings(WORKING),
            "library defaults": _settings(DEFAULTS),
        },
        "stock_absent": stock_absence(),
        "arms": {name: _arm(bench, name, arm, step) for name, arm in _arms(bench)},
        "ablations": dict(_ablations(fewer, step)),
        "poison": _poison([one for one in scripts if one.kind == "session"], shared, step),
    }
    step("encoding")
    encoded.result()
    return found | {"sizes": plan.measure(some(scripts), shared, step)}


def some(scripts: Sequence[Script]) -> list[Script]:
    """Every third task that stands alone, and all sessions: for what is measured many times."""
    alone = [script for script in scripts if script.kind != "session"]
    return alone[::3] + [script for script in scripts if script.kind == "session"]


def _tasks(scripts: Sequence[Script], catalog: Catalog) -> dict[str, Any]:
    sessions = [script for script in scripts if script.kind == "session"]
    return {
        "scripts": {kind: sum(one.kind == kind for one in scripts) for kind in KINDS},
        "requests": asked(scripts),
        "turns": sum(len(script.turns) for script in scripts),
        "session_turns": [len(script.turns) for script in sessions],
        "tools_per_multi": sorted({len(s.turns[0].needed) for s in scripts if s.kind == "multi"}),
        "across_servers": sum(
            len({tool_id.partition("/")[0] for tool_id in s.turns[0].needed}) > 1
            for s in scripts
            if s.kind == "multi"
        ),
        "overlap": word_overlap(scripts, catalog, Summaries()),
    }


def _settings(settings: Settings) -> dict[str, Any]:
    return asdict(settings)


def _arms(bench: Workbench) -> Iterator[tuple[str, Arm]]:
    yield "full", bench.full()
    yield "static", bench.static()
    if stock_absence() is None:
        yield "retrieval", bench.stock_retrieval()
    yield "retrieval, our encoder", bench.retrieval()
    yield "discovery", bench.discovery()
    if stock_absence() is None:
        yield "as published", bench.as_published()
    yield "two-phase, by search", bench.two_phase(SEARCHED)
    yield "two-phase", bench.two_phase(OURS)


def _arm(bench: Workbench, name: str, arm: Arm, step: Step) -> dict[str, Any]:
    step(f"arm: {name}")
    return bench.figures(arm)


def _ablations(bench: Workbench, step: Step) -> Iterator[tuple[str, dict[str, Any]]]:
    def row(name: str, settings: Settings) -> tuple[str, Any]:
        step(f"ablation: {name}")
        return name, _variant(bench, settings, bench.scripts)

    yield row("arguments, phase 1 alone", OURS.changed(schema_tokens=0))
    yield row("library defaults", DEFAULTS)
    yield row("by search", SEARCHED)
    yield row("no check", replace(SEARCHED, check=False))
    yield row("phase 1 alone", SEARCHED.changed(schema_tokens=0))
    yield row("phase 2 alone", SEARCHED.changed(pool_tokens=0))
    yield row("all in full", SEARCHED.changed(k=10, schema_tokens=100_000))
    for k in (5, 10):
        yield row(f"k = {k}", SEARCHED.changed(k=k))
    for tier in ("lexical", "embed", "rerank"):
        yield row(f"tier: {tier}", SEARCHED.changed(tier=tier))
    yield row("decider", SEARCHED.changed(abstain=True))
    yield from _preconditions(bench, step)
    if stock_absence() is None:
        step("ablation: stock encoder")
        engine = bench.shared.engine(bench.catalog, encoder=stock_spec(), threads=STOCK_THREADS)
        stock = Workbench(bench.catalog, bench.scripts, bench.shared, engine=engine)
        yield "encoder: stock", _variant(stock, SEARCHED, stock.scripts)
        for theta in (0.15, 0.28, 0.40):
            step(f"ablation: as published, theta {theta}")
            arm = bench.as_published(threshold=theta)
            yield f"as published, theta = {theta:.2f}", brief(bench.figures(arm))
        for k in (5, 20):
            arm = bench.as_published(k=k)
            yield f"as published, k = {k}", brief(bench.figures(arm))


def _variant(bench: Workbench, settings: Settings, scripts: Sequence[Script]) -> dict[str, Any]:
    """Figures of two phases, with what can be called at once or once named."""
    found = brief(bench.figures(bench.two_phase(settings), scripts))
    return found | {"reachable": found["visible" if settings.check else "coverage"]}


def _preconditions(bench: Workbench, step: Step) -> Iterator[tuple[str, dict[str, Any]]]:
    """Sessions with and without rules; how many tools are offered that the account may not call."""
    sessions = [script for script in bench.scripts if script.kind == "session"]
    gated = bench.gated(testbed_gate())
    for name, place, settings in (
        ("sessions, no preconditions", bench, SEARCHED),
        ("sessions, preconditions", gated, replace(SEARCHED, preconditions=True)),
    ):
        step(f"ablation: {name}")
        yield name, _variant(place, settings, sessions)


def _poison(scripts: Sequence[Script], shared: Shared, step: Step) -> dict[str, Any]:
    """Definitions that hide orders, added to the testbed, in the prompts of all sessions."""
    step("poison")
    poisoned = poisoned_tools()
    bench = Workbench(with_poison(demo.load_catalog()), scripts, shared)
    arms = {"full": bench.full(), "retrieval, our encoder": bench.retrieval()}
    if stock_absence() is None:
        arms["as published"] = bench.as_published()
    arms["two-phase, no trust"] = bench.two_phase(OURS)

    def exposed(arm: Arm) -> dict[str, Any]:
        return exposure(arm, bench.scripts, poisoned, shared.count, bench.prices)

    rows = {name: exposed(arm) for name, arm in arms.items()}
    trusted = bench.trusted(OURS)
    rows["two-phase"] = exposed(trusted)
    ids, withheld = {tool.id for tool in poisoned}, set(bench.engine.quarantined)
    return {
        "arms": rows,
        "poisoned": len(ids),
        "held_back": sorted(withheld & ids),
        "missed": sorted(ids - withheld),
        "benign_held_back": sorted(withheld - ids),
    }
