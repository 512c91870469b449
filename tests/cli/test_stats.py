from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.session.event import EVENT_READER, RecordedEvent
from shortlist.session.event_stats import EventStats, percentile

AT = datetime(2026, 11, 22, 20, 15, tzinfo=UTC)
CATALOG = {"a/read": 200, "a/write": 300, "b/list": 500, "b/never": 1_000}


def event(kind: str, session: str, **fields) -> RecordedEvent:
    return EVENT_READER.validate_python(
        {"kind": kind, "session": session, "turn": 1, "at": AT, "client": "default"} | fields
    )


def search(session: str, *found: str, outcome: str = "", **fields) -> RecordedEvent:
    hits = [{"id": tool_id, "score": 0.5} for tool_id in found]
    outcome = outcome or ("found" if found else "nothing")
    given = {"query": "hash", "tier": "hybrid", "tokens": 100, "ms": 3, **fields}
    return event("search", session, found=hits, outcome=outcome, **given)


def call(session: str, tool: str, outcome: str = "ok", run_ms: float | None = 10.0):
    status = outcome if run_ms is None else "passed"
    server = tool.partition("/")[0]
    given = {"tool": tool, "status": status, "outcome": outcome, "run_ms": run_ms}
    return event("call", session, server=server, **given)


def catalog(session: str, version: str, tools: dict[str, int], **fields) -> RecordedEvent:
    return event("catalog", session, catalog=version, tools=tools, **fields)


LISTED = {"shown": 5, "tokens": 400, "permitted": 4, "permitted_tokens": 2_000}
EVENTS = (
    event("server", "gateway", server="a", state="started", ms=400.0, tools=2),
    event("server", "gateway", server="b", state="failed", problem="it did not answer in time"),
    catalog("s1", "f", CATALOG),
    event("list", "s1", **LISTED),
    search("s1", "a/read", "a/write", ms=1),
    event("details", "s1", found=["a/read"], denied=0, unknown=0, tokens=50, ms=1.0),
    call("s1", "a/read", run_ms=10.0),
    event("script", "s1", outcome="ok", calls=1, received=20, ms=12.0),
    event("script", "s1", outcome="type", calls=0, received=20, ms=2.0),
    call("s1", "a/write", "tool_error", run_ms=30.0),
    search("s1", "b/list"),
    search("s2", outcome="abstained"),
    search("s2"),
    search("s2", outcome="invalid", tier=""),
    call("s2", "b/list", "server_error", run_ms=900.0),
    call("s2", "b/none", "unknown", run_ms=None),
)


def lines(events) -> str:
    return "".join(f"{one.model_dump_json(exclude_none=True)}\n" for one in events)


@pytest.fixture
def events(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_text(lines(EVENTS))
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
    assert found["scripts"] == {"total": 2, "ok": 1, "type": 1}
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
    own_tools = ["b/list", "b/never", "a/gone"]
    events = (
        catalog("s1", "1", {"a/read": 1}),
        search("s1", "a/read"),
        catalog("s1", "2", CATALOG),
        catalog("s2", "2", CATALOG, client="intern", profile_tools=own_tools),
        search("s2", "b/list", client="intern"),
    )
    path.write_text(lines(events))
    found = run_json("stats", path)
    assert (found["tools"], found["never_found"]) == (4, ["a/write", "b/never"])
    assert found["profiles"] == {
        "default": {"tools": 4, "never_found": ["a/write", "b/list", "b/never"]},
        "intern": {"tools": 2, "never_found": ["b/never"]},
    }
    # On the first day nearly all tools were not found yet.
    assert "never found" not in run("stats", path).stdout
    with path.open("a") as file:
        file.write(lines([search("s1", "a/read", at="2026-11-23T20:16:00.000+00:00")]))
    shown = [" ".join(line.split()) for line in run("stats", path).stdout.splitlines()]
    assert "tools never found: 2 of 4" in shown
    assert {"default 4 3", "intern 2 1"} <= set(shown)


#: Lines of version 0.1, whole.
EARLIER = (
    {
        "kind": "catalog",
        "turn_id": "s1/1",
        "session": "s1",
        "turn": 1,
        "at": "2026-11-22T20:15:00.000+00:00",
        "catalog": "f",
        "tools": CATALOG,
    },
)


def test_events_of_earlier_versions_name_no_profile(run_json, tmp_path):
    path = tmp_path / "events.jsonl"
    first = "".join(json.dumps(row) + "\n" for row in EARLIER)
    path.write_text(first + lines(one for one in EVENTS if one.kind != "catalog"))
    found = run_json("stats", path)
    assert (found["never_found"], found["profiles"]) == (["b/never"], {})


@pytest.mark.parametrize("width", [80, 120])
def test_the_text_fits_the_terminal(run, events, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    text = run("stats", events).stdout
    assert max(map(len, text.splitlines())) <= width
    shown = [" ".join(line.split()) for line in text.splitlines()]
    for line in (
        "2026-11-22 20:15 to 2026-11-22 20:15, 2 conversations",
        "saved 1,050 52%",
        "misses 4 80%",
        "server error 1 25%",
        "b 1 1 900 900 0 1",
    ):
        assert line in shown


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


def test_a_damaged_line_is_passed_over_and_named(run, tmp_path):
    path = tmp_path / "events.jsonl"
    damaged = json.dumps({"kind": "call", "session": "s", "at": str(AT), "status": "passed"})
    path.write_text(f"{lines(EVENTS[4:5])}{{cut of\n{damaged}\n")
    told = " ".join(run("stats", path).stderr.split())
    assert "events.jsonl:2: not an event" in told
    assert "events.jsonl:3: not an event: call.tool: Field required" in told
    path.write_text("")
    assert ": no events; " in run("stats", path, code=1).stderr


@given(st.lists(st.sampled_from(EVENTS), max_size=40))
def test_counts_hold_together_for_any_sequence(events):
    found = EventStats(events)
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
