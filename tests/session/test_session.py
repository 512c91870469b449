from __future__ import annotations

import json
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from shortlist import Engine, Tool
from shortlist.decision import Decision
from shortlist.errors import RequestError, ShortlistError, UnknownToolError
from shortlist.gating import Rule, State, milestone, requires_scope
from shortlist.session import Message

_REQUESTS = (
    "list the mail messages",
    "delete a folder",
    "what is the weather forecast",
    "share this song and then create a reminder",
    "and for the storm?",
    "yes, do that",
    "search documents; read the playlist",
    "thanks!",
    "qqq zzz",
)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": " "},
        {"role": "user", "content": [{"type": "text", "text": " "}, {"type": "text", "text": ""}]},
        Message("user", "  "),
    ],
)
def test_a_blank_message_of_the_user_is_refused(message: Any) -> None:
    session = Engine.from_tools([Tool("read", "mail")], tiers=["lexical"]).session()
    with pytest.raises(RequestError, match="the last user message is missing or empty"):
        session.turn([message])


def test_turns_append_and_earlier_tools_stay(engine: Engine) -> None:
    session = engine.session(k=3)
    first = session.turn("list mail messages")
    second = session.turn("share a song from the playlist")
    assert first.active == first.ids
    assert second.active[:3] == first.active
    third = session.turn("list mail messages")
    assert third.active[: len(second.active)] == second.active
    assert len(set(third.active)) == len(third.active)


@pytest.mark.no_cover
def test_one_thousand_random_turns_only_append_and_never_leak(
    fresh_engine: Callable[..., Engine],
) -> None:
    engine = fresh_engine(
        Rule(requires_scope("delete"), tools=["*/delete_*"]),
        Rule(requires_scope("share"), server="music"),
    )
    rng = random.Random(7)
    session = engine.session(k=4)
    active: tuple[str, ...] = ()
    for _ in range(1_000):
        scopes = frozenset(scope for scope in ("delete", "share") if rng.random() < 0.5)
        session.state = State(scopes=scopes, called=session.state.called)
        allowed = None
        if rng.random() < 0.2:
            allowed = rng.sample([tool.id for tool in engine.catalog], 30)
        session.allowed = allowed
        called = rng.choice(active) if active and rng.random() < 0.25 else None
        if called is not None and session.check(called, {"id": "1"}).passed:
            active = session.active
            turn = session.result(called, rng.choice(_REQUESTS), ok=rng.random() < 0.8)
        else:
            active = session.active
            turn = session.turn(rng.choice(_REQUESTS))
        session.answered("Here it is.")
        gone = {one.tool_id for one in turn.left}
        kept = tuple(tool_id for tool_id in active if tool_id not in gone)
        assert turn.active[: len(kept)] == kept
        view = session.view()
        offered = {*turn.active, *turn.ids, *(hit.id for hit in turn.results.ranked)}
        assert all(view.permits(tool_id) for tool_id in offered)
        active = turn.active
        if rng.random() < 0.1:
            name = rng.choice([tool.id for tool in engine.catalog])
            session.check(name, {})
            assert session.active[: len(active)] == active
            assert view.permits(name) or name not in session.active[len(active) :]
            active = session.active


def test_a_follow_up_finds_what_the_turn_before_was_about(engine: Engine) -> None:
    session = engine.session(k=5)
    session.turn("What is the weather forecast for Porto?")
    session.answered("18 degrees.")
    turn = session.turn("and for Braga?")
    assert turn.results.context_weight > 0.5
    assert "weather/read_forecast" in turn.ids


def test_a_request_of_its_own_is_not_drowned_by_what_was_said(engine: Engine) -> None:
    session = engine.session(k=5)
    session.turn("What is the weather forecast for Porto?")
    session.answered("18 degrees and no storm.")
    asked = "create a playlist with a song for running, share the playlist with Ann and Bob"
    assert session.turn(asked).ids[0] == engine.session(k=5).turn(asked).ids[0]


def test_a_whole_conversation_stands_in_for_what_is_remembered(engine: Engine) -> None:
    messages = [
        {"role": "user", "content": "What is the weather forecast for Porto?"},
        {"role": "assistant", "content": "18 degrees."},
        {"role": "user", "content": "and for Braga?"},
    ]
    told = engine.session(k=5)
    told.turn("list mail messages")
    step = engine.session(k=5)
    step.turn(messages[0]["content"])
    step.answered(messages[1]["content"])
    assert told.turn(messages).ids == step.turn("and for Braga?").ids


def test_a_single_turn_is_searched_as_the_engine_searches(engine: Engine) -> None:
    for text in ("list mail messages", "the storm", "mail/delete_draft", "share_song"):
        assert engine.session(k=1).turn(text).ids == engine.search(text, k=1).ids


def test_every_intent_gets_its_tools(engine: Engine) -> None:
    turn = engine.session(k=4).turn("list the mail messages and then share the song playlist")
    assert len(turn.results.intents) == 2
    assert {"mail", "music"} <= {hit.tool.server for hit in turn.hits}


def test_a_turn_that_closes_abstains_and_keeps_what_is_active(engine: Engine) -> None:
    session = engine.session(k=3)
    first = session.turn("list mail messages")
    session.answered("There are three.")
    turn = session.turn("great, thanks!")
    assert (turn.abstained, turn.ids, turn.active) == (True, (), first.active)
    assert turn.reason


def test_a_request_that_nothing_matches_abstains(engine: Engine) -> None:
    turn = engine.session().turn("qqq zzz")
    assert (turn.abstained, turn.hits) == (True, ())


def test_a_result_is_searched_with_and_counts_as_a_call(engine: Engine) -> None:
    session = engine.session(k=3, must_offer=False)
    first = session.turn("list the new messages")
    assert session.check("mail/list_message", {"id": "1"}).passed
    assert session.state.called == ()
    turn = session.result("mail/list_message", "Two reminders for an event are attached.")
    assert session.state.called == ("mail/list_message",)
    found = [hit.tool.server for hit in turn.results.ranked]
    before = [hit.tool.server for hit in first.results.ranked]
    assert found.index("calendar") < before.index("calendar")


def test_tools_near_those_called_lately_come_first_in_a_follow_up(engine: Engine) -> None:
    session = engine.session(k=4)
    session.turn("list my event")
    session.check("calendar/read_event")
    assert session.check("calendar/read_event", {"id": "1"}).passed
    session.result("calendar/read_event", "An event.")
    session.answered("An event, a message, a song, a folder.")
    servers = [hit.tool.server for hit in session.turn("delete it").hits]
    assert servers[0] == "calendar"


def test_a_rule_that_needs_a_milestone_follows_the_state(
    fresh_engine: Callable[..., Engine],
) -> None:
    engine = fresh_engine(Rule(milestone("confirmed"), tools=["mail/*"]))
    session = engine.session(k=5)
    assert not any(hit.tool.server == "mail" for hit in session.turn("list mail messages").hits)
    session.state = session.state.reached("confirmed")
    assert session.turn("list mail messages").hits[0].tool.server == "mail"


def test_a_tool_that_is_held_back_later_leaves_with_the_reason(gated: Engine) -> None:
    session = gated.session(state=State(scopes=frozenset({"delete"})), k=3)
    assert "mail/delete_message" in session.turn("delete mail message").active
    session.state = State()
    turn = session.turn("list the folders")
    (departure,) = (one for one in turn.left if one.tool_id == "mail/delete_message")
    assert departure.kind == "scope"
    assert "mail/delete_message" not in turn.active


def test_a_catalog_update_takes_tools_away_and_notes_changes(
    fresh_engine: Callable[..., Engine], tools: list[Tool]
) -> None:
    engine = fresh_engine()
    session = engine.session(k=12)
    first = session.turn("mail message draft")
    gone, changed = first.active[0], first.active[1]
    engine.replace(
        Tool(one.name, one.server, one.description + " now") if one.id == changed else one
        for one in tools
        if one.id != gone
    )
    turn = session.turn("mail message draft")
    assert [(one.tool_id, one.kind) for one in turn.left] == [(gone, "vanished")]
    assert turn.changed == (changed,)
    assert turn.active[0] == changed
    assert session.turn("mail message draft").changed == ()
    assert session.check(gone).status == "unknown"


def test_pinned_tools_are_there_from_the_first_turn_and_stay(engine: Engine) -> None:
    session = engine.session(k=4, pinned=["music/share_song"])
    rng = random.Random(1)
    for _ in range(40):
        assert session.turn(rng.choice(_REQUESTS)).active[0] == "music/share_song"
    with pytest.raises(UnknownToolError, match="music/share_song"):
        engine.session(pinned=["music/share_songs"])


def test_a_saved_session_goes_on_as_the_first_would(engine: Engine) -> None:
    session = engine.session(k=3)
    session.turn("list mail messages")
    session.answered("Three.")
    saved = json.loads(json.dumps(session.save()))
    assert len(json.dumps(saved)) < 2_000
    again = engine.resume(saved, state=State())
    assert again.save() == saved
    for text in ("and the drafts?", "share a song", "delete a folder"):
        mine, other = session.turn(text), again.turn(text)
        assert (mine.ids, mine.active, mine.left) == (other.ids, other.active, other.left)


@pytest.mark.parametrize(
    "damage",
    [
        {"version": 1},
        {"read": {"tools": [["a", 5, "x", "nowhere", False]]}},
        {"read": 3},
        {"turn": "x"},
        {"state": {"scope": []}},
        {"settings": 3},
        {"messages": "x"},
        {"settings": {"tier": "none"}},
        {"settings": {"k": 0}},
        {"waiting": [1]},
        {"provider": "none"},
        {"called": 3},
    ],
)
def test_a_damaged_session_is_refused(engine: Engine, damage: dict[str, Any]) -> None:
    saved = engine.session().save() | damage
    with pytest.raises(ShortlistError):
        engine.resume(saved, state=State())
    for key in damage:
        del saved[key]
    with pytest.raises(RequestError):
        engine.resume(saved, state=State())


def test_a_session_saved_in_another_form_is_refused_by_its_version(engine: Engine) -> None:
    saved = engine.session().save() | {"version": 2}
    with pytest.raises(RequestError, match="version 2, not 6"):
        engine.resume(saved, state=State())


@pytest.mark.parametrize(
    "wrong",
    [
        {"tier": "none"},
        {"k": 0},
        {"k": True},
        {"k": "3"},
        {"state": 3},
        {"provider": "x"},
        {"kk": 1},
    ],
)
def test_wrong_arguments_are_refused(engine: Engine, wrong: dict[str, Any]) -> None:
    with pytest.raises(ShortlistError):
        engine.session(**wrong).turn("list mail")


def test_a_turn_without_words_is_refused(engine: Engine) -> None:
    session = engine.session()
    for messages in ("", "  ", [], [{"role": "assistant", "content": "hi"}]):
        with pytest.raises(RequestError, match="messages"):
            session.turn(messages)
    session.turn("list mail")
    assert session.save()["turn"] == 1


def test_threads_share_a_session(engine: Engine) -> None:
    session = engine.session(k=4)
    before = engine.catalog.fingerprint

    def act(seed: int) -> list[tuple[str, ...]]:
        rng, seen = random.Random(seed), []
        for _ in range(15):
            seen.append(session.turn(rng.choice(_REQUESTS)).active)
            session.check(rng.choice(["music/share_song", "files/read_folder"]), {"id": "1"})
            session.answered("Done.")
            json.dumps(session.save())
        return seen

    with ThreadPoolExecutor(4) as pool:
        orders = [active for seen in pool.map(act, range(4)) for active in seen]
    final = session.active
    assert all(final[: len(active)] == active for active in orders)
    assert session.save()["turn"] == 60
    assert engine.catalog.fingerprint == before


class _Decider:
    def __init__(self, abstain: bool = False) -> None:
        self.abstain = abstain

    def decide(self, selection: Any) -> Decision:
        return Decision(self.abstain, "model", 0.25, "nothing fits" if self.abstain else None)


def _deciding(engine: Engine, decider: _Decider) -> Engine:
    """An engine over the same index with another decision."""
    made = Engine(engine._builder, engine._builder.begin(engine.catalog, engine._version.index))
    made._version = replace(made._version, decider=decider)
    return made


def test_a_turn_has_the_probability_of_its_decision(engine: Engine) -> None:
    events: list[Any] = []
    session = _deciding(engine, _Decider()).session(k=10, events=events.append)
    turn = session.turn("list the mail messages")
    assert (len(turn.hits), events[0].fits) == (10, 0.25)
    assert turn.results.merged_selection.dropped == ()


def test_a_turn_offers_no_tool_below_the_threshold(engine: Engine, tools: list[Tool]) -> None:
    best, *others = engine.search("update an event with the list of calendar files").hits
    limit = (best.score + others[0].score) / 2
    strict = Engine.from_tools(tools, tiers={"lexical": {"threshold": limit}}, abstention="off")
    turn = strict.session(k=10, tier="lexical").turn(
        "update an event with the list of calendar files"
    )
    assert turn.ids == (best.id,)
    assert len(turn.results.merged_selection.dropped) >= len(others)
    assert not turn.abstained
    # Its name is never dropped, however high the threshold.
    never = Engine.from_tools(tools, tiers={"lexical": {"threshold": 1e9}}, abstention="off")
    session = never.session(k=10, tier="lexical")
    nothing = session.turn("update an event with the list of calendar files")
    assert nothing.abstained
    assert "drops scores below 1e+09" in (nothing.reason or "")
    assert session.turn(tools[0].id).ids == (tools[0].id,)


def test_a_decider_abstains_and_nothing_becomes_active(engine: Engine) -> None:
    turn = _deciding(engine, _Decider(abstain=True)).session().turn("list the mail messages")
    assert (turn.abstained, turn.reason, turn.active) == (True, "nothing fits", ())


def test_the_exact_name_wins_whatever_was_said_before(engine: Engine, tools: list[Tool]) -> None:
    for tool in tools[::7]:
        session = engine.session(k=3)
        session.turn("What is the weather forecast for Porto?")
        session.answered("18 degrees and no storm; shall I share a song?")
        assert session.turn(tool.id).ids[0] == tool.id
        assert session.turn(f"`{tool.name}`").hits[0].tool.name == tool.name


class _Strict(_Decider):
    """Abstains on what names none of the tools' words."""

    def decide(self, selection: Any) -> Decision:
        abstained = not selection.hits
        return Decision(abstained, "model", 0.01 if abstained else 0.9)


@pytest.mark.parametrize(
    ("asked", "abstained"),
    [
        ("and for Braga?", False),
        (
            "why did Shakespeare's contemporaries so disdain long sonnets about melancholy kings",
            True,
        ),
    ],
)
def test_a_turn_apart_from_the_conversation_is_judged_by_itself(
    engine: Engine, asked: str, abstained: bool
) -> None:
    session = _deciding(engine, _Strict()).session()
    session.turn("What is the weather forecast for Porto?")
    session.answered("18 degrees.")
    assert session.turn(asked).abstained is abstained


def test_thanks_end_nothing_where_nothing_was_said_before(engine: Engine) -> None:
    assert engine.session().turn("thanks").reason != "the user asks for nothing more"
    session = engine.session()
    session.turn("list mail messages")
    assert session.turn("thanks").reason == "the user asks for nothing more"
