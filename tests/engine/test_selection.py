"""The answer of a search as a sequence of hits, and what cannot be resumed."""

from __future__ import annotations

import pytest

from shortlist import Engine, ShortlistError, State, Tool


@pytest.fixture(scope="module")
def engine():
    tools = [Tool("list_invoices", "billing"), Tool("send_invoice", "billing")]
    return Engine.from_tools(tools, tiers=["lexical"])


def test_an_answer_is_indexed_sliced_and_iterated(engine):
    answer = engine.search("list invoices")
    assert answer[0].id == "billing/list_invoices"
    assert answer[0] == answer[-len(answer)] == next(iter(answer))
    assert answer[:1] == answer.hits[:1]
    assert [hit.id for hit in answer] == list(answer.ids)
    with pytest.raises(IndexError):
        answer[len(answer)]


@pytest.mark.parametrize(
    ("saved", "said"),
    [
        (
            "engine",
            r"a mapping, as `Session\.save` gives, not Engine; use: engine\.resume\(saved, ",
        ),
        ({"version": 99}, r"version 99, not 6: another version of shortlist wrote it"),
        ({}, r"has no version; pass what `Session.save` gave"),
        ({"version": 6}, "damaged"),
    ],
)
def test_what_is_no_saved_session_is_refused_by_what_it_is(engine, saved, said):
    with pytest.raises(ShortlistError, match=said):
        engine.resume(engine if saved == "engine" else saved, state=State())
