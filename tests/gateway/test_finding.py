"""The search of a client."""

from __future__ import annotations

from pathlib import Path
from time import sleep
from typing import Any

import pytest

from shortlist import Engine, Tool, demo
from shortlist.gateway.meta_tools import search_answer as finding
from shortlist.gateway.meta_tools.search_answer import find_parts, tool_fields
from shortlist.loaders import Level
from shortlist.loaders.summaries import shared_summaries
from shortlist.models.onnx_models import OnnxEncoder
from shortlist.retrieval import Selection
from shortlist.retrieval.search.searcher import Searcher
from shortlist.view import View

ASKED = "open an issue about the login bug"


def search(view: View, query: str, k: int = 3, **instructions: str) -> Selection:
    [part] = find_parts(view, {"query": query, "k": k}, instructions)
    return part.selection


def test_each_text_of_two_steps_is_encoded_and_searched_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = Engine.from_tools(demo.load_catalog()).view()
    encoded: list[str] = []
    searched: list[str] = []
    encode, search_one = OnnxEncoder.encode, Searcher.search

    def counted(self: OnnxEncoder, texts: Any, **options: Any) -> Any:
        encoded.extend(texts)
        return encode(self, texts, **options)

    def noted(self: Searcher, admitted: Any, query: str, **options: Any) -> Any:
        searched.append(query)
        return search_one(self, admitted, query, **options)

    monkeypatch.setattr(OnnxEncoder, "encode", counted)
    monkeypatch.setattr(Searcher, "search", noted)
    steps = (ASKED, "tell the team about it in the chat")
    parts = find_parts(view, {"query": " and then ".join(steps)}, {})
    assert [part.query for part in parts] == list(steps)
    assert encoded == searched == [" and then ".join(steps), *steps]


def test_a_slow_encoder_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    view = Engine.from_tools(demo.load_catalog()).view()
    monkeypatch.setattr(finding, "SEARCH_BUDGET_MS", 60_000.0)
    assert search(view, ASKED).tier == "hybrid"
    encode = OnnxEncoder.encode

    def slow(self: OnnxEncoder, *given: Any, **more: Any) -> Any:
        sleep(0.5)
        return encode(self, *given, **more)

    monkeypatch.setattr(OnnxEncoder, "encode", slow)
    monkeypatch.setattr(finding, "SEARCH_BUDGET_MS", 200.0)
    # How many it takes until the estimate exceeds the limit depends on the first search.
    searches = (search(view, f"{ASKED} {number}") for number in range(20))
    found = next(selection for selection in searches if selection.tier == "fast")
    assert found.ids[0] == "github/create_issue"
    assert "hybrid -> fast" in str(found.tier_reason)


@pytest.mark.parametrize("k", [3, 8])
def test_tools_of_a_server_with_fitting_instructions_never_replace_the_best_hit(k: int) -> None:
    other = [Tool("list_rows", "ledger", "List rows."), Tool("get_row", "ledger", "Get a row.")]
    view = Engine.from_tools([*demo.load_catalog(), *other]).view()
    ids = search(view, f"{ASKED} of the zebra", k, ledger="Use it for zebra accounts.").ids
    assert ids[0] == "github/create_issue"
    assert sum(tool_id.startswith("ledger/") for tool_id in ids) == 2


def test_a_tool_is_described_by_the_users_line(tmp_path: Path) -> None:
    bmi, rank = Tool("bmi", "health", "Quotient of mass."), Tool("rank", "algebra", "The rank.")
    row = '{"tool": "health/bmi", "requests": ["am I fat?"], "summary": "Compute the body mass"}'
    (tmp_path / "rows.jsonl").write_text(row, encoding="utf-8")
    index = {"example_queries": [tmp_path / "rows.jsonl"]}
    view = Engine.from_tools([bmi, rank], tiers=["lexical"], index=index).view()
    summaries = shared_summaries(view.admission.index.summaries)
    assert tool_fields(bmi, Level.SUMMARY, summaries) == {"description": "Compute the body mass"}
    assert tool_fields(bmi, Level.SIGNATURE, summaries) == {
        "signature": "()",
        "description": "Compute the body mass",
    }
    assert tool_fields(rank, Level.SUMMARY, summaries) == {"description": "The rank"}
