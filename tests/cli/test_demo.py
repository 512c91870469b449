from __future__ import annotations

import pytest

from shortlist import Engine, demo

TIERS = ["lexical", "fast", "embed", "hybrid"]


@pytest.fixture(scope="module")
def shown(run_json):
    return run_json("demo")


def test_every_request_in_every_tier(shown):
    requests = demo.load_requests()
    assert shown["tools"] == 120
    assert len(shown["servers"]) == 6
    assert [one["query"] for one in shown["requests"]] == [one.query for one in requests]
    for one in shown["requests"]:
        assert list(one["tiers"]) == TIERS
        for answer in one["tiers"].values():
            assert answer["ms"] > 0
            assert len(answer["hits"]) <= 10
            for hit in answer["hits"]:
                assert hit["relevant"] == (hit["id"] in one["relevant"])


def test_the_summary_is_that_of_the_requests(shown):
    for tier, summary in shown["tiers"].items():
        answers = [one["tiers"][tier]["hits"] for one in shown["requests"]]
        first = sum(bool(hits) and hits[0]["relevant"] for hits in answers)
        assert summary["first_is_relevant"] == first
        complete = sum(
            {hit["id"] for hit in one["tiers"][tier]["hits"]} >= set(one["relevant"])
            for one in shown["requests"]
        )
        assert summary["all_in_top_10"] == complete
        assert summary["median_ms"] > 0


def test_hybrid_serves_most_requests(shown):
    assert shown["tiers"]["hybrid"]["all_in_top_10"] >= 8


def test_the_tax_falls_by_more_than_four_fifths(shown):
    tax = shown["tax"]
    assert tax["with_shortlist"]["tokens"] < 0.2 * tax["tokens_now"]
    for summary in shown["tiers"].values():
        assert summary["mean_tokens"] < 0.2 * tax["tokens_now"]


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_the_terminal(run, index, monkeypatch, width):
    monkeypatch.setattr(Engine, "from_tools", lambda *_, **__: Engine.open(index))
    monkeypatch.setenv("COLUMNS", str(width))
    lines = run("demo").stdout.splitlines()
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    for request in demo.load_requests():
        assert request.query in text
    assert sum(line.startswith("    hybrid ") for line in lines) == 12
    assert "Tokens of all definitions, every turn" in text
    assert "measured: search tool + what hybrid offered" in text
