"""Library defaults and simple retrieval over catalogs of growing size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ... import demo
from ...catalog import Catalog, Tool
from ...catalog.tool_document import embedding_text
from .remembering import RememberingEngine
from .replay import brief, figures
from .settings import DEFAULTS, SUMMARIES
from .sizes import SIZES, answerable, does_the_same_work, padded, shuffled
from .tasks import TaskScript
from .workbench import Shared, Workbench

Step = Callable[[str], None]

CURVE = {
    "library defaults": DEFAULTS,
    "library defaults, abstain = false": DEFAULTS.changed(abstain=False),
    "lines of 1,500 tokens": DEFAULTS.changed(pool_tokens=1_500),
    "lines of 6,000 tokens": DEFAULTS.changed(pool_tokens=6_000),
    "pool of summaries, k = 20": SUMMARIES,
    "pool of summaries, k = 50": SUMMARIES.changed(k=50),
}
"""Settings compared at the largest size, to show why the defaults were chosen."""
RETRIEVED = 30
"""Full schemas of simple retrieval at the largest size: there, ten take a third of the tokens that
ten of the testbed take."""


@dataclass(frozen=True, slots=True)
class SizePlan:
    """The larger catalogs to measure.

    Args:
        others: tools to add to the testbed. When empty, tools are generated.
        others_from: names of the files with these tools.
        sizes: sizes of the catalogs, ascending.
    """

    others: tuple[Tool, ...] = ()
    others_from: tuple[str, ...] = ()
    sizes: tuple[int, ...] = SIZES

    def fillers(self) -> list[tuple[Tool, ...]]:
        """The tools to add, in two versions: without those for the same kind of work, and all."""
        given = shuffled(Catalog(self.others))
        return [tuple(tool for tool in given if not does_the_same_work(tool)), given]

    def texts(self) -> list[str]:
        """Texts of the tools of all catalogs, to encode."""
        catalog, most = demo.load_catalog(), self.sizes[-1]
        tools = (tool for others in self.fillers() for tool in padded(catalog, most, others))
        return list(dict.fromkeys(map(embedding_text, tools)))

    def measure(self, scripts: Sequence[TaskScript], shared: Shared, step: Step) -> dict[str, Any]:
        """Measure every size, and several settings at the largest one.

        Args:
            scripts: the tasks.
            shared: data that the workbenches of a run share.
            step: called with the name of each measurement when it starts.
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
    scripts: Sequence[TaskScript],
    shared: Shared,
    step: Step,
) -> Workbench:
    step(f"catalog of {size}")
    larger = padded(demo.load_catalog(), size, others)
    engine.replace(larger)
    return Workbench(larger, answerable(scripts, larger), shared, engine=engine)


def _row(bench: Workbench, others: int) -> dict[str, Any]:
    arm = bench.two_phase(DEFAULTS)
    shown = "every signature" if set(arm.levels) == {"arguments"} else "counts"
    testbed = demo.load_catalog()
    real = others + sum(tool.id in testbed for tool in bench.catalog)
    return {
        "tools": len(bench.catalog),
        "generated": max(0, len(bench.catalog) - real),
        "same_work": False,
        "shown": shown,
        "pool_tokens": arm.pool_tokens,
        "pool": arm.levels,
        "library defaults": brief(bench.figures(arm)),
        "retrieval, tier embed": brief(bench.figures(bench.retrieval())),
        "full_tokens": figures(bench.outcomes(bench.full(), bench.scripts[:1]))["turns"]["tokens"],
    }


def _curve(bench: Workbench, row: dict[str, Any], step: Step) -> Iterator[dict[str, Any]]:
    """Several settings over one catalog. Those of the defaults are already in its row."""
    step("coverage against tokens")
    for name, settings in CURVE.items():
        if settings is DEFAULTS:
            yield {"name": name} | row["library defaults"]
        else:
            yield {"name": name} | brief(bench.figures(bench.two_phase(settings)))
    retrieval = bench.figures(bench.retrieval(k=RETRIEVED))
    yield {"name": f"simple retrieval, {RETRIEVED} schemas"} | brief(retrieval)
