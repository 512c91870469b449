"""Encoder, reranker, fusion and strategy as objects, without a package that registers them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shortlist import Config, Engine, Tool
from shortlist.errors import ConfigError, ModelError
from shortlist.models import Encoder, Reranker
from shortlist.retrieval import Ranking

TOOLS = [
    Tool("pay_invoice", "billing", "Pay an invoice"),
    Tool("send_mail", "mail", "Send a mail"),
    Tool("play_song", "music", "Play a song"),
]
WORDS = ("invoice", "mail", "song")


class Counter:
    """Embeds texts by their words, as lists of numbers, and counts what it was given."""

    def __init__(self) -> None:
        self.texts = 0

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        self.texts += len(texts)
        return [[text.lower().count(word) + 0.01 for word in WORDS] for text in texts]


def longest_first(query: str, texts: list[str]) -> list[int]:
    return [len(text) for text in texts]


class FirstOnly:
    """A fusion that keeps the first ranking."""

    def __init__(self) -> None:
        self.calls = 0

    def fuse(self, rankings: Mapping[str, Ranking]) -> Ranking:
        self.calls += 1
        return next(iter(rankings.values()))


class LexicalOnly:
    """A strategy."""

    fallback = None

    def __init__(self) -> None:
        self.calls = 0

    def rank(self, run: Any) -> Ranking:
        self.calls += 1
        return run.retrieve("lexical", 10)


def test_all_parts_as_objects_are_used_saved_and_opened_again(tmp_path: Path) -> None:
    embed, fusion = Counter(), FirstOnly()
    parts: dict[str, Any] = {
        "encoder": Encoder.of(embed, dim=3, name="mine-1"),
        "reranker": Reranker.of(longest_first, name="long-1"),
        "fusion": fusion,
    }
    engine = Engine.from_tools(TOOLS, **parts)
    assert embed.texts == 3
    assert engine.search("the song", tier="embed").ids[0] == "music/play_song"
    assert engine.search("pay the invoice").tier == "hybrid"
    assert fusion.calls == 1
    reranked = engine.search("the invoice, the mail, the song", tier="rerank")
    assert (reranked.tier, reranked.tier_reason) == ("rerank", None)
    engine.save(tmp_path)
    embed.texts = 0
    again = Engine.open(tmp_path, **parts)
    assert again.search("the song", tier="embed").ids[0] == "music/play_song"
    assert embed.texts == 1  # the query: all vectors were saved
    assert again.search("x y", tier="rerank").tier == "rerank"


@pytest.mark.parametrize(
    ("missing", "name"), [("encoder", "mine-1"), ("reranker", "long-1"), ("fusion", "FirstOnly")]
)
def test_an_index_opened_without_its_object_says_so(
    tmp_path: Path, missing: str, name: str
) -> None:
    parts: dict[str, Any] = {
        "encoder": Encoder.of(Counter(), dim=3, name="mine-1"),
        "reranker": Reranker.of(longest_first, name="long-1"),
        "fusion": FirstOnly(),
    }
    Engine.from_tools(TOOLS, **parts).save(tmp_path)
    del parts[missing]
    with pytest.raises(ConfigError) as raised:
        Engine.open(tmp_path, **parts)
    assert f"{missing}: the index was saved with the object '{name}'; pass it" in str(raised.value)


def test_objects_inside_a_tier(tmp_path: Path) -> None:
    def tiers() -> dict[str, Any]:
        reranker = Reranker.of(longest_first, name="long-1")
        mine = {"retrievers": ["lexical"], "reranker": reranker, "fusion": FirstOnly()}
        return {"mine": mine, "hybrid": {"retrievers": ["lexical"]}}

    settings: dict[str, Any] = {"encoder": "static", "default_tier": "mine"}
    engine = Engine.from_tools(TOOLS, tiers=tiers(), **settings)
    assert engine.search("mail").tier == "mine"
    engine.save(tmp_path)
    with pytest.raises(ConfigError, match=r"tiers\.mine\.\w+: the index was saved with the object"):
        Engine.open(tmp_path)
    assert Engine.open(tmp_path, tiers=tiers(), **settings).search("mail").tier == "mine"


def test_another_name_of_an_encoder_encodes_again(tmp_path: Path) -> None:
    Engine.from_tools(TOOLS, encoder=Encoder.of(Counter(), dim=3, name="mine-1")).save(tmp_path)
    embed = Counter()
    Engine.open(tmp_path, encoder=Encoder.of(embed, dim=3, name="mine-2"))
    assert embed.texts == 3


def test_queries_may_be_read_in_another_way() -> None:
    queries = Counter()
    encoder = Encoder.of(Counter(), dim=3, name="mine-1", embed_query=queries)
    Engine.from_tools(TOOLS, encoder=encoder, tiers=["embed"]).search("the song")
    assert queries.texts == 1


@pytest.mark.parametrize(
    "returned",
    [
        [[1.0, 2.0]],
        [1.0, 2.0, 3.0],
        np.ones((7, 3)),
        [["a", "b", "c"]],
        None,
        [[float("nan"), 1.0, 1.0]] * 3,
        {"embedding": [1.0, 2.0, 3.0]},
    ],
)
def test_an_encoder_that_returns_something_else_is_an_error_that_names_it(returned: Any) -> None:
    encoder = Encoder.of(lambda texts: returned, dim=3, name="mine-1")
    with pytest.raises(ModelError, match="'mine-1'"):
        Engine.from_tools(TOOLS, encoder=encoder)


def test_an_encoder_that_raises_is_named() -> None:
    def embed(texts: list[str]) -> None:
        raise OSError("no such host")

    with pytest.raises(ModelError, match="'mine-1' failed: OSError: no such host"):
        Engine.from_tools(TOOLS, encoder=Encoder.of(embed, dim=3, name="mine-1"))


def test_a_reranker_that_fails_gives_way_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine.from_tools(
        TOOLS,
        encoder=Encoder.of(Counter(), dim=3, name="mine-1"),
        reranker=Reranker.of(lambda query, texts: [1.0], name="short-1"),
    )
    selection = engine.search("send the song by mail", tier="rerank")
    assert selection.tier == "hybrid"
    failure = "'short-1': score returned an array of shape (1,)"
    assert failure in str(selection.tier_reason)
    assert failure in str(engine.explain("send it", "send_mail", tier="rerank").tier_reason)
    turn = engine.session(tier="rerank").turn("send the song by mail")
    assert failure in str(turn.results.selections[0].tier_reason)
    # The answers each say so; the log does once.
    assert [failure in record.getMessage() for record in caplog.records] == [True]


def test_a_strategy_wherever_a_tier_is_named() -> None:
    strategy = LexicalOnly()
    engine = Engine.from_tools(TOOLS, tiers=["lexical"])
    assert engine.search("mail", tier=strategy).tier == "LexicalOnly"
    assert engine.view().search_many(["mail"], tier=strategy)[0].tier == "LexicalOnly"
    assert engine.explain("mail", "send_mail", tier=strategy).tier == "LexicalOnly"
    session = engine.session(tier=strategy, k=2)
    calls = strategy.calls
    session.turn("send a mail")
    assert strategy.calls > calls
    saved = session.save()
    assert saved["settings"] == {"k": 2}
    assert Config(session={"tier": strategy}).session.tier is strategy


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encoder": len}, "encoder: a name, a table of `name` and settings, or an object"),
        (
            {"encoder": Encoder},
            "or an object (Encoder.of makes one from a function), not _EncoderType",
        ),
        (
            {"encoder": Reranker.of(longest_first, name="x")},
            "from a function), not FunctionReranker",
        ),
        ({"reranker": 7}, "(Reranker.of makes one from a function), not int"),
        ({"fusion": 7}, "fusion: input should be a valid dictionary"),
        ({"session": {"tier": 7}}, "session.tier: a tier's name, or a strategy with"),
        ({"session": {"tier": LexicalOnly}}, "session.tier: a tier's name, or a strategy with"),
    ],
)
def test_what_is_no_part_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Config(**settings)
    assert message in str(raised.value)


def test_wrong_arguments_of_own_parts() -> None:
    with pytest.raises(ConfigError, match="embed: a function, not int"):
        Encoder.of(7, dim=3, name="x")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="dim: the length of a vector"):
        Encoder.of(len, dim=0, name="x")
    with pytest.raises(ConfigError, match="name: a text"):
        Encoder.of(len, dim=3, name=" ")
    with pytest.raises(ConfigError, match="score: a function, not int"):
        Reranker.of(7, name="x")  # type: ignore[arg-type]
    two = {
        name: {"retrievers": ["lexical"], "reranker": Reranker.of(longest_first, name="same")}
        for name in ("one", "two")
    }
    with pytest.raises(ConfigError, match="two objects have the name 'same'"):
        Engine.from_tools(TOOLS, encoder="static", tiers=two)


def test_a_class_of_ones_own_needs_no_base() -> None:
    class Mine:
        name, dim, fingerprint = "mine", 3, "mine-1"

        def encode(self, texts: Sequence[str], *, query: bool = False, progress: Any = None) -> Any:
            rows = np.array(Counter()(texts), np.float32)
            return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    engine = Engine.from_tools(TOOLS, encoder=Mine(), tiers=["embed"])
    assert engine.search("the song").ids[0] == "music/play_song"
