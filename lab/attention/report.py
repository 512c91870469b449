"""The benchmark's tables, made from its figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...evals.report import Cell, Table
from ..publishing.record import Record
from . import published
from .bars import bars
from .tasks import KINDS

_TITLES = {
    "library defaults": "shortlist, library defaults",
    "library defaults, no scan": "shortlist, library defaults, no scan",
    "every signature": "shortlist, a signature of every tool in the prompt",
    "summaries": "shortlist, a summary of every tool in the prompt",
    "as published": "Tool Attention as published, stock MiniLM",
    "retrieval, stock MiniLM": "simple retrieval, 10 schemas, stock MiniLM",
    "retrieval, tier embed": "simple retrieval, 10 schemas, tier embed",
    "static": "static pruning, 30 tools",
    "full": "full schemas",
    "discovery": "discovery on a command line (oracle)",
}
_IN_MAIN = {
    "as published": "two-phase",
    "retrieval, stock MiniLM": "retrieval",
    "static": "static",
    "full": "full",
    "discovery": "discovery",
}
"""Method to its row in the paper. shortlist has none."""
_PUBLISHED_AS = {
    "summaries, no promotion": "no check",
    "summaries, no definitions": "phase 1 alone",
    "summaries, k = 5": "k = 5",
    "summaries, tier lexical": "encoder: words",
    "summaries, sessions only": "no preconditions",
    "as published, theta = 0.15": "theta = 0.15",
    "as published, theta = 0.28": "two-phase",
    "as published, theta = 0.40": "theta = 0.40",
    "as published, k = 5": "k = 5",
    "as published, k = 20": "k = 20",
}
"""Variant to its row in the paper's table of ablations."""


def tables(found: Mapping[str, Any]) -> dict[str, Table]:
    """Title to table, in the order in which they are read."""
    return {
        "Methods": main_table(found),
        "Variants": ablation_table(found),
        "Catalog size": size_table(found),
        "Settings at the largest size": curve_table(found),
        "Poisoned definitions": poison_table(found),
        "Goals": bar_table(found),
    }


def records(found: Mapping[str, Any], name: str, origin: Mapping[str, Any]) -> list[Record]:
    """A record of each table. The first one has every figure, the others name the first.

    Args:
        found: figures that `measure` returned.
        name: name of the first record; the others add a word to it.
        origin: where the figures come from.
    """
    words = ("", "-ablations", "-sizes", "-curve", "-poison", "-bars")
    return [
        Record(f"{name}{word}", title, table, found if not word else {"in": name}, origin)
        for word, (title, table) in zip(words, tables(found).items(), strict=True)
    ]


def notes(found: Mapping[str, Any]) -> list[str]:
    """Warnings that belong to the tables."""
    lines = [
        "published success rates are projections; nothing here was measured with a model",
        "discovery is an oracle: its coverage is assumed, its cost is a lower bound",
    ]
    if found["stock_absent"]:
        lines.append(f"methods with the stock encoder did not run: {found['stock_absent']}")
    if not found["sizes"]["padded_from"]:
        lines.append("larger catalogs are padded with generated tools")
    return lines


def main_table(found: Mapping[str, Any]) -> Table:
    """Every method: the paper's figures and the measured ones."""
    rows = []
    for name, measured in found["arms"].items():
        paper = published.MAIN.get(_IN_MAIN.get(name, ""))
        kinds = measured["kinds"]
        oracle = name == "discovery"
        rows.append(
            (
                _TITLES[name],
                paper and _whole(paper.tokens),
                paper and f"{paper.utilisation:.2f}",
                _whole(measured["turns"]["tokens"]),
                f"{measured['utilisation']:.2f}",
                *(
                    "assumed" if oracle else _percent(kind["coverage"])
                    for kind in (measured, *kinds.values())
                ),
                "assumed" if oracle else _percent(measured["typed"]),
                _whole(measured["long_cached"]),
            )
        )
    return Table(
        (
            "method",
            "published tokens",
            "published utilisation",
            "tokens/turn",
            "utilisation",
            "offered %",
            "single",
            "multi",
            "sessions",
            "typed %",
            "cached tokens/turn",
        ),
        tuple(rows),
    )


def ablation_table(found: Mapping[str, Any]) -> Table:
    """Every variant: the paper's figures and the measured ones."""
    rows = [_variant(name, measured) for name, measured in found["ablations"].items()]
    return Table(
        (
            "variant",
            "published tokens",
            "published success % (projected)",
            "tokens/turn",
            "offered %",
            "typed %",
            "offered or promoted %",
            "tools offered",
            "cached tokens/turn",
        ),
        tuple(rows),
    )


def _variant(name: str, measured: Mapping[str, Any]) -> tuple[Cell, ...]:
    paper = published.ABLATIONS.get(_PUBLISHED_AS.get(name, ""))
    return (
        name,
        paper and _whole(paper.tokens),
        paper and f"{paper.success:.1f}",
        _whole(measured["turns"]["tokens"]),
        _percent(measured["coverage"]),
        _percent(measured["typed"]),
        _percent(measured.get("reachable", measured["coverage"])),
        f"{measured['turns']['tools']:.1f}",
        _whole(measured["long_cached"]),
    )


def size_table(found: Mapping[str, Any]) -> Table:
    """Coverage and tokens of library defaults and of simple retrieval, by size of the catalog."""
    return Table(
        (
            "tools",
            "shown",
            "user messages",
            "prefix tokens",
            "tokens/turn",
            "offered %",
            "single",
            "multi",
            "sessions",
            "typed %",
            "cached tokens/turn",
            "retrieval tokens",
            "retrieval offered %",
            "tokens of full schemas",
        ),
        tuple(
            (
                f"{row['tools']:,}" + (", also tools of the same work" * row["same_work"]),
                row["shown"],
                str(row["library defaults"]["requests"]),
                _whole(row["pool_tokens"]),
                _whole(row["library defaults"]["turns"]["tokens"]),
                *_offered(row["library defaults"]),
                _whole(row["library defaults"]["long_cached"]),
                _whole(row["retrieval, tier embed"]["turns"]["tokens"]),
                _percent(row["retrieval, tier embed"]["coverage"]),
                _whole(row["full_tokens"]),
            )
            for row in found["sizes"]["rows"]
        ),
    )


def curve_table(found: Mapping[str, Any]) -> Table:
    """Several session settings, and simple retrieval, at the largest size."""
    return Table(
        (
            "setting",
            "tokens/turn",
            "offered %",
            "single",
            "multi",
            "sessions",
            "typed %",
            "cached tokens/turn",
            "tools offered",
        ),
        tuple(
            (
                row["name"],
                _whole(row["turns"]["tokens"]),
                *_offered(row),
                _whole(row["long_cached"]),
                f"{row['turns']['tools']:.1f}",
            )
            for row in found["sizes"]["curve"]
        ),
    )


def _offered(measured: Mapping[str, Any]) -> tuple[Cell, ...]:
    """Coverage of all tasks, of each kind, and of typed tools."""
    kinds = (measured["kinds"].get(kind) for kind in KINDS)
    by_kind = (kind and _percent(kind["coverage"]) for kind in kinds)
    return (_percent(measured["coverage"]), *by_kind, _percent(measured["typed"]))


def poison_table(found: Mapping[str, Any]) -> Table:
    """How often a poisoned definition is readable, and how many harmless tools are quarantined."""
    benign = str(len(found["poison"]["benign_quarantined"]))
    return Table(
        (
            "method",
            "turns with one readable, %",
            "turns with one callable, %",
            "callable at least once, of 12",
            "harmless tools quarantined, of 120",
        ),
        tuple(
            (
                _TITLES.get(name, name),
                _percent(row["named"]),
                _percent(row["offered"]),
                str(row["tools_offered"]),
                benign if name == "library defaults" else "0",
            )
            for name, row in found["poison"]["arms"].items()
        ),
    )


def bar_table(found: Mapping[str, Any]) -> Table:
    """The goals, met or not."""
    return Table(
        ("goal", "limit", "measured", "verdict"),
        tuple(
            (bar.what, bar.limit, f"{bar.measured:,.1f}", "met" if bar.passed else "not met")
            for bar in bars(found)
        ),
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _whole(number: float | None) -> str | None:
    return None if number is None else f"{number:,.0f}"
