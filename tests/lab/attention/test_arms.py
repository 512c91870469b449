from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist import Engine, demo
from shortlist.lab.attention import remembering
from shortlist.lab.attention.plain_arms import Discovery, Retrieval, Standing, curated
from shortlist.lab.attention.poison import exposure, poisoned_tools, with_poison
from shortlist.lab.attention.preconditions import testbed_gate as gate_of_the_testbed
from shortlist.lab.attention.remembering import (
    Encoders,
    RememberingEncoder,
    RememberingEngine,
)
from shortlist.lab.attention.replay import figures, replay
from shortlist.lab.attention.settings import Settings
from shortlist.lab.attention.sizes import answerable, does_the_same_work, padded
from shortlist.lab.attention.stock import published_summary
from shortlist.lab.attention.tasks import TaskScript, TaskTurn, load_scripts
from shortlist.lab.attention.transcript import Prices, TextTokens
from shortlist.lab.attention.workbench import TRUSTING, Shared, Workbench
from shortlist.models import TokenCounter

TALK = TaskScript(
    "talk",
    "session",
    (
        TaskTurn("why is CI red on PR 702?", ("github/get_job_logs",), "A timeout."),
        TaskTurn("thanks", (), "Sure."),
        TaskTurn("start it again", ("github/dispatch_workflow",), "Done."),
    ),
    ("github:read", "github:write"),
)


@pytest.fixture(scope="module")
def catalog():
    return demo.load_catalog()


@pytest.fixture(scope="module")
def shared():
    return Shared()


@pytest.fixture(scope="module")
def bench(catalog, shared):
    return Workbench(catalog, [TALK], shared, engine=shared.engine(catalog, tiers=["lexical"]))


def count() -> TextTokens:
    return TextTokens(TokenCounter())


def test_full_schemas_offer_everything_and_cost_the_same_every_turn(catalog):
    outcomes = replay(Standing(catalog), [TALK], count(), Prices())
    assert [one.offered for one in outcomes] == [1, 0, 1]
    assert len({one.paid.tokens for one in outcomes}) == 1
    assert outcomes[1].paid.cached == pytest.approx(0.1 * outcomes[0].paid.tokens)


def test_pruning_keeps_what_every_second_task_needs_most(catalog):
    scripts = load_scripts(catalog)
    kept = curated(catalog, scripts, 30)
    assert len({tool.id for tool in kept}) == 30
    only = TaskScript("one", "single", (TaskTurn("x", ("web/read_feed",)),))
    assert curated(catalog, [only, *scripts[1:2]], 1) == [catalog.get("web/read_feed")]


def test_retrieval_sees_the_last_words_alone(catalog):
    asked = []

    def search(request: str) -> list[str]:
        asked.append(request)
        return ["web/read_feed"]

    outcomes = replay(Retrieval(catalog, search, "pool"), [TALK], count(), Prices())
    assert asked == [turn.user for turn in TALK.turns]
    assert [one.visible for one in outcomes] == [1, 0, 1]
    assert not any(one.offered for one in outcomes)
    assert all(one.paid.changed_bytes for one in outcomes[1:])


def test_discovery_asks_for_what_it_needs_once(catalog):
    outcomes = replay(Discovery(catalog), [TALK, TALK], count(), Prices())
    assert [one.extra_calls for one in outcomes] == [2, 0, 1] * 2
    assert all(one.offered == one.asked for one in outcomes)
    assert not any(one.paid.changed_bytes for one in outcomes)


def test_figures_of_a_long_session(bench, catalog):
    long = TaskScript("long", "session", TALK.turns * 12)
    found = figures(bench.outcomes(Standing(catalog), [long]))
    assert found["coverage"] == 1.0
    assert len(found["long"][0]["cached"]) == 30
    assert found["long_tokens"] == found["turns"]["tokens"]
    assert found["utilisation"] == pytest.approx(14_900 / (14_900 + found["long_tokens"]))
    assert figures(bench.outcomes(Standing(catalog)))["long_cached"] is None


def test_a_remembering_engine_answers_as_an_engine_does(catalog, shared):
    plain = Engine.from_tools(catalog, tiers=["lexical"], trust=TRUSTING)
    fast = shared.engine(catalog, tiers=["lexical"])
    for _ in range(2):
        for allowed in (None, ["web/read_feed", "web/fetch_page"]):
            queries = ["read a feed", "merge", "read a feed"]
            expected = plain.view(allowed=allowed).search_many(queries, k=5)
            found = fast.view(allowed=allowed).search_many(queries, k=5)
            assert [one.hits for one in found] == [one.hits for one in expected]


class Lengths:
    """A vector is the length of its text, and whether it is a query."""

    name, dim, fingerprint = "lengths", 2, "0"

    def __init__(self):
        self.read = []

    def encode(self, texts, *, query=False, progress=None):
        self.read += texts
        return np.array([(len(text), query) for text in texts], np.float32).reshape(-1, 2)


@given(st.lists(st.tuples(st.booleans(), st.lists(st.text(max_size=3), max_size=5)), max_size=5))
def test_a_remembering_encoder_encodes_every_text_once(calls):
    lengths = Lengths()
    encoder = RememberingEncoder(lengths)
    for query, texts in calls:
        vectors = encoder.encode(texts, query=query)
        assert vectors.tolist() == [[len(text), query] for text in texts]
    assert len(lengths.read) == len({(query, text) for query, texts in calls for text in texts})


def test_an_encoder_is_loaded_once_and_not_before_it_is_asked_for(catalog, monkeypatch):
    loaded = []

    def load(spec, *, threads):
        loaded.append((spec, threads))
        return Lengths()

    monkeypatch.setattr(remembering, "load_encoder", load)
    encoders = Encoders()
    RememberingEngine.over(catalog, encoders, tiers=["lexical"])
    assert not loaded
    for _ in range(2):
        engine = RememberingEngine.over(
            catalog, encoders, encoder="some", threads=1, tiers=["embed"]
        )
        assert engine.build_progress.newly_encoded == len(catalog)
    assert loaded == [("some", 1)]


def test_rules_of_the_testbed_let_every_session_do_its_work(catalog):
    engine = Engine.from_tools(
        catalog, tiers=["lexical"], gate=gate_of_the_testbed(), trust=TRUSTING
    )
    assert not engine.problems
    for script in load_scripts(catalog):
        if script.kind != "session":
            continue
        state = engine.view().state.granted(*script.scopes)
        for turn in script.turns:
            for tool_id in turn.needed:
                assert engine.view(state).permits(tool_id), (script.id, turn.user)
                state = engine.after_call(state, tool_id)


def test_padding_keeps_the_testbed_and_leaves_out_the_same_work(catalog):
    assert len(padded(catalog, 50, ())) == 50
    grown = padded(catalog, 300, ())
    assert len(grown) == 300
    assert all(tool.id in grown for tool in catalog)
    assert all(does_the_same_work(tool) for tool in catalog if tool.server in ("jira", "github"))
    small = padded(catalog, 50, ())
    scripts = load_scripts(catalog)
    fitting = answerable(scripts, small)
    assert 0 < len(fitting) < len(scripts)


def test_a_published_summary_has_at_most_sixty_tokens(catalog):
    counter = TokenCounter()
    for tool in catalog:
        line = published_summary(tool, counter)
        assert line.startswith(f"{tool.id}: ")
        assert counter.count(line) <= 60


def test_poison_is_seen_where_nothing_holds_it_back(catalog, shared):
    poisoned = poisoned_tools()
    assert len(poisoned) == 12
    engine = shared.engine(with_poison(catalog), tiers=["lexical"])
    bench = Workbench(with_poison(catalog), [TALK], shared, engine=engine)
    everything = exposure(bench.full(), [TALK], poisoned, shared.count, bench.prices)
    assert (everything["named"], everything["tools_offered"]) == (1.0, 12)
    trusted = bench.trusted(Settings())
    held = exposure(trusted, [TALK], poisoned, shared.count, bench.prices)
    withheld = set(engine.quarantined)
    assert held["tools_named"] == 12 - len(withheld & {tool.id for tool in poisoned})
    assert not {tool.id for tool in catalog} & withheld
