from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.gateway.observe.gateway_events import (
    CatalogEvent,
    DetailsEvent,
    ListEvent,
    RunEvent,
    SearchEvent,
    ServerEvent,
)
from shortlist.session.event import CallEvent, EventOrigin
from shortlist.session.event_stats import EventStats, percentile

AT = datetime(2026, 11, 22, 20, 15, tzinfo=UTC)


def origin(session: str) -> EventOrigin:
    return EventOrigin(session, 1, AT)


def search(session: str, *found: str, tier: str = "hybrid", abstained: bool = False, ms: float = 3):
    hits = tuple((one, 0.5) for one in found)
    return SearchEvent(
        origin(session), "default", "hash", None, tier, hits, abstained, None, 0, 0, 100, ms
    )


def call(session: str, tool: str, outcome: str = "ok", run_ms: float | None = 10.0):
    status = outcome if run_ms is None else "passed"
    check = CallEvent(origin(session), tool, status, None, (), (), 1.0)
    return RunEvent(check, "default", tool.partition("/")[0], outcome, run_ms, 2, 3)


CATALOG = {"a/read": 200, "a/write": 300, "b/list": 500, "b/never": 1_000}
EVENTS = (
    ServerEvent(EventOrigin("gateway", 0, AT), "a", "started", 400.0, 2),
    ServerEvent(EventOrigin("gateway", 0, AT), "b", "failed", None, 0, "it did not answer in time"),
    CatalogEvent(origin("s1"), "default", "f", CATALOG),
    ListEvent(origin("s1"), "default", 5, 400, 4, 2_000, "f"),
    search("s1", "a/read", "a/write", ms=1),
    DetailsEvent(origin("s1"), "default", ("a/read",), 0, 0, 50, 1.0),
    call("s1", "a/read", run_ms=10.0),
    call("s1", "a/write", "tool_error", run_ms=30.0),
    search("s1", "b/list"),
    search("s2", abstained=True),
    search("s2"),
    search("s2", tier=""),
    call("s2", "b/list", "server_error", run_ms=900.0),
    call("s2", "b/none", "unknown", run_ms=None),
)


@pytest.fixture
def events(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(one.to_dict()) + "\n" for one in EVENTS))
    return path


def test_the_figures_of_a_file(run_json, events):
    found = run_json("stats", events)
    assert found["tokens"] == {
        "definitions": 2_000,
        "sent_list": 400,
        "sent_search": 500,
        "sent_details": 50,
        "saved": 1_050,
    }
    assert found["conversations"] == 2
    assert found["searches"] == {
        "total": 5,
        "found": 2,
        "abstained": 1,
        "nothing": 1,
        "invalid": 1,
        "misses": 4,
        "not_called_afterwards": 1,
        "p50_ms": 3.0,
        "p95_ms": 3.0,
    }
    assert found["calls"] == {
        "total": 4,
        "ok": 1,
        "tool_error": 1,
        "server_error": 1,
        "unknown": 1,
    }
    assert list(found["servers"]) == ["b", "a"]
    assert found["servers"]["a"] == {
        "calls": 2,
        "failed_calls": 0,
        "p50_ms": 10.0,
        "p95_ms": 30.0,
        "starts": 1,
        "start_p50_ms": 400.0,
        "failures": 0,
    }
    assert (found["servers"]["b"]["failed_calls"], found["servers"]["b"]["failures"]) == (1, 1)
    assert found["tools"] == 4
    assert found["never_found"] == ["b/never"]
    assert found["profiles"] == {"default": {"tools": 4, "never_found": ["b/never"]}}


def test_tools_never_found_are_of_all_servers_and_of_each_profile(run, run_json, tmp_path):
    """Two profiles; the servers' tools come in several versions, as when servers start slowly."""
    path = tmp_path / "events.jsonl"
    interns = SearchEvent(
        origin("s2"), "intern", "hash", None, "fast", (("b/list", 1.0),), False, None, 0, 0, 9, 1.0
    )
    events = (
        CatalogEvent(origin("s1"), "default", "1", {"a/read": 1}),
        search("s1", "a/read"),
        CatalogEvent(origin("s1"), "default", "2", CATALOG),
        CatalogEvent(origin("s2"), "intern", "2", CATALOG, ("b/list", "b/never", "a/gone")),
        interns,
    )
    path.write_text("".join(json.dumps(one.to_dict()) + "\n" for one in events))
    found = run_json("stats", path)
    assert (found["tools"], found["never_found"]) == (4, ["a/write", "b/never"])
    assert found["profiles"] == {
        "default": {"tools": 4, "never_found": ["a/write", "b/list", "b/never"]},
        "intern": {"tools": 2, "never_found": ["b/never"]},
    }
    # On the first day nearly all tools were not found yet.
    assert "never found" not in run("stats", path).stdout
    later = search("s1", "a/read").to_dict() | {"at": "2026-11-23T20:16:00.000+00:00"}
    with path.open("a") as file:
        file.write(json.dumps(later) + "\n")
    lines = [" ".join(line.split()) for line in run("stats", path).stdout.splitlines()]
    assert "tools never found: 2 of 4" in lines
    assert {"default 4 3", "intern 2 1"} <= set(lines)


def test_events_of_earlier_versions_name_no_profile(run_json, tmp_path):
    path = tmp_path / "events.jsonl"
    rows = [one.to_dict() for one in EVENTS]
    for row in rows:
        if row["kind"] == "catalog":
            del row["client"], row["profile_tools"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = run_json("stats", path)
    assert (found["never_found"], found["profiles"]) == (["b/never"], {})


@pytest.mark.parametrize("width", [80, 120])
def test_the_text_fits_the_terminal(run, events, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    text = run("stats", events).stdout
    assert max(map(len, text.splitlines())) <= width
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for line in (
        "2026-11-22 20:15 to 2026-11-22 20:15, 2 conversations",
        "saved 1,050 52%",
        "misses 4 80%",
        "server error 1 25%",
        "b 1 1 900 900 0 1",
    ):
        assert line in lines


def test_sessions_of_the_library_are_counted_too(run_json, tmp_path):
    from shortlist import Engine, Tool

    path = tmp_path / "session.jsonl"
    tools = [Tool("get_forecast", "weather"), Tool("play_song", "music")]
    engine = Engine.from_tools(tools, tiers=["lexical"])
    session = engine.session(k=1, events=path)
    session.turn("what is the forecast?")
    verdict = session.check("weather/get_forecast", {})
    session.result(verdict.tool.id, "sun")
    session.turn("play a song")
    found = run_json("stats", path)
    assert found["searches"]["total"] == 2
    assert found["searches"]["misses"] == 1
    assert found["calls"] == {"total": 1, "passed": 1}


def test_a_damaged_line_is_passed_over_and_a_damaged_event_is_named(run, tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_text(json.dumps(EVENTS[4].to_dict()) + "\n{cut of\n")
    assert "events.jsonl:2: no JSON" in run("stats", path).stderr
    damaged = EVENTS[4].to_dict()
    del damaged["found"]
    path.write_text(json.dumps(damaged) + "\n")
    assert "event 1 is damaged: KeyError('found')" in run("stats", path, code=1).stderr
    path.write_text("")
    assert ": no events; " in run("stats", path, code=1).stderr


@given(st.lists(st.sampled_from(EVENTS), max_size=40))
def test_counts_hold_together_for_any_sequence(events):
    found = EventStats([one.to_dict() for one in events])
    assert 0 <= found.not_called_count <= found.search_outcomes["found"]
    assert found.not_called_count <= found.missed_count <= found.search_outcomes.total()
    assert found.saved_tokens == found.definition_tokens - found.sent_tokens.total()
    assert set(found.never_found) <= set(CATALOG)
    assert sum(len(one.run_ms) for one in found.servers.values()) <= found.call_outcomes.total()


@given(st.lists(st.floats(0, 1e6), min_size=1), st.integers(1, 100))
def test_a_percentile_is_a_value_that_so_many_do_not_exceed(values, percent):
    found = percentile(values, percent)
    assert found in {round(value, 1) for value in values}
    assert sum(round(value, 1) <= found for value in values) >= len(values) * percent / 100
