"""Measures how often a model reads poisoned definitions."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from ...catalog import Catalog, Tool
from .arm import Arm, ShownTools
from .replay import replay
from .tasks import TaskScript
from .transcript import Prices, TextTokens


def poisoned_tools() -> tuple[Tool, ...]:
    """Twelve definitions with hidden instructions, written for this benchmark."""
    text = files(__package__).joinpath("poisoned.json").read_text(encoding="utf-8")
    return tuple(
        Tool(row["name"], row["server"], row["description"], {"type": "object", "properties": {}})
        for row in json.loads(text)
    )


def exposure(
    arm: Arm,
    scripts: Iterable[TaskScript],
    poisoned: Iterable[Tool],
    count: TextTokens,
    prices: Prices,
) -> dict[str, Any]:
    """How often the prompt contains poisoned definitions.

    Args:
        arm: an arm over a catalog with them.
        scripts: the tasks.
        poisoned: the definitions.
        count: token counter.
        prices: the price rule.

    Returns:
        `turns`; `named`, the share of turns in which one is there by name or summary; `offered`,
        in which one can be called; `tools_named` and `tools_offered`, how many of them ever.
    """
    ids = frozenset(tool.id for tool in poisoned)
    named: list[frozenset[str]] = []
    offered: list[frozenset[str]] = []

    def watch(shown: ShownTools) -> None:
        named.append(ids & shown.visible)
        offered.append(ids & shown.offered)

    replay(arm, scripts, count, prices, watch=watch)
    return {
        "turns": len(named),
        "named": sum(map(bool, named)) / len(named),
        "offered": sum(map(bool, offered)) / len(offered),
        "tools": len(ids),
        "tools_named": len(frozenset().union(*named)),
        "tools_offered": len(frozenset().union(*offered)),
    }


def with_poison(catalog: Catalog) -> Catalog:
    """The catalog and the poisoned definitions."""
    return Catalog((*catalog, *poisoned_tools()))
