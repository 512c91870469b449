"""Parts of events: where and when, denied tools, and the JSON form of a field."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..retrieval.refusal import Refusal


@dataclass(frozen=True, slots=True)
class Place:
    """Where and when a decision was made.

    Args:
        session: id of the session.
        turn: number of the turn in the session, from 1; 0 before the first.
        at: time of the decision, with time zone.
    """

    session: str
    turn: int
    at: datetime

    @classmethod
    def now(cls, session: str, turn: int) -> Place:
        """The place of a decision made now."""
        return cls(session, turn, datetime.now(UTC))

    @property
    def turn_id(self) -> str:
        """Id of the turn, unique among all sessions: `session/turn`."""
        return f"{self.session}/{self.turn}"

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "turn_id": self.turn_id,
            "session": self.session,
            "turn": self.turn,
            "at": self.at.isoformat(timespec="milliseconds"),
        }


@dataclass(frozen=True, slots=True)
class Denied:
    """A tool that is denied.

    Args:
        tool: its id.
        kind: kind of the refusal, or why an active tool was removed.
        reason: one sentence.
        unlocked_by: ids of permitted tools; a call of them makes this tool permitted.
    """

    tool: str
    kind: str
    reason: str
    unlocked_by: tuple[str, ...] = ()

    @classmethod
    def of(cls, refusal: Refusal) -> Denied:
        """The part of a refusal that events have."""
        return cls(refusal.label, refusal.kind, refusal.reason, refusal.unlocked_by)

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        told: dict[str, Any] = {"tool": self.tool, "kind": self.kind, "reason": self.reason}
        return told | ({"unlocked_by": list(self.unlocked_by)} if self.unlocked_by else {})


def short(value: float | None, digits: int = 6) -> float | None:
    """A number for JSON: rounded; None if it is infinite or not a number."""
    return None if value is None or not math.isfinite(value) else round(value, digits)


def plain(value: Any, digits: int) -> Any:
    """A field in its JSON form; numbers in it are rounded."""
    if isinstance(value, Denied):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: plain(item, digits) for key, item in value.items()}
    if isinstance(value, tuple):
        return [plain(item, digits) for item in value]
    return short(value, digits) if isinstance(value, float) else value
