"""Example queries from usage: what is held out, what counts, what is refused, what they change."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist import Engine, Rule, Tool
from shortlist.enrichment.usage_queries import MAX_QUERIES_FROM_USAGE, near_copy_numbers
from shortlist.errors import RequestError
from shortlist.evals.learning import FOLD_COUNT, MIN_HELD_OUT, Comparison, folds, learn
from shortlist.evals.learning import rejection_reason as rejected
from shortlist.gating import Gate, requires_scope
from shortlist.retrieval.usage import UsageEvent

# A word decides the tool of a query, in words that no definition has.
LINES = ("north", "south", "east", "west")
WORDS = ("zorp", "quax", "fleem", "drindle", "vash", "mip", "tragul", "oskin")
ENDINGS = ("now", "please", "again", "for me")
TOOLS = [
    Tool(f"process_{line}_{step}", "plant", f"Runs step {step} of line {line}.")
    for line in LINES
    for step in range(len(WORDS))
]
EVENTS = [
    UsageEvent(f"{word} the {line} {ending}", (f"plant/process_{line}_{step}",))
    for line in LINES
    for step, word in enumerate(WORDS)
    for ending in ENDINGS
]


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.from_tools(TOOLS)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.lists(st.integers(0, 11), min_size=1, max_size=3)),
        max_size=80,
    )
)
def test_folds_hold_out_what_they_say(drawn: list[tuple[int, list[int]]]) -> None:
    letters = [chr(97 + text // 26) + chr(97 + text % 26) for text, _ in drawn]
    texts = [f"q{text} r{text} s{text}" for text in letters]
    copies = near_copy_numbers(texts)
    relevant = [np.unique(rows) for _, rows in drawn]
    family = np.arange(12) // 2
    unseen: list[int] = []
    for fold in folds(texts, relevant, family):
        train, seen = set(fold.train.tolist()), set(fold.seen.tolist())
        assert not (train & seen) | ((train | seen) & set(fold.unseen.tolist()))
        assert not {copies[event] for event in train} & {copies[event] for event in seen}
        trained_rows = {row for event in train for row in relevant[event].tolist()}
        assert all(set(relevant[event].tolist()) <= trained_rows for event in seen)
        twins = {family[row] for row in trained_rows}
        assert not any(
            family[row] in twins for event in fold.unseen for row in relevant[event].tolist()
        )
        unseen += fold.unseen.tolist()
    single = [event for event, rows in enumerate(relevant) if len({family[r] for r in rows}) == 1]
    assert len(unseen) == len(set(unseen))
    assert set(single) <= set(unseen)


def test_there_are_as_many_folds_as_parts() -> None:
    assert len(list(folds(["a"], [np.array([0])], np.array([0])))) == FOLD_COUNT


class TestAccepted:
    def test_tools_with_events_and_without_are_found_by_the_users_words(
        self, engine: Engine, tmp_path: Path
    ) -> None:
        before = engine.search("fleem the south, it is late").ids
        report = learn(engine, EVENTS)
        assert report.accepted
        assert (report.events, report.tools, report.left_out) == (128, 32, {})
        assert report.seen.after[0] > report.seen.before[0] + 0.5
        assert report.unseen.after[0] > report.unseen.before[0] + 0.5
        assert engine.search("fleem the south, it is late").ids == before, "the engine is as it was"
        assert json.loads(json.dumps(report.to_dict()))["rows"] == len(report.rows) == 32

        # The tools of one line without any event are found by what the other lines teach.
        rows = [row for row in report.rows if "_west_" not in row.tool]
        path = tmp_path / "usage.jsonl"
        path.write_text("".join(json.dumps(row.to_dict()) + "\n" for row in rows), "utf-8")
        taught = Engine.from_tools(TOOLS, index={"example_queries": [path]})
        right = [
            taught.search(f"{word} the west, it is late").ids[0] == f"plant/process_west_{step}"
            for step, word in enumerate(WORDS)
        ]
        assert sum(right) >= 6, "by chance, one in 32 would"
        hit = taught.search("zorp the north, it is late").hits[0]
        assert (hit.id, hit.example_sources) == ("plant/process_north_0", ("usage",))
        taught.save(tmp_path / "index")
        opened = Engine.open(tmp_path / "index")
        for tier in ("embed", "fast", "hybrid"):
            query = "vash the west, it is late"
            saved, fresh = (one.search(query, tier=tier, k=32) for one in (opened, taught))
            assert [(hit.id, hit.score) for hit in saved] == [(hit.id, hit.score) for hit in fresh]

    def test_earlier_queries_of_usage_are_not_part_of_the_measurement(
        self, engine: Engine, tmp_path: Path
    ) -> None:
        report = learn(engine, EVENTS)
        path = tmp_path / "usage.jsonl"
        path.write_text("".join(json.dumps(row.to_dict()) + "\n" for row in report.rows), "utf-8")
        taught = Engine.from_tools(TOOLS, index={"example_queries": [path]})
        assert learn(taught, EVENTS).seen.before == report.seen.before

    def test_permissions_do_not_change_the_measurement(self, engine: Engine) -> None:
        closed = Engine.from_tools(TOOLS, gate=Gate([Rule(requires_scope("never"))]))
        assert learn(closed, EVENTS).seen == learn(engine, EVENTS).seen


class TestRefused:
    def test_copies_of_one_query_are_no_evidence(self, engine: Engine) -> None:
        copies = [
            UsageEvent(f"{event.query}{sign}", event.relevant)
            for event in EVENTS[::4]
            for sign in ("", "!", " ...")
        ]
        report = learn(engine, copies)
        assert not report.accepted
        assert report.seen.events == 0
        assert "too few events: 0 held-out queries of tools with events" in (report.reason or "")
        assert report.rows == ()

    def test_events_that_teach_nothing(self, engine: Engine) -> None:
        random = np.random.default_rng(0)
        noise = [
            UsageEvent(event.query, (TOOLS[random.integers(len(TOOLS))].id,)) for event in EVENTS
        ]
        report = learn(engine, noise)
        assert not report.accepted
        assert report.reason

    def test_no_vectors(self) -> None:
        with pytest.raises(RequestError, match="no tier uses vectors"):
            learn(Engine.from_tools(TOOLS, tiers=["lexical"]), EVENTS)

    def test_the_rule(self) -> None:
        groups = np.arange(200)
        worse, same, better = (
            np.repeat([[share, share]], 200, axis=0).astype(float) for share in (0.4, 0.5, 0.6)
        )
        rises = Comparison.of(same, better, groups)
        stays = Comparison.of(same, same, groups)
        falls = Comparison.of(same, worse, groups)
        assert rejected(rises, stays) is None
        assert rejected(rises, rises) is None
        assert "no rise" in (rejected(stays, rises) or "")
        assert "with events falls by 10.0%" in (rejected(falls, rises) or "")
        assert "without events falls by 10.0%" in (rejected(rises, falls) or "")
        noise = np.random.default_rng(0).choice([-1.0, 0.0, 1.0], 60, p=[0.14, 0.75, 0.11])
        both = np.repeat(noise[:, None], 2, axis=1)
        noisy = Comparison.of(np.zeros((60, 2)), both, np.arange(60))
        assert noisy.low[0] < -0.1 < noisy.change[0] < -0.02 < 0.03 < noisy.high[0]
        assert rejected(rises, noisy) is None, "a fall within noise is no harm"
        few, none = (
            Comparison.of(same[:count], better[:count], groups[:count])
            for count in (MIN_HELD_OUT - 1, 0)
        )
        assert "too few events: 19" in (rejected(few, rises) or "")
        assert "too few events: 0" in (rejected(none, rises) or "")

    def test_many_queries_for_one_tool_are_one_draw(self) -> None:
        before, after = np.zeros((100, 2)), np.zeros((100, 2))
        after[:50] = 1
        clustered = Comparison.of(before, after, np.repeat(np.arange(4), 25))
        single = Comparison.of(before, after, np.arange(100))
        assert clustered.low[0] < single.low[0] < 0.5 < single.high[0] < clustered.high[0]


class TestApprovedTools:
    def test_a_success_counts_only_for_an_approved_unchanged_tool(self) -> None:
        engine = Engine.from_tools(TOOLS)
        held, changed, known = (tool.id for tool in TOOLS[:3])
        engine.quarantine({held: "under review"})
        fingerprint = TOOLS[2].fingerprint
        report = learn(
            engine,
            [
                UsageEvent("zorp the line", (held,)),
                UsageEvent("quax the line", (changed,), fingerprints={changed: "other"}),
                UsageEvent("fleem the line", ("gone/tool",)),
                UsageEvent("mail it to a.b@example.com", (known,)),
                UsageEvent("fleem it all", (held, known), fingerprints={known: fingerprint}),
            ],
        )
        assert report.left_out == {"quarantined": 1, "changed": 1, "unknown": 1, "private": 1}
        assert (report.events, report.tools) == (1, 1)

    def test_no_event_can_be_used(self, engine: Engine) -> None:
        with pytest.raises(RequestError, match="none of 1 can be used: 1 unknown"):
            learn(engine, [UsageEvent("x", ("gone",))])

    def test_what_a_tool_that_claims_every_success_gets_is_bounded(self, engine: Engine) -> None:
        thief = TOOLS[0].id
        claimed = [UsageEvent(event.query, (*event.relevant, thief)) for event in EVENTS]
        stolen = [UsageEvent(event.query, (thief,)) for event in EVENTS]
        for events in (claimed, stolen):
            report = learn(engine, events)
            counts = [len(row.queries) for row in report.rows if row.tool == thief]
            assert sum(counts) <= MAX_QUERIES_FROM_USAGE
        assert "held-out queries of tools with events, for 1 of them" in (
            learn(engine, stolen).reason or ""
        )
