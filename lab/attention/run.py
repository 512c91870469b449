"""The whole benchmark: methods, variants, catalog sizes, poisoned definitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from time import perf_counter, process_time
from typing import Any

from ... import demo
from ...catalog import Catalog
from ...loaders.summaries import Summaries
from .arm import Arm
from .growth import SizePlan, Step
from .overlap import word_overlap
from .poison import exposure, poisoned_tools, with_poison
from .preconditions import testbed_gate
from .replay import brief
from .settings import DEFAULTS, EVERY_SIGNATURE, SUMMARIES, Settings
from .stock import STOCK_THREADS, stock_absence, stock_spec
from .tasks import KINDS, TaskScript, asked, load_scripts
from .transcript import Prices
from .workbench import Shared, Workbench

__all__ = ["SizePlan", "measure"]


def measure(plan: SizePlan, *, step: Step = lambda _: None) -> dict[str, Any]:
    """Run everything. All figures but the seconds are the same in each run.

    Args:
        plan: what to measure besides the testbed.
        step: called with the name of each measurement when it starts.

    Returns:
        Every figure, JSON-able.
    """
    start, worked, shared = perf_counter(), process_time(), Shared()
    with ThreadPoolExecutor(1, "encoding") as aside:
        # The methods use one core. In parallel, the other one encodes the tools of the larger
        # catalogs.
        encoded = aside.submit(shared.encoders.load().encode, plan.texts())
        found = _measured(plan, shared, encoded, step)
    took = {"seconds": perf_counter() - start, "cpu_seconds": process_time() - worked}
    return found | took


def _measured(plan: SizePlan, shared: Shared, encoded: Future[Any], step: Step) -> dict[str, Any]:
    step("tasks")
    catalog = demo.load_catalog()
    scripts = load_scripts(catalog)
    bench = Workbench(catalog, scripts, shared)
    fewer = Workbench(catalog, some(scripts), shared, engine=bench.engine)
    found: dict[str, Any] = {
        "tasks": _tasks(scripts, catalog),
        "prices": asdict(Prices()),
        "settings": {
            "library defaults": _settings(DEFAULTS),
            "every signature": _settings(EVERY_SIGNATURE),
            "summaries": _settings(SUMMARIES),
        },
        "stock_absent": stock_absence(),
        "arms": {name: _arm(bench, name, arm, step) for name, arm in _arms(bench)},
        "ablations": dict(_ablations(fewer, step)),
        "poison": _poison([one for one in scripts if one.kind == "session"], shared, step),
    }
    step("encoding")
    encoded.result()
    return found | {"sizes": plan.measure(some(scripts), shared, step)}


def some(scripts: Sequence[TaskScript]) -> list[TaskScript]:
    """Every third single and multi task, and all sessions, for the ablations."""
    alone = [script for script in scripts if script.kind != "session"]
    return alone[::3] + [script for script in scripts if script.kind == "session"]


def _tasks(scripts: Sequence[TaskScript], catalog: Catalog) -> dict[str, Any]:
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
    yield "library defaults", bench.two_phase(DEFAULTS)
    yield "every signature", bench.two_phase(EVERY_SIGNATURE)
    yield "summaries", bench.two_phase(SUMMARIES)
    if stock_absence() is None:
        yield "as published", bench.as_published()
        yield "retrieval, stock MiniLM", bench.stock_retrieval()
    yield "retrieval, tier embed", bench.retrieval()
    yield "static", bench.static()
    yield "full", bench.full()
    yield "discovery", bench.discovery()


def _arm(bench: Workbench, name: str, arm: Arm, step: Step) -> dict[str, Any]:
    step(f"method: {name}")
    return bench.figures(arm)


def _ablations(bench: Workbench, step: Step) -> Iterator[tuple[str, dict[str, Any]]]:
    def row(name: str, settings: Settings) -> tuple[str, Any]:
        step(f"variant: {name}")
        return name, _variant(bench, settings, bench.scripts)

    yield row("library defaults", DEFAULTS)
    yield row("library defaults, no definitions", DEFAULTS.changed(turn_tokens=0))
    yield row("summaries", SUMMARIES)
    yield row("summaries, no promotion", replace(SUMMARIES, promote=False))
    yield row("summaries, no definitions", SUMMARIES.changed(list_tokens=0))
    yield row("summaries, no pool", SUMMARIES.changed(pool_tokens=0))
    yield row("summaries, 10 full schemas", SUMMARIES.changed(k=10, list_tokens=100_000))
    for k in (5, 10):
        yield row(f"summaries, k = {k}", SUMMARIES.changed(k=k))
    for tier in ("lexical", "embed"):
        yield row(f"summaries, tier {tier}", SUMMARIES.changed(tier=tier))
    yield row("summaries, abstain = true", SUMMARIES.changed(abstain=True))
    yield from _preconditions(bench, step)
    if stock_absence() is None:
        step("variant: stock encoder")
        engine = bench.shared.engine(bench.catalog, encoder=stock_spec(), threads=STOCK_THREADS)
        stock = Workbench(bench.catalog, bench.scripts, bench.shared, engine=engine)
        yield "summaries, stock MiniLM", _variant(stock, SUMMARIES, stock.scripts)
        for theta in (0.15, 0.28, 0.40):
            step(f"variant: as published, theta {theta}")
            arm = bench.as_published(threshold=theta)
            yield f"as published, theta = {theta:.2f}", brief(bench.figures(arm))
        for k in (5, 20):
            arm = bench.as_published(k=k)
            yield f"as published, k = {k}", brief(bench.figures(arm))


def _variant(bench: Workbench, settings: Settings, scripts: Sequence[TaskScript]) -> dict[str, Any]:
    """Figures of one variant. `reachable`: tools offered, or promoted by their first call."""
    found = brief(bench.figures(bench.two_phase(settings), scripts))
    return found | {"reachable": found["visible" if settings.promote else "coverage"]}


def _preconditions(bench: Workbench, step: Step) -> Iterator[tuple[str, dict[str, Any]]]:
    """The sessions without and with permission rules."""
    sessions = [script for script in bench.scripts if script.kind == "session"]
    gated = bench.gated(testbed_gate())
    for name, place, settings in (
        ("summaries, sessions only", bench, SUMMARIES),
        ("summaries, sessions with preconditions", gated, replace(SUMMARIES, preconditions=True)),
    ):
        step(f"variant: {name}")
        yield name, _variant(place, settings, sessions)


def _poison(scripts: Sequence[TaskScript], shared: Shared, step: Step) -> dict[str, Any]:
    """How often the sessions show a poisoned definition, by method."""
    step("poison")
    poisoned = poisoned_tools()
    bench = Workbench(with_poison(demo.load_catalog()), scripts, shared)
    arms: dict[str, Arm] = {"library defaults, no scan": bench.two_phase(DEFAULTS)}
    if stock_absence() is None:
        arms["as published"] = bench.as_published()
    arms |= {"retrieval, tier embed": bench.retrieval(), "full": bench.full()}

    def exposed(arm: Arm) -> dict[str, Any]:
        return exposure(arm, bench.scripts, poisoned, shared.count, bench.prices)

    others = {name: exposed(arm) for name, arm in arms.items()}
    # Last: from here on, the engine quarantines what the scan finds.
    rows = {"library defaults": exposed(bench.trusted(DEFAULTS))} | others
    ids, quarantined = {tool.id for tool in poisoned}, set(bench.engine.quarantined)
    return {
        "arms": rows,
        "poisoned": len(ids),
        "quarantined": sorted(quarantined & ids),
        "missed": sorted(ids - quarantined),
        "benign_quarantined": sorted(quarantined - ids),
    }
