"""Sessions for hosts that hand over a growing list of messages, many conversations at once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from threading import Lock
from typing import Literal

from ..gating.verdict import Verdict
from ..session import Session
from ..session.turn import Turn

MAX_SESSIONS = 1_000
"""Default maximum number of conversations."""


@dataclass(frozen=True, slots=True)
class HostMessage:
    """One message as a host has it.

    Args:
        role: role of the sender.
        text: the text, or the answer of a tool.
        id: id of the message; None if the host has none.
        call_id: id of the call that a tool answers.
        ok: whether that call succeeded.
    """

    role: Literal["user", "assistant", "tool", "other"]
    text: str = ""
    id: str | None = None
    call_id: str | None = None
    ok: bool = True


class HostedSession:
    """A session that follows the messages of a host. Not for several threads at once.

    Args:
        session: session of the conversation.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.lock = Lock()
        self._last_read_id: str | None = None
        self._passed_calls: dict[str, str] = {}

    def check(self, call_id: str, name: str, arguments: object) -> Verdict:
        """`Session.check` for a call that the host knows by an id."""
        verdict = self.session.check(name, arguments)
        if verdict.passed and verdict.tool is not None:
            self._passed_calls[call_id] = verdict.tool.id
        return verdict

    def read(self, messages: Sequence[HostMessage]) -> Turn | None:
        """Read the new messages: from the user, or results of calls that passed.

        Args:
            messages: the whole conversation so far.

        Returns:
            The last turn made from them; None if there was nothing new.
        """
        last_message = messages[-1] if messages else None
        if last_message is None or (
            last_message.id is not None and last_message.id == self._last_read_id
        ):
            return None
        turn = None
        dialogue = _messages_to_last_request(messages)
        is_new_request = last_message.role == "user" and bool(last_message.text.strip())
        if is_new_request or (dialogue and not self.session.conversation.request):
            turn = self.session.turn(
                [{"role": message.role, "content": message.text} for message in dialogue]
            )
        answers = list(takewhile(lambda message: message.role == "tool", reversed(messages)))
        for answer in reversed(answers):
            tool_id = self._passed_calls.pop(answer.call_id or "", None)
            if tool_id is not None:
                turn = self.session.result(tool_id, answer.text, ok=answer.ok)
        self._last_read_id = last_message.id
        return turn


class Conversations:
    """Sessions by key. The least recently used one is dropped when there are too many. Thread-safe.

    Args:
        kept: maximum number of conversations.
    """

    def __init__(self, limit: int = MAX_SESSIONS) -> None:
        self._limit = limit
        self._sessions: OrderedDict[str, HostedSession] = OrderedDict()
        self._lock = Lock()

    def get(self, key: str) -> Session | None:
        """The session of a conversation; None if there is none."""
        with self._lock:
            hosted = self._sessions.get(key)
        return None if hosted is None else hosted.session

    @contextmanager
    def open(self, key: str, begin: Callable[[str], Session]) -> Iterator[HostedSession]:
        """The session of a conversation, for this thread alone.

        Args:
            key: key of the conversation.
            begin: function that makes the session of a new conversation.
        """
        with self._lock:
            hosted = self._sessions.get(key)
            if hosted is None:
                hosted = self._sessions[key] = HostedSession(begin(key))
            self._sessions.move_to_end(key)
            if len(self._sessions) > self._limit:
                self._sessions.popitem(last=False)
        with hosted.lock:
            yield hosted


def _messages_to_last_request(messages: Sequence[HostMessage]) -> list[HostMessage]:
    """The messages up to the last one of the user."""
    dialogue = [
        message
        for message in messages
        if message.role in ("user", "assistant") and message.text.strip()
    ]
    while dialogue and dialogue[-1].role != "user":
        dialogue.pop()
    return dialogue
