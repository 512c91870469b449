"""`shortlist lab learning-gain`: what example queries from usage change on held-out queries."""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...catalog import Tool
from ...engine import Engine
from ...evals.learning import learn
from ...evals.report import Table
from ...retrieval.usage import UsageEvent
from ..publishing.record import Record, provenance, write_record
from .enrichment_gain import Asked, read_asked, read_catalog

_COLUMNS = (
    *("set", "queries for", "queries", "hit@1 before", "hit@1 after", "recall@10 before"),
    *("recall@10 after", "accepted"),
)
_TOOLS_OF_CATALOG, _TOOLS_WITH_EVENTS, _FEW_TOOLS_WITH_EVENTS = 1_200, 400, 120
_LINES = ("north", "south", "east", "west")
_STEPS = ("zorp", "quax", "fleem", "drindle", "vash", "mip", "tragul", "oskin")


@dataclass(frozen=True, slots=True)
class MeasuredSet:
    """A catalog with events.

    Args:
        name: as the table shows it.
        tools: the catalog.
        asked: queries and the tools that are right for them.
        encoder: of the engine.
    """

    name: str
    tools: Sequence[Tool]
    asked: Sequence[Asked]
    encoder: str


def measured_sets(data: Path, stock: str) -> Iterator[MeasuredSet]:
    """The sets of ADR 28.

    Args:
        data: folder with train and eval.
        stock: folder of the stock encoder. The bundled one was trained on the training sets.
    """
    mcp = data / "train" / "mcp"
    tools = read_catalog([mcp / "tools.jsonl"])
    asked = read_asked([mcp / "queries.jsonl"], tools)
    drawn_ids = sorted(tool.id for tool in tools)
    random.Random(0).shuffle(drawn_ids)
    drawn_ids = drawn_ids[:_TOOLS_OF_CATALOG]
    drawn = set(drawn_ids)
    asked_alone = {query.relevant[0] for query in asked if len(query.relevant) == 1}
    ids_with_events = [tool_id for tool_id in drawn_ids if tool_id in asked_alone]
    for count in (_TOOLS_WITH_EVENTS, _FEW_TOOLS_WITH_EVENTS):
        with_events = set(ids_with_events[:count])
        yield MeasuredSet(
            f"mcp, {count} of {len(drawn):,} tools with events, stock encoder",
            [tool for tool in tools if tool.id in drawn],
            [query for query in asked if with_events.issuperset(query.relevant)],
            stock,
        )
    development = data / "eval" / "mcp_dev"
    for name, file in (("judged tools", "judged_tools.jsonl"), ("all tools", "tools.jsonl")):
        catalog = read_catalog([development / file])
        queries = read_asked([development / "queries.jsonl"], catalog)
        yield MeasuredSet(f"mcp_dev, {name}", catalog, queries, "bundled")
        if name == "judged tools":
            yield MeasuredSet(f"mcp_dev, {name}, stock encoder", catalog, queries, stock)
    yield MeasuredSet(
        "a jargon",
        [
            Tool(f"process_{line}_{step}", None, f"Runs step {step} of line {line}.")
            for line in _LINES
            for step in range(len(_STEPS))
        ],
        [
            Asked(f"{word} the {line} {ending}", (f"process_{line}_{step}",))
            for line in _LINES
            for step, word in enumerate(_STEPS)
            for ending in ("now", "please", "again", "for me")
        ],
        "bundled",
    )


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with train and eval")
    parser.add_argument("--stock", required=True, help="folder of `shortlist lab export-stock`")
    parser.add_argument("--record", type=Path, required=True, metavar="FILE.json")
    given = parser.parse_args()
    origin = provenance(["shortlist", "lab", "learning-gain", *sys.argv[1:]])
    rows, result = [], {}
    for measured in measured_sets(given.data, given.stock):
        engine = Engine.from_tools(
            measured.tools,
            encoder=measured.encoder,
            index={"example_queries": ()},
            trust={"scan": False},
        )
        report = learn(engine, [UsageEvent(one.text, one.relevant) for one in measured.asked])
        result[measured.name] = report.to_dict() | {"catalog": len(measured.tools)}
        for kind, held_out in (
            ("tools with events", report.seen),
            ("tools without", report.unseen),
        ):
            shares = zip(held_out.before, held_out.after, strict=True)
            cells = [f"{100 * share:.1f}" for pair in shares for share in pair]
            accepted = "yes" if report.accepted else "no"
            rows.append((measured.name, kind, f"{held_out.events:,}", *cells, accepted))
        sys.stderr.write(f"{json.dumps(rows[-2:])}\n")
    table = Table(_COLUMNS, tuple(rows))
    path = write_record(
        Record(given.record.stem, "Example queries from usage", table, result, origin),
        given.record.parent,
    )
    sys.stderr.write(f"{path}: written\n")


if __name__ == "__main__":
    main()
