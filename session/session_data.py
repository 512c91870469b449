"""What a session remembers, and its JSON form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from ..config import SessionConfig
from ..errors import RequestError
from ..gating import State
from .conversation import Conversation
from .pending import CallProgress

SAVED_VERSION = 6


def new_id() -> str:
    """An id for a session that was given none."""
    return uuid4().hex


def checked_allowed(allowed: Iterable[str] | None) -> tuple[str, ...] | None:
    """The ids and globs that a session is limited to.

    Raises:
        RequestError: it is no list.
    """
    if isinstance(allowed, str):
        raise RequestError(f"allowed: a list of ids or globs, not the text {allowed[:80]!r}")
    if allowed is not None and not isinstance(allowed, Iterable):
        raise RequestError(f"allowed: a list of ids or globs, not {type(allowed).__name__}")
    return None if allowed is None else tuple(allowed)


def _saved_settings(settings: SessionConfig) -> dict[str, Any]:
    """The settings that were changed, without objects."""
    objects = {"events"} | (set() if isinstance(settings.tier, str | None) else {"tier"})
    return settings.model_dump(mode="json", exclude=objects, exclude_defaults=True)


@dataclass(slots=True)
class SessionData:
    """What a session remembers between its steps.

    Args:
        id: names the session in events.
        provider: name of the provider for which tools are rendered; None renders nothing.
        way: how found tools reach the model; None for the provider's default.
        state: the state of the agent, with its successful calls.
        allowed: ids or globs the session is limited to; None for all tools.
        turn: number of the last turn.
        replies: number of replies with calls since the user's last message.
        conversation: the messages.
        called_ids: ids of the tools called since the user's last message, in order.
        waiting_calls: id of a tool to the number of its calls that passed the check and have no
            outcome yet.
        read: JSON form of what the model has read, to continue from; None for a new session.
        pending: the reply that waits for a person's decision, if there is one.
    """

    id: str = field(default_factory=new_id)
    provider: str | None = None
    way: str | None = None
    state: State = field(default_factory=State)
    allowed: tuple[str, ...] | None = None
    turn: int = 0
    replies: int = 0
    conversation: Conversation = field(default_factory=Conversation)
    called_ids: tuple[str, ...] = ()
    waiting_calls: Counter[str] = field(default_factory=Counter)
    read: Mapping[str, Any] | None = None
    pending: Mapping[str, Any] | None = None

    def to_dict(self, settings: SessionConfig, read: Mapping[str, Any]) -> dict[str, Any]:
        """JSON form; see `Session.save`.

        Args:
            settings: settings of the session.
            read: JSON form of what the model has read.
        """
        return {
            "version": SAVED_VERSION,
            "id": self.id,
            "provider": self.provider,
            "tools": self.way,
            "settings": _saved_settings(settings),
            "state": self.state.to_dict(),
            "allowed": None if self.allowed is None else list(self.allowed),
            "turn": self.turn,
            "replies": self.replies,
            "messages": self.conversation.to_dict(),
            "called": list(self.called_ids),
            "waiting": {tool_id: count for tool_id, count in self.waiting_calls.items() if count},
            "read": read,
            "pending": None if self.pending is None else dict(self.pending),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> tuple[SessionData, dict[str, Any]]:
        """A session from its JSON form, and its settings.

        Raises:
            RequestError: it is of another version, or no mapping.
            LookupError, TypeError, ValueError, AttributeError, ArithmeticError: it is damaged.
        """
        if not isinstance(values, Mapping):
            raise RequestError(
                "saved session: a mapping, as `Session.save` gives, not "
                f"{type(values).__name__}; use: engine.resume(saved, state=...)"
            )
        if "version" not in values:
            raise RequestError("saved session: has no version; pass what `Session.save` gave")
        if (version := values.get("version")) != SAVED_VERSION:
            raise RequestError(
                f"saved session: version {version!r:.20}, not {SAVED_VERSION}: another version of "
                "shortlist wrote it; start a new session"
            )
        allowed, read = values["allowed"], values["read"]
        if not isinstance(read, Mapping):
            raise TypeError(f"read: {type(read).__name__}")
        data = cls(
            id=str(values["id"]),
            provider=None if values["provider"] is None else str(values["provider"]),
            way=None if values["tools"] is None else str(values["tools"]),
            state=State.from_dict(values["state"]),
            allowed=None if allowed is None else tuple(map(str, allowed)),
            turn=int(values["turn"]),
            replies=int(values["replies"]),
            conversation=Conversation.of(values["messages"]),
            called_ids=tuple(map(str, values["called"])),
            waiting_calls=Counter(
                {str(tool_id): int(count) for tool_id, count in values["waiting"].items()}
            ),
            read=read,
            pending=values["pending"],
        )
        if data.pending is not None:
            CallProgress.of(data.pending)  # raises if it is damaged
        return data, dict(values["settings"])
