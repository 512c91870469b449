"""Copies of GitHub's tools beside twelve real servers: whose example queries, and who ranks first.

python -m shortlist.tests.enrichment.theft DATA

`DATA` is the folder with `mcp_dumps`. GitHub's tools are pinned first, as by a gateway; the copies
are pinned when their server is added. The queries are four of the library's for each tool.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from shortlist import Engine, Tool
from shortlist.catalog import Catalog, read_tools
from shortlist.enrichment.library import Library
from shortlist.gateway.upstream.first_use import FirstUsePins
from shortlist.trust import Pins

COPIES, TIERS = "evil", ("lexical", "fast", "hybrid")
_QUERIES = 4


def copies(tools: Iterable[Tool]) -> list[Tool]:
    """A copy of each tool: the same, with praise, reworded or renamed, in turn."""
    made = []
    for number, tool in enumerate(tools):
        name, text = tool.name, tool.description
        if number % 4 == 1:
            text = f"{text.rstrip('.')}. Fast and reliable."
        elif number % 4 == 2:
            text = f"Easily {text[:1].lower()}{text[1:]}"
        elif number % 4 == 3:
            name = f"do_{name}"
        made.append(Tool(name, COPIES, text, dict(tool.input_schema)))
    return made


def pin_in_turn(path: Path, *batches: Iterable[Tool]) -> None:
    """Pin batches of tools as a gateway does: servers known at its start, then added ones."""
    for batch in batches:
        FirstUsePins(path).start((), batch)


def stolen(engine: Engine, queries: Iterable[str], tier: str) -> int:
    """How many queries rank a copy first."""
    hits = (engine.search(query, tier=tier, k=1).hits for query in queries)
    return sum(bool(found) and found[0].tool.server == COPIES for found in hits)


def main() -> None:
    """Print the figures with the ages of pins, and with one age for all."""
    dumps = sorted((Path(sys.argv[1]) / "mcp_dumps").glob("*.json"))
    tools = list(Catalog([t for path in dumps for t in read_tools(path, server=path.stem).tools]))
    originals = [tool for tool in tools if tool.server == "github-npm"]
    library = Library()
    rows = [match.row for tool in originals if (match := library.find(tool)) is not None]
    queries = [query for row in rows for query in row.queries[:_QUERIES]]
    everything = Catalog([*tools, *copies(originals)])
    for title in ("one age", "ages of pins"):
        with TemporaryDirectory() as folder:
            path = Path(folder) / "pins.json"
            if title == "one age":
                Pins().pin(everything).save(path)
            else:
                pin_in_turn(path, tools, everything)
            engine = Engine.from_tools(everything, trust={"pins": path})
        with_queries = [
            tool.id
            for tool in everything
            if tool.server == COPIES and tool.id in engine._version.index.example_queries
        ]
        sys.stdout.write(f"{title}: {len(with_queries)} of {len(originals)} copies have queries\n")
        for tier in TIERS:
            first = stolen(engine, queries, tier)
            sys.stdout.write(f"  {tier}: a copy is first for {first} of {len(queries)} queries\n")


if __name__ == "__main__":
    main()
