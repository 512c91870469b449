"""What the model of one conversation has seen of its tools, and which of them it has called.

A session and its prompt share one `ToolHistory`; nothing else records this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple, Self

from ..catalog import Tool
from ..errors import RequestError


class SeenLevel(IntEnum):
    """How much of a tool's definition the model has seen, from least to most."""

    NEVER = 0
    """Nothing, its name, or its purpose. Not enough for a call."""
    LINE = 1
    """One line with its arguments."""
    FULL = 2
    """The definition, or a signature with the types of all arguments."""


class ToolRecord(NamedTuple):
    """What a conversation knows about one tool.

    A tool that a turn finds becomes `active`. It is `offered` once a prompt has been written with
    it. With a working set, some active tools are `promoted`: prompts show their definitions. The
    other active tools have one line only.

    Attributes:
        fingerprint: fingerprint of the definition that the model has seen; empty for none.
        shown: how much of it prompts have shown since the user's last message.
        active: whether the conversation offers it, in this turn and later ones.
        used: number of the turn, from 1, in which it was last found or called; 0 for never.
        pinned: whether it is never removed to make room.
        offered: whether it was active when the last prompt was written.
        promoted: whether a working set chose it to be shown with its definition.
        answered: whether the answer to a search by the model has its definition.
    """

    fingerprint: str = ""
    shown: SeenLevel = SeenLevel.NEVER
    active: bool = False
    used: int = 0
    pinned: bool = False
    offered: bool = False
    promoted: bool = False
    answered: bool = False

    @property
    def seen(self) -> SeenLevel:
        """How much of the definition the model has seen."""
        return SeenLevel.FULL if self.active else self.shown

    def to_dict(self) -> dict[str, Any]:
        """JSON form: the fields that are set."""
        form = {name: getattr(self, name) for name in self._fields if getattr(self, name)}
        return form | ({"shown": self.shown.name} if self.shown else {})

    @classmethod
    def from_dict(cls, form: Mapping[str, Any]) -> Self:
        """A record from its JSON form.

        Raises:
            KeyError, TypeError, ValueError: it is not one.
        """
        values = {**form, "shown": SeenLevel[form.get("shown", "NEVER")]}
        record = cls(**values)
        flags = (
            record.active,
            record.pinned,
            record.offered,
            record.promoted,
            record.answered,
        )
        if not isinstance(record.fingerprint, str) or type(record.used) is not int:
            raise TypeError("a fingerprint is a text, and a turn is a number")
        if not all(isinstance(flag, bool) for flag in flags):
            raise TypeError("active, pinned, offered, promoted and answered are true or false")
        return record


_NEW_TOOL = ToolRecord()


def _without_shown(record: ToolRecord) -> ToolRecord:
    """The record after the prompts that showed the tool are gone."""
    fingerprint = record.fingerprint if record.active else ""
    return record._replace(shown=SeenLevel.NEVER, fingerprint=fingerprint)


class ToolHistory:
    """What one conversation has seen of its tools, and its calls. Not thread-safe.

    Attributes:
        called_ids: ids of the tools called since the user's last message, in order.
        waiting_calls: id of a tool to the number of its calls that passed the check and have no
            result yet.
        servers_in_use: servers in use, the one called last at the end.
    """

    def __init__(self) -> None:
        self._records: dict[str, ToolRecord] = {}
        self.called_ids: tuple[str, ...] = ()
        self.waiting_calls: Counter[str] = Counter()
        self.servers_in_use: tuple[str, ...] = ()

    def record_of(self, tool_id: str) -> ToolRecord:
        """The record of a tool; a blank one for a tool that is new to the conversation."""
        return self._records.get(tool_id, _NEW_TOOL)

    @property
    def active(self) -> tuple[str, ...]:
        """Ids of the active tools, in the order they came."""
        return tuple(tool_id for tool_id, record in self._records.items() if record.active)

    def activate(
        self, tools: Iterable[Tool], turn: int, *, pinned: bool = False
    ) -> tuple[str, ...]:
        """Add tools to the active ones, at the end. Those that are active count as used.

        Either way the model receives their present definitions.

        Args:
            tools: the tools.
            turn: number of the turn.
            pinned: whether they are never removed to make room.

        Returns:
            Ids of the tools that were not active, in order.
        """
        added = []
        for tool in tools:
            record = self.record_of(tool.id)
            if not record.active:
                self._records.pop(tool.id, None)
                added.append(tool.id)
            self._records[tool.id] = record._replace(
                fingerprint=tool.fingerprint,
                active=True,
                used=turn,
                pinned=pinned or (record.active and record.pinned),
            )
        return tuple(added)

    def deactivate(self, tool_ids: Iterable[str]) -> None:
        """Remove tools from the active ones."""
        for tool_id in tool_ids:
            record = self.record_of(tool_id)
            self._records[tool_id] = record._replace(
                active=False,
                used=0,
                pinned=False,
                answered=False,
                fingerprint=record.fingerprint if record.shown else "",
            )

    def note_resent(self, tools: Iterable[Tool]) -> None:
        """Note that the model receives the present definitions of these active tools."""
        for tool in tools:
            record = self.record_of(tool.id)
            self._records[tool.id] = record._replace(fingerprint=tool.fingerprint, answered=False)

    @property
    def answered_ids(self) -> tuple[str, ...]:
        """Ids of the active tools whose definition an answer to a search has."""
        return tuple(tool_id for tool_id, record in self._records.items() if record.answered)

    def note_answered(self, tool_ids: Iterable[str]) -> None:
        """Note that the answer to a search of the model has the definitions of active tools."""
        for tool_id in tool_ids:
            self._records[tool_id] = self.record_of(tool_id)._replace(answered=True)

    def note_shown(self, tool: Tool, level: SeenLevel) -> None:
        """Note that a prompt shows a tool.

        For an active tool, the fingerprint stays that of the definition it was offered with.
        """
        record = self._records.get(tool.id)
        if record is None:
            self._records[tool.id] = ToolRecord(tool.fingerprint, level)
        elif record.fingerprint != tool.fingerprint or record.shown < level:
            fingerprint = record.fingerprint if record.active else tool.fingerprint
            self._records[tool.id] = record._replace(shown=level, fingerprint=fingerprint)

    def note_offered(self, offered: Collection[str], promoted: Collection[str]) -> None:
        """Note which tools a prompt is written with; see `ToolRecord`.

        Args:
            offered: ids of the active tools. All others are no longer offered.
            promoted: ids of the tools that are promoted from now on.
        """
        before = {tool_id for tool_id, record in self._records.items() if record.offered}
        for tool_id in sorted(before.symmetric_difference(offered).union(promoted)):
            record = self.record_of(tool_id)
            self._records[tool_id] = record._replace(
                offered=tool_id in offered,
                promoted=record.promoted or tool_id in promoted,
            )

    def use_server(self, server: str) -> None:
        """Note that a tool of a server was called."""
        self.servers_in_use = (*(name for name in self.servers_in_use if name != server), server)

    def begin_turn(self) -> None:
        """Start a user's turn: forget what earlier prompts showed of tools that are not active."""
        self.called_ids = ()
        self._records = {
            tool_id: _without_shown(record) if record.shown else record
            for tool_id, record in self._records.items()
            if record.active or record.offered or record.promoted
        }

    def to_dict(self, *, without: Collection[str] = ()) -> dict[str, Any]:
        """JSON form.

        Args:
            without: ids of tools that the prefix shows. Records that say only this are left out: a
                resumed prompt shows its prefix again.
        """
        tools = {
            tool_id: record.to_dict()
            for tool_id, record in self._records.items()
            if tool_id not in without or record.active or record.offered or record.promoted
        }
        return {
            "tools": [{"id": tool_id, **form} for tool_id, form in tools.items()],
            "called": list(self.called_ids),
            "waiting": {tool_id: count for tool_id, count in self.waiting_calls.items() if count},
            "servers": list(self.servers_in_use),
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """A history from its JSON form.

        Raises:
            RequestError: it is not one.
        """
        history = cls()
        try:
            for form in saved["tools"]:
                fields = {name: value for name, value in form.items() if name != "id"}
                history._records[str(form["id"])] = ToolRecord.from_dict(fields)
            history.called_ids = tuple(map(str, saved["called"]))
            counts = {str(tool_id): int(count) for tool_id, count in saved["waiting"].items()}
            history.waiting_calls = Counter(counts)
            history.servers_in_use = tuple(map(str, saved["servers"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RequestError(f"not saved tools of a session: damaged: {error!r:.200}") from error
        return history
