from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.errors import RequestError
from shortlist.session import Conversation, Message
from shortlist.session.conversation import CONTEXT_CHARS, MAX_MESSAGES, weigh_context

_MESSAGES = st.lists(
    st.builds(Message, st.sampled_from(["user", "assistant", "tool", "system"]), st.text()),
    max_size=30,
)


def said(*turns: str) -> Conversation:
    roles = ("user", "assistant")
    return Conversation.of(
        [{"role": roles[at % 2], "content": text} for at, text in enumerate(turns)]
    )


def test_context_is_the_request_then_what_was_said_newest_first() -> None:
    conversation = said("Weather in Porto?", "18 degrees.", "and in Braga?")
    assert conversation.request == "and in Braga?"
    assert conversation.last_answer == "18 degrees."
    assert conversation.in_context == "and in Braga?\n18 degrees. Weather in Porto?"


def test_a_first_turn_has_no_context() -> None:
    conversation = said("Weather in Porto?")
    assert conversation.in_context == conversation.request == "Weather in Porto?"


def test_parts_of_content_are_read_and_other_roles_passed_over() -> None:
    conversation = Conversation.of(
        [
            {"role": "system", "content": "You are a pirate."},
            {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "image"}]},
            {"role": "assistant", "content": None, "tool_calls": []},
            {"role": "tool", "content": "secret"},
            {"role": "assistant", "content": "Hello"},
            {"role": "user", "content": " mail Ann "},
        ]
    )
    assert conversation.to_dict() == [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "mail Ann"},
    ]


def test_what_follows_the_last_user_turn_is_not_its_context() -> None:
    assert said("Mail Ann", "Sent.").in_context == "Mail Ann"


@settings(deadline=None)
@given(_MESSAGES)
def test_memory_is_bounded_and_survives_its_json_form(messages: list[Message]) -> None:
    conversation = Conversation().extended(messages)
    assert len(conversation.messages) <= MAX_MESSAGES
    assert len(conversation.in_context) <= len(conversation.request) + 1 + CONTEXT_CHARS
    spoken = [one.content for one in messages if one.role == "user" and one.content]
    if conversation.request:
        assert conversation.request == spoken[-1][:8_000]
    assert Conversation().extended(conversation.messages) == conversation


@pytest.mark.parametrize(
    "messages",
    ["hello", {"role": "user"}, 3, [{"content": "x"}], ["x"], [{"role": "user", "content": 3}]],
)
def test_what_is_no_conversation_is_refused(messages: Any) -> None:
    with pytest.raises(RequestError, match="messages"):
        Conversation.of(messages)


def test_short_turns_that_gain_from_context_lean_on_it_and_full_ones_do_not() -> None:
    follow_up = weigh_context("and for March?", 0.3, 0.6)
    standalone = weigh_context(
        "List the open pull requests of orchard/payments that nobody reviewed", 0.7, 0.6
    )
    assert follow_up > 0.5 > 0.1 > standalone >= 0


@settings(deadline=None)
@given(st.text(max_size=300), st.floats(-50, 50), st.floats(-50, 50))
def test_the_weight_of_context_is_bounded(request: str, alone: float, within: float) -> None:
    assert 0 <= weigh_context(request, alone, within) <= 0.6
