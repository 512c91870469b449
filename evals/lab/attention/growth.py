"""The two-phase arm and retrieval over catalogs of growing size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .... import demo
from ....catalog import Catalog, Tool
from ....catalog.document import embedding_text
from .remembering import RememberingEngine
from .replay import brief, figures
from .settings import SEARCHED, WORKING
from .sizes import SIZES, answerable, does_the_same_work, padded, shuffled
from .tasks import Script
from .workbench import Shared, Workbench

Step = Callable[[str], None]

CURVE = {
    "by search, k = 20": SEARCHED,
    "by search, k = 50": SEARCHED.changed(k=50),
    "working set of 1,500 tokens": WORKING.changed(pool_tokens=1_500, in_use_tokens=1_000),
    "working set": WORKING,
    "working set, no servers in use": WORKING.changed(in_use_tokens=0),
    "working set of 6,000 tokens": WORKING.changed(pool_tokens=6_000, in_use_tokens=4_000),
}
"""What is measured at the largest size, so that the choice of `WORKING` can be seen."""
RETRIEVED = 30
"""Full schemas of simple retrieval there, where ten take a third of what the testbed's do."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure besides the testbed: catalogs of growing size around it.

    Args:
        others: tools that larger catalogs are padded with; generated ones without.
        others_from: names of the files they came from.
        sizes: of the catalogs, ascending.
    """

    others: tuple[Tool, ...] = ()
    others_from: tuple[str, ...] = ()
    sizes: tuple[int, ...] = SIZES

    def fillers(self) -> list[tuple[Tool, ...]]:
        """What the testbed is padded with: tools of other work, and all."""
        given = shuffled(Catalog(self.others))
        return [tuple(tool for tool in given if not does_the_same_work(tool)), given]

    def texts(self) -> list[str]:
        """What encoders read of the tools of all catalogs."""
        catalog, most = demo.load_catalog(), self.sizes[-1]
        tools = (tool for others in self.fillers() for tool in padded(catalog, most, others))
        return list(dict.fromkeys(map(embedding_text, tools)))

    def measure(self, scripts: Sequence[Script], shared: Shared, step: Step) -> dict[str, Any]:
        """Every size, and several settings at the largest.

        Args:
            scripts: the tasks.
            shared: with the other workbenches of a run.
            step: is told what is being measured.
        """
        apart, given = self.fillers()
        engine = shared.engine(demo.load_catalog())
        rows, curve = [], []
        for size in self.sizes:
            bench = _grown(engine, size, apart, scripts, shared, step)
            rows.append(_row(bench, len(apart)))
        if self.sizes[-1] > len(demo.load_catalog()):
            curve = list(_curve(bench, rows[-1], step))
        if len(apart) < len(given):
            bench = _grown(engine, self.sizes[-1], given, scripts, shared, step)
            rows.append(_row(bench, len(given)) | {"same_work": True})
        return {
            "rows": rows,
            "curve": curve,
            "padded_from": list(self.others_from),
            "apart": len(apart),
            "given": len(given),
        }


def _grown(
    engine: RememberingEngine,
    size: int,
    others: Sequence[Tool],
    scripts: Sequence[Script],
    shared: Shared,
    step: Step,
) -> Workbench:
    step(f"catalog of {size}")
    larger = padded(demo.load_catalog(), size, others)
    engine.update(larger)
    return Workbench(larger, answerable(scripts, larger), shared, engine=engine)


def _row(bench: Workbench, others: int) -> dict[str, Any]:
    arm = bench.two_phase(WORKING)
    # One setting for every size: a pool of arguments where all have room, else a working set.
    name = "arguments" if set(arm.levels) == {"arguments"} else "working set"
    testbed = demo.load_catalog()
    real = others + sum(tool.id in testbed for tool in bench.catalog)
    return {
        "tools": len(bench.catalog),
        "generated": max(0, len(bench.catalog) - real),
        "same_work": False,
        "settings": name,
        "pool_tokens": arm.pool_tokens,
        "pool": arm.levels,
        "two-phase": brief(bench.figures(arm)),
        "retrieval, our encoder": brief(bench.figures(bench.retrieval())),
        "full_tokens": figures(bench.outcomes(bench.full(), bench.scripts[:1]))["turns"]["tokens"],
    }


def _curve(bench: Workbench, row: dict[str, Any], step: Step) -> Iterator[dict[str, Any]]:
    """Several settings over one catalog, of which one is known from its row."""
    step("coverage against tokens")
    for name, settings in CURVE.items():
        anew = settings is not WORKING
        held = brief(bench.figures(bench.two_phase(settings))) if anew else row["two-phase"]
        yield {"name": name} | held
    retrieval = bench.figures(bench.retrieval(k=RETRIEVED))
    yield {"name": f"simple retrieval, {RETRIEVED} schemas"} | brief(retrieval)
