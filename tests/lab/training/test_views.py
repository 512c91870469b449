from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from shortlist.lab.training.data import TrainingTool
from shortlist.lab.training.views import joined, self_supervised, sentences, shown

TOOL = TrainingTool(
    "s:x",
    "s",
    "mail",
    "send_letter",
    "Send a letter. It may carry an attachment.\nCosts one stamp.",
    ("to", "body"),
)


def test_sentences_split_at_stops_and_lines() -> None:
    assert sentences(TOOL.description) == [
        "Send a letter.",
        "It may carry an attachment.",
        "Costs one stamp.",
    ]


def test_shown_is_mostly_whole_and_sometimes_poorer() -> None:
    rng = random.Random(0)
    texts = [shown(TOOL, rng) for _ in range(2000)]
    whole = sum(TOOL.description in text and "Parameters" in text for text in texts)
    assert 0.7 < whole / len(texts) < 0.85
    assert any("Parameters" not in text for text in texts)
    assert any("(mail)" not in text and "send letter" in text for text in texts)
    assert any("send letter" not in text for text in texts)


def test_a_sentence_asked_with_is_not_in_the_document() -> None:
    rng = random.Random(0)
    for _ in range(200):
        query, document = self_supervised(TOOL, rng)
        assert query not in document
        assert document


@given(st.text(max_size=30), st.text(max_size=60), st.integers(0, 9))
def test_any_tool_gives_a_pair(name: str, description: str, seed: int) -> None:
    tool = TrainingTool("s:x", "s", None, name or "x", description)
    query, document = self_supervised(tool, random.Random(seed))
    assert isinstance(query, str)
    assert isinstance(document, str)
    assert shown(tool, random.Random(seed)) is not None


def test_joined_keeps_all_requests_in_order() -> None:
    text = joined(["Book a room.", "mail Ann", "go home?"], random.Random(1))
    assert text.index("Book a room") < text.index("mail Ann") < text.index("go home?")
