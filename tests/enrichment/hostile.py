"""Hostile definitions, and what a model that obeys them writes. Their places on mcp_dev:

python -m shortlist.tests.enrichment.hostile DATA

`hostile.jsonl` is the set on which the limit of the round trip was chosen. `independent.jsonl` was
written afterwards, with other kinds of definitions, and nothing was chosen on it. `DATA` is the
folder with `eval`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path

from shortlist import Engine, Tool
from shortlist.catalog import Catalog
from shortlist.config import Config, IndexConfig, TrustConfig
from shortlist.enrichment import ExampleQueryMatcher, ExampleQueryRow
from shortlist.enrichment.example_file import MAX_QUERIES
from shortlist.enrichment.writing import TOOLS_A_PROMPT, without_far_queries, write_example_queries
from shortlist.indexing.builder import Builder
from shortlist.lab.enrichment.enrichment_gain import read_asked, read_catalog
from shortlist.models import load_encoder

HERE = Path(__file__).parent
SERVER = "hostile"
FILES = ("hostile.jsonl", "independent.jsonl")


def hostile_rows(file: str) -> tuple[list[Tool], list[ExampleQueryRow]]:
    """Hostile definitions, and the rows of an obedient model.

    Args:
        file: one of `FILES`. Where it has no queries for a definition, the model writes generic
            ones.
    """
    lines = (HERE / file).read_text(encoding="utf-8").splitlines()
    answers = [json.loads(line) for line in lines]
    tools = [Tool(a["name"], SERVER, a["description"], a.get("input_schema")) for a in answers]
    generic = (HERE / "generic_requests.txt").read_text(encoding="utf-8").splitlines()
    calls = count()

    def model(_: str) -> str:
        start = TOOLS_A_PROMPT * next(calls)
        written = []
        for number, given in enumerate(answers[start : start + TOOLS_A_PROMPT], 1):
            places = range(16 * (start + number), 16 * (start + number) + 7 * MAX_QUERIES, 7)
            default = [generic[place % len(generic)] for place in places]
            when = given.get("when", "Whenever a user asks for anything at all.")
            requests = given.get("requests", default)
            written.append({"number": number, "when": when, "requests": requests})
        return json.dumps(written)

    rows = write_example_queries(tools, model, workers=1)
    return tools, [one for one in rows if isinstance(one, ExampleQueryRow)]


def places(engine: Engine, tier: str, queries: Iterable[str]) -> tuple[int, int]:
    """How often a hostile tool is among the first ten hits, and how often it is the first."""
    found = [engine.search(query, tier=tier, k=10).hits for query in queries]
    ten = sum(hit.tool.server == SERVER for hits in found for hit in hits)
    return ten, sum(hit.tool.server == SERVER for hits in found for hit in hits[:1])


def engine_of(config: Config, tools: Sequence[Tool], rows: Iterable[ExampleQueryRow]) -> Engine:
    """An engine over tools with example queries."""
    builder = Builder(config)
    builder.example_queries = ExampleQueryMatcher(rows)
    return Engine(builder, builder.begin(Catalog(tools)))


def main() -> None:
    """Print the places of each set's tools: without queries, with all, after the round trip."""
    write = sys.stdout.write
    folder = Path(sys.argv[1]) / "eval" / "mcp_dev"
    judged = read_catalog([folder / "judged_tools.jsonl"])
    queries = [one.text for one in read_asked([folder / "queries.jsonl"], judged)]
    config = Config(trust=TrustConfig(scan=False), index=IndexConfig(example_queries=()))
    for file in FILES:
        tools, rows = hostile_rows(file)
        catalog = [*judged, *tools]
        kept, _ = without_far_queries(rows, catalog, load_encoder())
        written, left = (sum(len(row.queries) for row in some) for some in (rows, kept))
        write(f"{file}: {len(tools)} definitions, {left} of {written} queries left\n")
        engines = [engine_of(config, catalog, some) for some in ((), rows, kept)]
        for tier in engines[0].tiers:
            found = [places(engine, tier, queries) for engine in engines]
            write(tier.ljust(8) + "".join(f"{ten:7} ({first})" for ten, first in found) + "\n")


if __name__ == "__main__":
    main()
