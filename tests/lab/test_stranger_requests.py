"""Forty requests over ten servers on which nothing was chosen: `lab/queries/stranger_servers`."""

from __future__ import annotations

import json
import sys

import pytest

from shortlist import Catalog, Engine
from shortlist.lab.query_sets import QUERIES


@pytest.mark.long
@pytest.mark.parametrize("rows", [None, []], ids=["with the package's rows", "without"])
def test_the_right_tool_is_in_the_first_five(rows: list[str] | None) -> None:
    settings = {} if rows is None else {"index": {"example_queries": rows}}
    catalog = Catalog.read(QUERIES / "definitions" / "stranger_tools.jsonl")
    view = Engine.from_tools(catalog, **settings).view()
    lines = (QUERIES / "stranger_servers.jsonl").read_text(encoding="utf-8").splitlines()
    requests = [json.loads(line) for line in lines]
    answers = [view.search(request["query"], k=5, abstain=True) for request in requests]
    right = [frozenset(request.get("tools") or [request["tool"]]) for request in requests]
    found = sum(not ids.isdisjoint(answer.ids) for ids, answer in zip(right, answers, strict=True))
    first = sum(
        answer.ids[:1] in [(one,) for one in ids]
        for ids, answer in zip(right, answers, strict=True)
    )
    refused = sum(answer.abstained for answer in answers)
    sys.stdout.write(f"first {first}, in five {found}, refused {refused} of {len(requests)}\n")
    assert len(requests) == 40
    assert found >= 36
    assert refused == 0 or rows is not None
