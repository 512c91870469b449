"""The benchmark's tables, each made from the figures alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...table import Cell, Table
from ..record import Record
from . import published
from .bars import bars
from .tasks import KINDS

_TITLES = {
    "full": "full schemas",
    "static": "static pruning, 30 tools",
    "retrieval": "simple retrieval, 10 schemas, stock MiniLM",
    "retrieval, our encoder": "simple retrieval, 10 schemas, tier embed",
    "discovery": "discovery on a command line (oracle)",
    "as published": "Tool Attention as published, stock MiniLM",
    "two-phase, by search": "two-phase, pool of summaries",
    "two-phase": "two-phase, pool of arguments",
}
_IN_MAIN = {"as published": "two-phase", "two-phase": "-"}
"""Arm to its row in the paper: ours has none, the paper's own is the one measured as published."""
_PUBLISHED_AS = {
    "no check": "no check",
    "phase 1 alone": "phase 1 alone",
    "k = 5": "k = 5",
    "k = 20": "k = 20",
    "tier: lexical": "encoder: words",
    "sessions, no preconditions": "no preconditions",
    "as published, theta = 0.15": "theta = 0.15",
    "as published, theta = 0.28": "two-phase",
    "as published, theta = 0.40": "theta = 0.40",
    "as published, k = 5": "k = 5",
    "as published, k = 20": "k = 20",
}


def tables(found: Mapping[str, Any]) -> dict[str, Table]:
    """Title to table, in the order in which they are read."""
    return {
        "Tool Attention: published beside measured": main_table(found),
        "Ablations": ablation_table(found),
        "Catalog size": size_table(found),
        "Coverage against tokens, largest catalog": curve_table(found),
        "Poisoned definitions": poison_table(found),
        "Bars": bar_table(found),
    }


def records(found: Mapping[str, Any], name: str, origin: Mapping[str, Any]) -> list[Record]:
    """A record of each table; the first holds every figure, the others name it.

    Args:
        found: what `measure` gave.
        name: of the first record; the others add a word.
        origin: where the figures come from.
    """
    words = ("", "-ablations", "-sizes", "-curve", "-poison", "-bars")
    return [
        Record(f"{name}{word}", title, table, found if not word else {"in": name}, origin)
        for word, (title, table) in zip(words, tables(found).items(), strict=True)
    ]


def notes(found: Mapping[str, Any]) -> list[str]:
    """What has to be known to read the tables."""
    lines = [
        "published success rates are projections; nothing here was measured with a model",
        "discovery is an oracle's: what it finds is assumed, its cost is a floor",
    ]
    if found["stock_absent"]:
        lines.append(f"arms on the stock encoder did not run: {found['stock_absent']}")
    if not found["sizes"]["padded_from"]:
        lines.append("larger catalogs are padded with generated tools")
    return lines


def main_table(found: Mapping[str, Any]) -> Table:
    """Every arm: published beside measured."""
    rows = []
    for name, held in found["arms"].items():
        told = published.MAIN.get(_IN_MAIN.get(name, name))
        kinds = held["kinds"]
        oracle = name == "discovery"
        rows.append(
            (
                _TITLES[name],
                told and _whole(told.tokens),
                told and f"{told.utilisation:.2f}",
                _whole(held["turns"]["tokens"]),
                f"{held['utilisation']:.2f}",
                *(
                    "assumed" if oracle else _percent(kind["coverage"])
                    for kind in (held, *kinds.values())
                ),
                "assumed" if oracle else _percent(held["typed"]),
                _whole(held["long_tokens"]),
                _whole(held["long_cached"]),
                _whole(held["long_uncached"]),
                _whole(kinds["session"]["changed_bytes"]),
            )
        )
    return Table(
        (
            "arm",
            "published tokens",
            "published utilisation",
            "tokens/turn",
            "utilisation T30",
            "offered %",
            "single",
            "multi",
            "sessions",
            "typed %",
            "30 turns: tokens",
            "cached",
            "uncached",
            "bytes changed",
        ),
        tuple(rows),
    )


def ablation_table(found: Mapping[str, Any]) -> Table:
    """Every variant: published beside measured."""
    rows = [_ablation(name, held) for name, held in found["ablations"].items()]
    return Table(
        (
            "variant",
            "published tokens",
            "published success % (projected)",
            "tokens/turn",
            "offered %",
            "typed %",
            "or promoted on call %",
            "tools offered",
            "30 turns, cached",
        ),
        tuple(rows),
    )


def _ablation(name: str, held: Mapping[str, Any]) -> tuple[Cell, ...]:
    told = published.ABLATIONS.get(_PUBLISHED_AS.get(name, name))
    return (
        name,
        told and _whole(told.tokens),
        told and f"{told.success:.1f}",
        _whole(held["turns"]["tokens"]),
        _percent(held["coverage"]),
        _percent(held["typed"]),
        _percent(held.get("reachable", held["coverage"])),
        f"{held['turns']['tools']:.1f}",
        _whole(held["long_cached"]),
    )


def size_table(found: Mapping[str, Any]) -> Table:
    """Coverage, tokens and pool against the size of the catalog."""
    return Table(
        (
            "tools",
            "shown",
            "requests",
            "pool tokens",
            "tokens/turn",
            "offered %",
            "single",
            "multi",
            "sessions",
            "typed %",
            "30 turns, cached",
            "retrieval tokens",
            "retrieval offered %",
            "full schemas",
        ),
        tuple(
            (
                f"{row['tools']:,}" + (", others of the same work too" * row["same_work"]),
                row["settings"],
                str(row["two-phase"]["requests"]),
                _whole(row["pool_tokens"]),
                _whole(row["two-phase"]["turns"]["tokens"]),
                *_offered(row["two-phase"]),
                _whole(row["two-phase"]["long_cached"]),
                _whole(row["retrieval, our encoder"]["turns"]["tokens"]),
                _percent(row["retrieval, our encoder"]["coverage"]),
                _whole(row["full_tokens"]),
            )
            for row in found["sizes"]["rows"]
        ),
    )


def curve_table(found: Mapping[str, Any]) -> Table:
    """Several settings of the two-phase arm, and retrieval, at the largest size."""
    return Table(
        (
            "setting",
            "tokens/turn",
            "offered %",
            "single",
            "multi",
            "sessions",
            "typed %",
            "30 turns, cached",
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


def _offered(held: Mapping[str, Any]) -> tuple[Cell, ...]:
    """Coverage in all and by kind of task, and of types."""
    kinds = (held["kinds"].get(kind) for kind in KINDS)
    by_kind = (kind and _percent(kind["coverage"]) for kind in kinds)
    return (_percent(held["coverage"]), *by_kind, _percent(held["typed"]))


def poison_table(found: Mapping[str, Any]) -> Table:
    """In how many turns a poisoned definition can be read, and what else is held back."""
    benign = str(len(found["poison"]["benign_held_back"]))
    return Table(
        (
            "arm",
            "named, % of turns",
            "offered, % of turns",
            "ever offered, of 12",
            "held back of the testbed's 120",
        ),
        tuple(
            (
                _TITLES.get(name, name),
                _percent(row["named"]),
                _percent(row["offered"]),
                str(row["tools_offered"]),
                benign if name == "two-phase" else "0",
            )
            for name, row in found["poison"]["arms"].items()
        ),
    )


def bar_table(found: Mapping[str, Any]) -> Table:
    """The bars."""
    return Table(
        ("bar", "limit", "measured", "verdict"),
        tuple(
            (bar.what, bar.limit, f"{bar.measured:,.1f}", "pass" if bar.passed else "short")
            for bar in bars(found)
        ),
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _whole(number: float | None) -> str | None:
    return None if number is None else f"{number:,.0f}"
