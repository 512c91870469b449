"""`shortlist lab query-sets`: ranking and abstention on the committed queries, by set and style.

The queries are those of `lab/queries`, for the tools of `mcp_dev` and a memory server, without
example queries. Choices are made on the half `choose`; the half `kept` is reported.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..catalog import Catalog
from ..decision import Decider
from ..decision.calibration import LOST_SHARES, Example, lowest_kept
from ..decision.decider import BUNDLED_FILE, TierModel
from ..decision.measurements import HITS_MEASURED
from ..engine import Engine
from ..evals.report import Table
from ..text import identifiers_as_words
from .publishing.record import Record, provenance, write_record

QUERIES = Path(__file__).parent / "queries"
HALVES = ("choose", "kept")
SETS = (
    *("literal", "served", "nested_arguments", "formats", "rare_word", "no_destruction", "typos"),
    *("memory", "several_tools", "languages", "unserved"),
)
TIERS = ("lexical", "fast", "embed", "hybrid")
_COMMAND_WORDS = range(2, 7)
_COLUMNS = ("set", "style", "tier", "queries", "hit@1", "recall@10", "refused")


@dataclass(frozen=True, slots=True)
class Query:
    """A query with its right tools.

    Args:
        text: the query.
        right_ids: ids of its tools; empty if no tool fits.
        set_name: name of its set.
        style: style or kind within the set; `-` without one.
        needs_all: whether every tool is needed; otherwise any of them is right.
        destructive: id of a destructive tool that must not come first; empty for none.
    """

    text: str
    right_ids: tuple[str, ...]
    set_name: str
    style: str = "-"
    needs_all: bool = False
    destructive: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer of a tier to a query.

    Args:
        hit_at_1: 1 if the first tool is right.
        recall_at_10: share of the right tools among the first ten; 1 for any of them, where one is
            enough.
        refused: whether it abstained.
        destroys: whether the destructive tool came first.
    """

    hit_at_1: float
    recall_at_10: float
    refused: bool
    destroys: bool


def catalog_of(data: Path) -> Catalog:
    """The tools that the queries are for.

    Args:
        data: folder of the evaluation sets.
    """
    return Catalog(
        [
            *Catalog.read(data / "mcp_dev" / "tools.jsonl"),
            *Catalog.read(QUERIES / "definitions" / "memory.jsonl"),
        ]
    )


def queries_of(half: str, sets: Sequence[str] = SETS) -> Iterator[Query]:
    """The committed queries of a half."""
    for name in sets:
        for row in _rows(QUERIES / f"{name}.jsonl"):
            if row["half"] == half:
                yield Query(
                    row["query"],
                    tuple(row["tools"] if "tools" in row else [row["tool"]]),
                    name,
                    row.get("style") or row.get("kind") or row.get("language") or "-",
                    row.get("match") == "all",
                    row.get("destructive", ""),
                )


def commands_for(catalog: Catalog) -> list[Query]:
    """Commands like "create a pull request", one for each name of two to six words."""
    by_words: dict[tuple[str, ...], list[str]] = {}
    for tool in catalog:
        words = identifiers_as_words(tool.name).lower().split()
        if len(words) in _COMMAND_WORDS:
            by_words.setdefault(tuple(words), []).append(tool.id)
    return [
        Query(f"{words[0]} a {' '.join(words[1:])}", tuple(ids), "commands")
        for words, ids in by_words.items()
    ]


def outcomes_of(engine: Engine, tier: str, queries: Sequence[Query]) -> list[Outcome]:
    """The outcome of each query in a tier."""
    view = engine.view()
    outcomes = []
    for query in queries:
        selection = view.search(query.text, tier=tier, k=10)
        is_abstention = view.search(query.text, tier=tier, abstain=True).abstained
        right, found = set(query.right_ids), selection.ids
        share = len(right.intersection(found)) / max(1, len(right))
        outcomes.append(
            Outcome(
                float(bool(right.intersection(found[:1]))),
                share if query.needs_all else float(share > 0),
                is_abstention,
                bool(query.destructive) and query.destructive in found[:1],
            )
        )
    return outcomes


def query_table(queries: Sequence[Query], outcomes: Mapping[str, Sequence[Outcome]]) -> Table:
    """A row for each set, style and tier; styles only where a set has several."""
    groups: dict[tuple[str, str], list[int]] = {}
    for at, query in enumerate(queries):
        groups.setdefault((query.set_name, "all"), []).append(at)
        if query.set_name not in {"languages", "commands"}:
            groups.setdefault((query.set_name, query.style), []).append(at)
    rows = [
        (name, style, tier, len(group), *_figures(queries, outcomes[tier], group))
        for (name, style), group in groups.items()
        if style == "all" or len(group) < len(groups[name, "all"])
        for tier in outcomes
    ]
    return Table(_COLUMNS, tuple(rows))


def _figures(
    queries: Sequence[Query], outcomes: Sequence[Outcome], group: Sequence[int]
) -> tuple[str, str, str]:
    served = [outcomes[at] for at in group if queries[at].right_ids]
    refused = sum(outcomes[at].refused for at in group) / len(group)
    if not served:
        return ("", "", f"{100 * refused:.1f}")
    return (
        f"{100 * sum(outcome.hit_at_1 for outcome in served) / len(served):.1f}",
        f"{100 * sum(outcome.recall_at_10 for outcome in served) / len(served):.1f}",
        f"{100 * refused:.1f}",
    )


def with_limits(decider: Decider, engine: Engine, queries: Sequence[Query]) -> Decider:
    """The models with the limits at which they lose shares of these queries.

    Args:
        decider: the models.
        engine: an engine over the tools of the queries, with these models.
        queries: queries with right tools.
    """
    tiers = {}
    for tier, model in decider.tiers.items():
        examples = [
            Example.of(selection, query.right_ids, odds=decider.vector_odds(selection.vector))
            for query in queries
            if query.right_ids
            for selection in [engine.search(query.text, tier=tier, k=HITS_MEASURED)]
        ]
        probabilities = _probabilities(model, examples)
        limits = {share: lowest_kept(probabilities, share) for share in LOST_SHARES}
        tiers[tier] = replace(model, limits=limits)
    return replace(decider, tiers=tiers)


def _probabilities(model: TierModel, examples: Sequence[Example]) -> NDArray[np.float64]:
    return np.array([model.probability(example.measured) for example in examples])


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    """Measure, print and record; or set the limits of the bundled decision."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the evaluation sets")
    parser.add_argument("--half", choices=HALVES, default="kept")
    parser.add_argument("--title", default="Committed queries")
    parser.add_argument("--record", type=Path, metavar="FILE.json")
    parser.add_argument(
        "--limits", action="store_true", help="set the bundled limits from mcp_dev and `choose`"
    )
    given = parser.parse_args()
    origin = provenance(["shortlist", "lab", "query-sets", *sys.argv[1:]])
    catalog = catalog_of(given.data)
    engine = Engine.from_tools(catalog, index={"example_queries": []})
    if given.limits:
        development = [
            Query(row["query"], tuple(row["relevant"]), "mcp_dev")
            for row in _rows(given.data / "mcp_dev" / "queries.jsonl")
        ]
        queries = [*development, *queries_of("choose")]
        with_limits(Decider.bundled(), engine, queries).save(BUNDLED_FILE)
        return
    queries = [*queries_of(given.half), *commands_for(catalog)]
    outcomes = {tier: outcomes_of(engine, tier, queries) for tier in TIERS}
    table = query_table(queries, outcomes)
    destructive = {
        tier: sum(outcome.destroys for outcome in of_tier) for tier, of_tier in outcomes.items()
    }
    result = {"half": given.half, "tools": len(catalog), "destructive tool first": destructive}
    sys.stderr.write(f"{json.dumps(table.rows)}\n{json.dumps(result)}\n")
    if given.record is not None:
        record = Record(given.record.stem, given.title, table, result, origin)
        write_record(record, given.record.parent)


if __name__ == "__main__":
    main()
