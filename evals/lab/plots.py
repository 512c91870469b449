"""Plots of recorded results, as SVG: quality against time and pool size, time against catalog size.

Each is drawn from the record that `PLOTS` names for it:

- `peers`: `result["rows"]`, one object a method and set: `method`, `set`, `hit@1`, `p50_ms`;
- `xlam`: `result["pools"]`, as `shortlist eval xlam` records it;
- `bench`: `result["latencies"]`, one object a tier and load, as `shortlist lab bench` records it;
- `tool-attention`: `result["arms"]` and `result["sizes"]`, as its own bench records them;
- `gateway`: `result["definitions"]`, tokens that a client reads in each turn.

Rows without both of their numbers (a method that did not run, a time not measured) are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import EvaluationError, MissingExtraError
from .record import RESULTS, read_record, record_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL = (6.4, 4.4)
"""Inches of one panel: legible at README width."""


def draw_plots(out: Path, folder: Path = RESULTS) -> dict[str, Path | None]:
    """Draw every plot whose record is there.

    Args:
        out: folder the SVG files are written to.
        folder: where the records are.

    Returns:
        Plot -> its file, or None where its record is not there.

    Raises:
        MissingExtraError: matplotlib is not installed.
        EvaluationError: a record does not hold what its plot is drawn from.
    """
    try:
        from matplotlib import rc_context
    except ImportError as error:
        raise MissingExtraError("drawing plots", "plots") from error
    there = set(record_names(folder))
    drawn: dict[str, Path | None] = dict.fromkeys(PLOTS)
    for plot, (name, draw) in PLOTS.items():
        if name not in there:
            continue
        try:
            figure = draw(read_record(name, folder).result)
        except (KeyError, TypeError, ValueError) as error:
            raise EvaluationError(
                f"record {name!r}: cannot be drawn as {plot}: {error!r}"
            ) from error
        out.mkdir(parents=True, exist_ok=True)
        path = out / f"{plot}.svg"
        with rc_context({"svg.hashsalt": plot}):
            figure.savefig(path, metadata={"Date": None})
        drawn[plot] = path
    return drawn


def quality_by_time(result: Mapping[str, Any]) -> Figure:
    """hit@1 of every method against its median milliseconds, one panel a set."""
    points = [row for row in result["rows"] if row.get("hit@1") is not None and row.get("p50_ms")]
    if not points:
        raise ValueError("no row has both hit@1 and p50_ms")
    sets = list(dict.fromkeys(row["set"] for row in points))
    figure, panels = _panels(sets)
    for name, axes in zip(sets, panels, strict=True):
        for row in points:
            if row["set"] != name:
                continue
            ours = row["method"].startswith("shortlist")
            axes.scatter(
                row["p50_ms"],
                100 * row["hit@1"],
                marker="o" if ours else "^",
                color="C0" if ours else "0.5",
            )
            axes.annotate(
                row["method"],
                (row["p50_ms"], 100 * row["hit@1"]),
                textcoords="offset points",
                xytext=(4, 3),
                fontsize=7,
            )
        axes.set_xscale("log")
        axes.margins(x=0.2, y=0.1)
        axes.set(title=name, xlabel="p50, ms", ylabel="hit@1, %")
    return figure


def quality_by_pool(result: Mapping[str, Any]) -> Figure:
    """hit@1 and hit@3 of every tier against the size of the pool."""
    sizes = {
        result["tools"] if pool == "all" else int(pool): held["tiers"]
        for pool, held in result["pools"].items()
        if pool == "all" or pool.isdecimal()
    }
    figure, panels = _panels(["hit@1", "hit@3"])
    for metric, axes in zip(("hit@1", "hit@3"), panels, strict=True):
        lines: dict[str, list[tuple[float, float]]] = {}
        for size, tiers in sorted(sizes.items()):
            for tier, values in tiers.items():
                lines.setdefault(tier, []).append((size, 100 * values[metric]))
        _lines(axes, lines)
        axes.set(title=metric, xlabel="tools in the pool", ylabel=f"{metric}, %")
    return figure


def time_by_size(result: Mapping[str, Any]) -> Figure:
    """Median milliseconds of every tier against the size of the catalog, a panel a thread number.

    One caller at a time.
    """
    alone = [row for row in result["latencies"] if row["callers"] == 1]
    counts = sorted({row["threads"] for row in alone})
    if not counts:
        raise ValueError("no latency with one caller")
    figure, panels = _panels(counts)
    for threads, axes in zip(counts, panels, strict=True):
        lines: dict[str, list[tuple[float, float]]] = {}
        for row in sorted(alone, key=lambda row: float(row["tools"])):
            if row["threads"] == threads:
                lines.setdefault(row["tier"], []).append((row["tools"], row["p50_ms"]))
        _lines(axes, lines)
        axes.set_yscale("log")
        axes.set(title=f"threads: {threads}", xlabel="tools in the catalog", ylabel="p50, ms")
    return figure


def offered_by_tokens(result: Mapping[str, Any]) -> Figure:
    """Share of messages with all needed tools offered, by tokens a turn, with and without cache."""
    arms = {name: arm for name, arm in result["arms"].items() if name != "discovery"}
    costs = {"no cache": "long_tokens", "with a prompt cache": "long_cached"}
    figure, panels = _panels(list(costs))
    for (cost, key), axes in zip(costs.items(), panels, strict=True):
        for name, arm in arms.items():
            ours = name in ("library defaults", "every signature", "summaries")
            at = arm[key], 100 * arm["coverage"]
            axes.scatter(*at, marker="o" if ours else "^", color="C0" if ours else "0.5")
            axes.annotate(name, at, textcoords="offset points", xytext=(4, 3), fontsize=7)
        axes.set_xscale("log")
        axes.tick_params(axis="x", which="minor", labelbottom=False)
        axes.margins(x=0.25, y=0.1)
        axes.set(title=cost, xlabel="tool tokens per turn", ylabel="every needed tool offered, %")
    return figure


def offered_by_size(result: Mapping[str, Any]) -> Figure:
    """Share of messages with every needed tool offered, and prefix tokens, by catalog size."""
    rows = [row for row in result["sizes"]["rows"] if not row["same_work"]]
    figure, (offered, pool) = _panels(["tools offered", "stable part of the prompt"])
    lines = {
        name: [(row["tools"], 100 * row[name]["coverage"]) for row in rows]
        for name in ("library defaults", "retrieval, tier embed")
    }
    _lines(offered, lines)
    offered.set(xlabel="tools in the catalog", ylabel="every needed tool offered, %")
    _lines(pool, {"library defaults": [(row["tools"], row["pool_tokens"]) for row in rows]})
    pool.set(xlabel="tools in the catalog", ylabel="tokens", ylim=(0, None))
    return figure


def tokens_per_turn(result: Mapping[str, Any]) -> Figure:
    """Tokens of definitions in each turn, with all servers connected and with the gateway."""
    found = result["definitions"]
    figure, (axes,) = _panels(["tokens"])
    figure.set_size_inches(_PANEL[0] * 1.4, _PANEL[1] * 0.55)
    directly = f"{found['servers']} MCP servers,\n{found['tools']} tools"
    names = [directly, "the same behind\nshortlist"]
    tokens = [found["tokens_behind"], found["tokens_shown"]]
    bars = axes.barh(names, tokens, color=["#b9822f", "#4a7ab0"])
    axes.bar_label(bars, [f"{one:,}" for one in tokens], padding=4)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set(xlabel="tokens of tool definitions in every turn")
    return figure


def _panels(names: Sequence[object]) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_PANEL[0] * len(names), _PANEL[1]), layout="constrained")
    panels = [figure.add_subplot(1, len(names), at) for at in range(1, len(names) + 1)]
    for axes in panels:
        axes.grid(alpha=0.3)
    return figure, panels


def _lines(axes: Axes, lines: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    for name, points in lines.items():
        across, up = zip(*points, strict=True)
        axes.plot(across, up, marker="o", label=name)
    axes.set_xscale("log")
    if lines:
        axes.legend()


PLOTS: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], Figure]]] = {
    "quality-by-time": ("peers", quality_by_time),
    "quality-by-pool": ("xlam", quality_by_pool),
    "time-by-size": ("bench", time_by_size),
    "offered-by-tokens": ("tool-attention", offered_by_tokens),
    "offered-by-size": ("tool-attention", offered_by_size),
    "tokens-per-turn": ("gateway", tokens_per_turn),
}
"""Plot -> the record it is drawn from, and how."""
