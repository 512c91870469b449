"""Whatever is typed gets an answer or a ShortlistError: never another error, never a hang."""

from __future__ import annotations

import random
import string
from contextlib import nullcontext
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist import Engine, Selection, ShortlistError, Tool
from shortlist.errors import RequestError

from .conftest import cheap_engine
from .fakes import make_tools

TIERS = ("lexical", "fast", "embed", "hybrid", "rerank")
CORPUS = [
    "",
    " ",
    "\x00",
    "\x00issue\x00",
    "\ud800",
    "issue \udfff\ud800 create",
    "AND OR NOT",
    'create AND (issue OR "branch"~3) NOT name:file^2 [a TO b] /x/ \\',
    '+ - && || ! ( ) { } [ ] ^ " ~ * ? : \\ /',
    "'; DROP TABLE tools; --",
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "%s %d {0} {name} $(id) `id`",
    "🚀🔥👩‍👩‍👧‍👦🏳️‍🌈",
    "e" + "\u0301" * 5_000,
    "\u202e\u2066issue\u2069",
    "\ufeff\u200b\u200dissue",
    "𝓬𝓻𝓮𝓪𝓽𝓮 ｉｓｓｕｅ",
    "ﷺ" * 3_000,
    "\U000e0041\U000e0042",
    "İIıi ẞß ŉ ǰ",
    "a" * 100_000,
    "issue " * 17_000,
    "字" * 50_000,
    "?" * 100_000,
    "\n" * 100_000,
    "aB" * 50_000,
    "_" * 100_000,
    "'s" * 50_000,
    "\ud83d" * 100_000,
    "1" * 100_000,
    "`" * 10_000,
]


@pytest.fixture(scope="module")
def engine() -> Engine:
    hostile = [
        Tool("+ - * : ( )", "ops", 'AND OR NOT \\ " ^ ~'),
        Tool("\U0001f680", "emoji", "🚀"),
        Tool("quote\"'`", "q", "`'\""),
        Tool("字" * 80, "字", "字" * 16_000),
    ]
    return cheap_engine([*make_tools(60), *hostile])


def ask(engine: Engine, query: str, tier: str) -> None:
    try:
        answer = engine.search(query, tier=tier, k=5)
    except ShortlistError:
        return
    assert isinstance(answer, Selection)
    assert len(answer) <= 5
    assert answer.tier == answer.tier_asked == tier
    assert all(hit.score == hit.score for hit in answer)


@pytest.mark.parametrize("query", CORPUS, ids=range(len(CORPUS)))
def test_known_nuisances(engine: Engine, tier: str, query: str) -> None:
    start = perf_counter()
    ask(engine, query, tier)
    with nullcontext() if query.strip() else pytest.raises(RequestError, match="query: is empty"):
        engine.view().explain(query, "github/create_issue", tier=tier)
    assert perf_counter() - start < 10


@pytest.mark.parametrize("query", CORPUS, ids=range(len(CORPUS)))
def test_known_nuisances_through_the_bundled_encoder(bundled_engine: Engine, query: str) -> None:
    start = perf_counter()
    for tier in ("lexical", "embed", "hybrid"):
        ask(bundled_engine, query, tier)
    assert perf_counter() - start < 20


@settings(deadline=None, max_examples=250)
@given(
    query=st.text(st.characters(), max_size=400)
    | st.text(string.punctuation + string.whitespace + "aZ9🚀字", max_size=400),
    tier=st.sampled_from(TIERS),
)
def test_any_text(engine: Engine, query: str, tier: str) -> None:
    ask(engine, query, tier)


def test_pieces_of_queries_put_together_at_random(engine: Engine) -> None:
    choose = random.Random(11)
    pieces = [*(text[:40] for text in CORPUS), *string.punctuation, "issue", "create", "AND", "NOT"]
    for _ in range(250):
        query = choose.choice(["", " "]).join(choose.choices(pieces, k=choose.randrange(1, 14)))
        ask(engine, query, choose.choice(TIERS))


@settings(deadline=None, max_examples=25)
@given(queries=st.lists(st.text(st.characters(), max_size=60).filter(str.strip), max_size=6))
def test_any_batch(bundled_engine: Engine, queries: list[str]) -> None:
    answers = bundled_engine.view().search_many(queries, tier="hybrid", k=3)
    assert [answer.query for answer in answers] == queries


@settings(deadline=None, max_examples=100)
@given(allowed=st.sets(st.text(st.characters(), max_size=20)), tier=st.sampled_from(TIERS))
def test_any_ids_may_be_allowed(engine: Engine, allowed: set[str], tier: str) -> None:
    answer = engine.view(allowed=allowed).search("create an issue", tier=tier)
    globs = any(set("*?[") & set(entry) for entry in allowed)
    assert globs or set(answer.ids) <= allowed
