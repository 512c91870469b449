"""A saved session, read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import RequestError
from ..gating import State
from .active import Active
from .conversation import Conversation

VERSION = 2


@dataclass(frozen=True, slots=True)
class SavedSession:
    """The state of a saved session; see `Session.save`."""

    id: str
    format: str | None
    settings: Mapping[str, Any]
    state: State
    allowed: tuple[str, ...] | None
    turn: int
    called: tuple[str, ...]
    passed: Mapping[str, int]
    conversation: Conversation
    active: Active
    prompt: Mapping[str, Any] | None


def read_saved(values: Mapping[str, Any]) -> SavedSession:
    """A session from its JSON form.

    Raises:
        RequestError: it is damaged or of another version.
    """
    if not isinstance(values, Mapping):
        raise RequestError(
            f"saved session: a mapping, as `Session.save` gives, not {type(values).__name__}; "
            "use: engine.resume(saved)"
        )
    if values.get("version") != VERSION:
        raise RequestError(
            f"saved session: version {values.get('version')!r:.20}, not {VERSION}: start a new one"
        )
    try:
        allowed, shown = values["allowed"], values["prompt"]
        return SavedSession(
            id=str(values["id"]),
            format=None if values["format"] is None else str(values["format"]),
            settings=dict(values["settings"]),
            state=State.from_dict(values["state"]),
            allowed=None if allowed is None else tuple(map(str, allowed)),
            turn=int(values["turn"]),
            called=tuple(map(str, values["called"])),
            passed={str(tool): int(count) for tool, count in values["passed"].items()},
            conversation=Conversation.of(values["messages"]),
            active=Active.from_dict(values["active"]),
            prompt=None if shown is None else {"prompt": shown["prompt"], "late": shown["late"]},
        )
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise RequestError(f"saved session: damaged: {error!r:.200}") from error
