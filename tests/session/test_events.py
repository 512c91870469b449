"""What events tell, and what they never tell."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist import Tool
from shortlist.decision import Decider, Decision
from shortlist.errors import RequestError
from shortlist.gating import Rule, State, after, requires_scope
from shortlist.session.event import MAX_CANDIDATES, CallEvent, Event, TurnEvent
from shortlist.session.recorder import Recorder

from .conftest import make_engine, some_tools


def recorded(**given: Any) -> tuple[list[Event], Recorder]:
    events: list[Event] = []
    return events, Recorder(events.append, **given)


def text_of(event: Event) -> str:
    return event.model_dump_json(exclude_none=True)


def test_a_turn_tells_what_was_decided(engine):
    events, recorder = recorded()
    session = engine.session(k=4, events=recorder, session_id="s1")
    turn = session.turn("list my messages")
    (event,) = events
    assert isinstance(event, TurnEvent)
    assert event.turn_id == "s1/1"
    assert event.at.utcoffset() is not None
    assert event.offered == turn.ids
    assert event.active == event.added == turn.active
    assert [one.id for one in event.candidates][:4] == list(turn.ids)
    assert 4 < len(event.candidates) <= MAX_CANDIDATES
    assert (event.tier, event.tier_asked) == ("lexical", "lexical")
    assert event.catalog == engine.catalog.fingerprint
    assert {"search", "session", "search.lexical"} <= set(event.timings)
    assert event.denied.count == 0
    assert event.content is None
    assert event.dropped == 0


def test_every_event_is_json(engine):
    events, recorder = recorded()
    session = engine.session(events=recorder, k=10)
    session.turn("list my messages")
    assert session.check("mail/list_message", {"id": "7"}).passed
    session.result("mail/list_message", "Nothing new.")
    session.check("mail/list_message", {"id": 7})
    session.check("nothing", {})
    told = [json.loads(text_of(event)) for event in events]
    assert [one["kind"] for one in told] == ["turn", "call", "turn", "call", "call"]
    assert [one["turn"] for one in told] == [1, 1, 2, 2, 2]
    assert (told[2]["called"], told[2]["ok"]) == ("mail/list_message", True)
    assert "tokens" not in told[0]
    assert told[3]["status"] == "invalid"
    assert told[3]["problems"] == [{"path": "/id", "expected": "string"}]
    assert told[4]["status"] == "unknown"


@pytest.mark.parametrize(
    "name", ["\x1b[2Jclear\u202e", "x" * 10_000, "\ud800", "a\nb", "", 7, None]
)
def test_a_name_a_model_made_up_is_fit_for_a_log(engine, name):
    events, recorder = recorded()
    assert engine.session(events=recorder).check(name, {}).status == "unknown"
    (event,) = events
    assert isinstance(event, CallEvent)
    assert len(event.tool) <= 200
    assert event.tool == "" or event.tool.isprintable()
    event.tool.encode()
    json.loads(text_of(event))


def test_a_turn_that_asks_for_nothing_is_an_event(engine):
    events, recorder = recorded()
    session = engine.session(events=recorder)
    session.turn("list my messages")
    session.answered("You have two.")
    session.turn("thanks!")
    assert isinstance(events[1], TurnEvent)
    assert events[1].abstained
    assert events[1].tier is None
    assert events[1].reason == "the user asks for nothing more"


def test_a_turn_tells_how_sure_its_decider_was(engine):
    class Doubtful(Decider):
        def decide(self, selection):
            return Decision(True, "model", 0.01, "no tool fits")

    events, recorder = recorded()
    doubting = make_engine()
    doubting._version = replace(doubting._version, decider=Doubtful())
    doubting.session(events=recorder).turn("list my messages")
    (event,) = events
    assert isinstance(event, TurnEvent)
    assert (event.abstained, event.fits, event.reason) == (True, 0.01, "no tool fits")
    assert event.offered == ()
    assert event.candidates


def test_no_word_of_what_was_said_unless_asked_for(engine):
    secret = "list my messages about the zanzibar merger"
    wrong = {"id": 55512345}
    for content in (False, True):
        events, recorder = recorded(content=content)
        session = engine.session(events=recorder)
        session.turn(secret)
        assert session.check("mail/list_message", {"id": "1"}).passed
        session.result("mail/list_message", "zanzibar closes on Monday")
        session.check("mail/list_message", wrong)
        told = "".join(map(text_of, events))
        assert ("zanzibar" in told) is content
        assert ("Monday" in told) is content
        assert ("55512345" in told) is content
        assert ("of the user" in told) is content


def test_the_hash_of_a_request_is_known_only_with_its_key(engine):
    told = set()
    for key in (b"", b"one", b"other"):
        events, recorder = recorded(key=key)
        engine.session(events=recorder).turn("list my messages")
        assert isinstance(events[0], TurnEvent)
        plain = blake2b(b"list my messages", digest_size=16, key=key).hexdigest()
        assert events[0].query == recorder.hashed("list my messages") == plain
        told.add(events[0].query)
    assert len(told) == 3


def test_what_left_the_session_is_told_with_its_reason():
    engine = make_engine(Rule(requires_scope("delete"), tools=["*/delete_*"]))
    events, recorder = recorded()
    session = engine.session(state=State({"delete"}), events=recorder)
    session.turn("delete my message")
    session.state = State()
    session.turn("list my messages")
    event = events[1]
    assert isinstance(event, TurnEvent)
    assert "mail/delete_message" in [one.tool for one in event.left]
    assert {one.kind for one in event.left} == {"scope"}
    assert event.denied.count == 10
    assert "'delete'" in event.denied.nearest[0].reason


def test_how_a_prompt_shows_a_turn_is_an_event(engine):
    events, recorder = recorded()
    session = engine.session(
        "openai", k=3, pass_through=0, pool_tokens=0, events=recorder, session_id="s1"
    )
    turn = session.turn("list my messages")
    event = events[-1]
    assert isinstance(event, TurnEvent)
    assert event.turn_id == "s1/1"
    assert {event.levels[tool_id] for tool_id in turn.ids} <= {"full", "signature"}
    assert event.head_tokens == turn.shown.head_tokens > 0
    assert event.message_tokens == turn.shown.message_tokens > 0
    assert event.head_is_new
    json.loads(text_of(event))


class Broken:
    def __call__(self, event: Event) -> None:
        raise OSError("the disk is full")

    def __repr__(self) -> str:
        return "Broken()"


def test_a_failing_sink_fails_no_turn_and_is_told_of_once(engine, caplog):
    events: list[Event] = []
    recorder = Recorder(Broken(), events.append)
    session = engine.session(events=recorder)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert session.turn("list my messages").hits
    assert len(events) == 3
    assert recorder.failures == (3, 0)
    (logged,) = caplog.records
    assert "Broken()" in logged.message
    assert logged.exc_info is not None


def test_what_stops_a_program_is_no_failure_of_a_sink(engine):
    def stop(event: Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.session(events=Recorder(stop)).turn("list my messages")


@pytest.mark.parametrize(
    ("sinks", "given"),
    [((), {}), (("log.jsonl",), {}), ((print,), {"key": "text"}), ((print,), {"key": b"x" * 65})],
)
def test_a_recorder_of_nothing_is_refused(sinks, given):
    with pytest.raises(RequestError, match="events"):
        Recorder(*sinks, **given)


_TOOLS = [
    Tool(tool.name, tool.server, f"{tool.description} zq{at}zq", tool.input_schema)
    for at, tool in enumerate(some_tools())
]
_ENGINE = make_engine(
    *(Rule(requires_scope(tool.id), tools=[tool.id]) for tool in _TOOLS), tools=_TOOLS
)
_IDS = [tool.id for tool in _TOOLS]


@settings(max_examples=40, deadline=None)
@given(
    denied=st.sets(st.sampled_from(_IDS), min_size=1, max_size=50),
    asked=st.lists(st.sampled_from(_IDS), min_size=1, max_size=3),
    content=st.booleans(),
)
def test_of_a_tool_held_back_no_more_than_its_id_and_the_reason(denied, asked, content):
    events, recorder = recorded(content=content)
    everything = State(frozenset(_IDS))
    session = _ENGINE.session(state=everything, k=8, events=recorder)
    session.turn("list and share all messages, songs and folders")
    session.state = State(frozenset(_IDS) - denied)
    events.clear()
    for tool_id in asked:
        session.turn(tool_id.replace("/", " ").replace("_", " "))
        session.check(tool_id, {"id": "1"})
        session.check(f"{tool_id[:-1]}", {})
    for event in events:
        told = event.model_dump(exclude_none=True)
        told.pop("content", {}).pop("queries", None)
        if isinstance(event, TurnEvent):
            reasons = [*told.pop("left"), *told.pop("denied")["nearest"]]
        else:
            assert isinstance(event, CallEvent)
            assert not (set(told["nearest"]) & denied)
            reasons = [told.pop("denied")] if "denied" in told else []
            told.pop("tool")
        for one in reasons:
            assert one["tool"] in denied
            assert set(one) <= {"tool", "kind", "reason", "unlocked_by"}
            assert not (set(one.get("unlocked_by", ())) & denied)
        rest = text_of(event)
        assert not [tool.id for tool in _TOOLS if tool.id in denied and tool.description in rest]
        left = json.dumps(told, default=str)
        assert not [tool_id for tool_id in denied if f'"{tool_id}"' in left]


def test_what_unlocks_a_tool_is_told():
    engine = make_engine(Rule(after("mail/list_*"), tools=["mail/delete_*"]))
    events, recorder = recorded()
    engine.session(events=recorder).check("mail/delete_message", {"id": "1"})
    (event,) = events
    assert isinstance(event, CallEvent)
    assert event.turn == 0
    assert event.denied is not None
    assert set(event.denied.unlocked_by) == {"mail/list_message", "mail/list_draft"}
