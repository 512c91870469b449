"""What a session remembers, and its JSON form."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from ..config import SessionConfig
from ..errors import RequestError
from ..gating import State
from ..loaders.history import ToolHistory
from .conversation import Conversation

SAVED_VERSION = 4


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
        format: the provider's format in which tools are rendered; None renders nothing.
        state: the state of the agent, with its successful calls.
        allowed: ids or globs the session is limited to; None for all tools.
        turn: number of the last turn.
        replies: number of replies with calls since the user's last message.
        conversation: the messages.
        history: what the model has seen of the tools, and its calls.
        prompt: JSON form of the prompt to continue from, until the first step.
    """

    id: str = field(default_factory=new_id)
    format: str | None = None
    state: State = field(default_factory=State)
    allowed: tuple[str, ...] | None = None
    turn: int = 0
    replies: int = 0
    conversation: Conversation = field(default_factory=Conversation)
    history: ToolHistory = field(default_factory=ToolHistory)
    prompt: Mapping[str, Any] | None = None

    def to_dict(
        self,
        settings: SessionConfig,
        prompt: Mapping[str, Any] | None,
        prefix_ids: Collection[str],
    ) -> dict[str, Any]:
        """JSON form; see `Session.save`.

        Args:
            settings: settings of the session.
            prompt: JSON form of its prompt.
            prefix_ids: ids of the tools whose arguments the prompt's prefix shows.
        """
        return {
            "version": SAVED_VERSION,
            "id": self.id,
            "format": self.format,
            "settings": _saved_settings(settings),
            "state": self.state.to_dict(),
            "allowed": None if self.allowed is None else list(self.allowed),
            "turn": self.turn,
            "replies": self.replies,
            "messages": self.conversation.to_dict(),
            "history": self.history.to_dict(without=prefix_ids),
            "prompt": prompt,
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
                f"saved session: version {version!r:.20}, not {SAVED_VERSION}: start a new one"
            )
        allowed, prompt = values["allowed"], values["prompt"]
        data = cls(
            id=str(values["id"]),
            format=None if values["format"] is None else str(values["format"]),
            state=State.from_dict(values["state"]),
            allowed=None if allowed is None else tuple(map(str, allowed)),
            turn=int(values["turn"]),
            replies=int(values["replies"]),
            conversation=Conversation.of(values["messages"]),
            history=ToolHistory.from_dict(values["history"]),
            prompt=None if prompt is None else {"layout": prompt["layout"], "late": prompt["late"]},
        )
        return data, dict(values["settings"])
