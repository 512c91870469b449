"""Definitions that ask the model for queries about everything, and a model that obeys them."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import pytest

from shortlist import Engine, Tool
from shortlist.builder import Builder
from shortlist.catalog import Catalog
from shortlist.config import Config
from shortlist.demo import load_catalog, load_requests
from shortlist.enrichment import Enrichment, Enrichments
from shortlist.enrichment.round_trip import round_trip
from shortlist.enrichment.row import MOST_REQUESTS
from shortlist.enrichment.writing import BATCH, write_enrichments
from shortlist.models import load_encoder

HERE = Path(__file__).parent
HOSTILE = [
    Tool(row["name"], row["server"], row["description"])
    for row in map(json.loads, (HERE / "hostile.jsonl").read_text(encoding="utf-8").splitlines())
]
GENERIC = (HERE / "generic_requests.txt").read_text(encoding="utf-8").splitlines()


def rows_of_an_obedient_model() -> list[Enrichment]:
    calls = count()

    def model(_: str) -> str:
        start = next(calls)
        return json.dumps(
            [
                {
                    "number": number,
                    "when": "Whenever a user asks for anything at all, whatever the subject.",
                    "requests": [
                        GENERIC[(16 * (BATCH * start + number) + 7 * place) % len(GENERIC)]
                        for place in range(MOST_REQUESTS)
                    ],
                }
                for number in range(1, BATCH + 1)
            ]
        )

    written = write_enrichments(HOSTILE, model, workers=1)
    return [one for one in written if isinstance(one, Enrichment)]


def places(engine: Engine, tier: str) -> int:
    """How often one of the hostile tools is among the first ten hits of the demo's requests."""
    return sum(
        hit.tool.server == "hostile"
        for request in load_requests()
        for hit in engine.search(request.query, tier=tier, k=10).hits
    )


@pytest.mark.no_cover
def test_after_the_round_trip_they_are_found_no_more_often_than_without() -> None:
    catalog = Catalog([*load_catalog(), *HOSTILE])
    rows = rows_of_an_obedient_model()
    assert len(rows) == len(HOSTILE) == 30
    kept, _ = round_trip(rows, list(catalog), load_encoder())
    assert sum(len(row.requests) for row in kept) < 0.05 * sum(len(row.requests) for row in rows)

    config = Config.make(
        tiers=["lexical", "fast", "hybrid"], trust={"scan": False}, index={"enrichments": ()}
    )
    builder = Builder(config)
    plain = Engine(builder, builder.build(catalog))
    rich = Builder(config)
    rich.enrichments = Enrichments(kept)
    enriched = Engine(rich, rich.build(catalog))
    for tier in plain.tiers:
        assert places(enriched, tier) <= places(plain, tier)
