"""Forty requests over ten servers on which nothing was chosen: `lab/queries/stranger_servers`."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from shortlist import Catalog, Engine
from shortlist.gateway.meta_tools import prompt_tools
from shortlist.gateway.profiles.profile import Profile, ProfileViews
from shortlist.lab.query_sets import QUERIES


def rows(name: str) -> list[dict[str, Any]]:
    """The rows of a set of queries."""
    lines = (QUERIES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def stranger_catalog() -> Catalog:
    return Catalog.read(QUERIES / "definitions" / "stranger_tools.jsonl")


def right_tools(request: dict[str, Any]) -> frozenset[str]:
    return frozenset(request.get("tools") or [request["tool"]])


@pytest.mark.long
@pytest.mark.parametrize("examples", [None, []], ids=["with the package's rows", "without"])
def test_the_right_tool_is_in_the_first_five(examples: list[str] | None) -> None:
    settings = {} if examples is None else {"index": {"example_queries": examples}}
    view = Engine.from_tools(stranger_catalog(), **settings).view()
    requests = rows("stranger_servers")
    answers = [view.search(request["query"], k=5, abstain=True) for request in requests]
    right = [right_tools(request) for request in requests]
    found = sum(not ids.isdisjoint(answer.ids) for ids, answer in zip(right, answers, strict=True))
    first = sum(
        answer.ids[:1] in [(one,) for one in ids]
        for ids, answer in zip(right, answers, strict=True)
    )
    refused = sum(answer.abstained for answer in answers)
    sys.stdout.write(f"first {first}, in five {found}, refused {refused} of {len(requests)}\n")
    assert len(requests) == 40
    assert found >= 36
    assert refused == 0 or examples is not None


@pytest.mark.long
def test_the_hook_puts_the_right_tool_beside_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_tools, "_BUDGET_MS", 60_000.0)  # no cheaper tier on a busy machine
    views = ProfileViews(Engine.from_tools(stranger_catalog()), Profile())

    def lines_beside(request: dict[str, Any]) -> list[str]:
        return prompt_tools.prompt_tools(views, request["query"]).splitlines()

    requests = rows("stranger_servers")
    answers = [lines_beside(request) for request in requests]
    found = sum(
        any(line.startswith(f"- {tool_id}(") for line in lines for tool_id in right_tools(request))
        for request, lines in zip(requests, answers, strict=True)
    )
    silent = sum(not lines for lines in answers)
    chars = sum(len("\n".join(lines)) for lines in answers) / (len(answers) - silent)
    needless = [
        row for row in rows("unserved") if row["kind"] in ("small talk", "general knowledge")
    ]
    added = [len("\n".join(lines_beside(row))) for row in needless]
    sys.stdout.write(
        f"right tool in {found} of {len(requests)}, silent in {silent}, {chars:.0f} characters "
        f"otherwise; lines in {sum(map(bool, added))} of {len(added)} messages that need no tool, "
        f"{sum(added)} characters\n"
    )
    assert found >= 18
    assert sum(map(bool, added)) <= 2
