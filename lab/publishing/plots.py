"""Plots of recorded results, as SVG: quality against time and pool size, time against catalog size.

Each is drawn from the record that `PLOTS` names for it:

- `peers`: `result["rows"]`, one object a method and set: `method`, `set`, `hit@1`, `p50_ms`;
- `xlam`: `result["pools"]`, as `shortlist eval xlam` records it;
- `bench`: `result["latencies"]`, one object a tier and load, as `shortlist lab bench` records it;
- `tool-attention`: `result["arms"]` and `result["sizes"]`, as its own bench records them;
- `gateway`: `result["definitions"]`, tokens that a client reads in each turn;
- `postgres`: `result["searches"]`, as `shortlist lab bench postgres` records it.

Rows without both of their numbers (a method that did not run, a time not measured) are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import EvaluationError, MissingExtraError
from .record import RESULTS, read_record, record_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL = (6.4, 4.4)
"""Inches of one panel: legible at README width."""
_LABEL_POINTS = 9
"""Size of the labels of points, legible where a panel is 700 pixels wide."""
_DARK = {
    "text.color": "#e6e4df",
    "axes.labelcolor": "#e6e4df",
    "axes.edgecolor": "#8f8b83",
    "xtick.color": "#c9c5bc",
    "ytick.color": "#c9c5bc",
    "grid.color": "#6b675f",
    "legend.facecolor": "none",
    "legend.edgecolor": "#6b675f",
}
"""Colours for a dark page, in place of the usual ones."""
_IN_DARK = ("quality-by-time", "postgres-by-size")
"""Plots that are also drawn for a dark page, as `NAME-dark.svg`."""
_Box = tuple[float, float, float, float]
"""Left, bottom, right and top, in pixels."""


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
        raise MissingExtraError("drawing plots", "lab") from error
    there = set(record_names(folder))
    drawn: dict[str, Path | None] = dict.fromkeys(PLOTS)
    for plot, (name, draw) in PLOTS.items():
        if name not in there:
            continue
        result = read_record(name, folder).result
        out.mkdir(parents=True, exist_ok=True)
        for suffix, colours in (("", {}), *((("-dark", _DARK),) if plot in _IN_DARK else ())):
            with rc_context({"svg.hashsalt": plot, **colours}):
                try:
                    figure = draw(result)
                except (KeyError, TypeError, ValueError) as error:
                    raise EvaluationError(
                        f"record {name!r}: cannot be drawn as {plot}: {error!r}"
                    ) from error
                transparent = plot in _IN_DARK
                path = out / f"{plot}{suffix}.svg"
                figure.savefig(path, metadata={"Date": None}, transparent=transparent)
        drawn[plot] = out / f"{plot}.svg"
    return drawn


def quality_by_time(result: Mapping[str, Any]) -> Figure:
    """hit@1 of every method against its median milliseconds, one panel a set."""
    points = [row for row in result["rows"] if row.get("hit@1") is not None and row.get("p50_ms")]
    if not points:
        raise ValueError("no row has both hit@1 and p50_ms")
    sets = list(dict.fromkeys(row["set"] for row in points))
    figure, panels = _panels(sets, below=True)
    for name, axes in zip(sets, panels, strict=True):
        rows = [row for row in points if row["set"] == name]
        for row in rows:
            ours = row["method"].startswith("shortlist")
            axes.scatter(
                row["p50_ms"],
                100 * row["hit@1"],
                marker="o" if ours else "^",
                color="C0" if ours else "0.55",
                zorder=3,
            )
        axes.set_xscale("log")
        axes.margins(x=0.16, y=0.14)
        axes.set(title=name, xlabel="p50, ms", ylabel="hit@1, %")
    for name, axes in zip(sets, panels, strict=True):
        places = {
            row["method"]: (row["p50_ms"], 100 * row["hit@1"])
            for row in points
            if row["set"] == name
        }
        label_points(figure, axes, places)
    return figure


def label_points(
    figure: Figure, axes: Axes, places: Mapping[str, tuple[float, float]]
) -> dict[str, _Box]:
    """Write a label beside each point, so that no label covers another one or a point.

    The nearest free position is taken. A label that is not directly beside its point gets a line
    to it.

    Args:
        figure: the figure of the axes; its layout is computed here.
        axes: with all points and scales set.
        places: label to the position of its point, in the units of the axes.

    Returns:
        Label to its place in pixels.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
    scale = figure.dpi / 72
    points = {label: axes.transData.transform(place) for label, place in places.items()}
    reach = 5 * scale
    taken: list[_Box] = [(x - reach, y - reach, x + reach, y + reach) for x, y in points.values()]
    limits = axes.bbox
    boxes: dict[str, _Box] = {}
    for label, (x, y) in sorted(points.items(), key=lambda item: -item[1][1]):
        text = axes.annotate(
            label, places[label], (0, 0), textcoords="offset points", fontsize=_LABEL_POINTS
        )
        extent = text.get_window_extent(renderer)
        for across, up in _positions(extent.width / scale, extent.height / scale):
            left, bottom = x + across * scale, y + up * scale
            box = (left, bottom, left + extent.width, bottom + extent.height)
            inside = limits.x0 < box[0] and box[2] < limits.x1 and limits.y0 < box[1]
            if inside and box[3] < limits.y1 and not any(_overlap(box, other) for other in taken):
                break
        text.set_position((across, up))
        if abs(up + extent.height / scale / 2) > extent.height / scale * 1.6:
            axes.annotate(
                "",
                places[label],
                (across + (0 if across > 0 else extent.width / scale), up + 4),
                textcoords="offset points",
                arrowprops={"arrowstyle": "-", "color": "0.6", "linewidth": 0.6},
            )
        taken.append(box)
        boxes[label] = box
    return boxes


def _positions(width: float, height: float) -> Iterator[tuple[float, float]]:
    """Positions of a label's corner, as points right of and above its point; nearest first."""
    sides = (7.0, -width - 7)
    for step in range(8):
        for up in (step * height, -step * height) if step else (0.0,):
            for across in sides:
                yield across, up - height / 2 + 1


def _overlap(first: _Box, second: _Box) -> bool:
    return (
        first[0] < second[2]
        and second[0] < first[2]
        and first[1] < second[3]
        and second[1] < first[3]
    )


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


def postgres_by_size(result: Mapping[str, Any]) -> Figure:
    """Milliseconds of a hybrid search against the size of the catalog, in process and stored."""
    percentiles = {"p50": "p50_ms", "p95": "p95_ms"}
    figure, panels = _panels(list(percentiles))
    for (name, key), axes in zip(percentiles.items(), panels, strict=True):
        lines: dict[str, list[tuple[float, float]]] = {}
        for row in sorted(result["searches"], key=lambda row: float(row["tools"])):
            lines.setdefault(f"{row['where']}, {row['among']}", []).append((row["tools"], row[key]))
        _lines(axes, lines)
        axes.set_yscale("log")
        axes.set(title=name, xlabel="tools in the catalog", ylabel="ms beyond the encoder")
    return figure


def _panels(names: Sequence[object], *, below: bool = False) -> tuple[Figure, list[Axes]]:
    """A figure with a panel for each name, side by side, or one below the other."""
    from matplotlib.figure import Figure

    rows, columns = (len(names), 1) if below else (1, len(names))
    figure = Figure(figsize=(_PANEL[0] * columns, _PANEL[1] * rows), layout="constrained")
    panels = [figure.add_subplot(rows, columns, at) for at in range(1, len(names) + 1)]
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
    "postgres-by-size": ("postgres", postgres_by_size),
}
"""Plot -> the record it is drawn from, and how."""
