"""The tools a conversation keeps: appended to, never reordered, dropped only to make room."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..catalog import Tool
from ..errors import RequestError
from ..view import View

#: An eviction makes room down to this share of the budget, so that the next one, which changes the
#: prompt's prefix again, is some turns away.
_ROOM = 0.5


@dataclass(frozen=True, slots=True)
class Held:
    """An active tool.

    Args:
        fingerprint: fingerprint of the definition that was offered last.
        used: number of the turn in which it was last found or called.
        pinned: whether it is never removed to make room.
    """

    fingerprint: str
    used: int
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class Departure:
    """A tool that is no longer active, with the reason.

    Args:
        tool_id: the tool.
        kind: `budget` (its place was needed), `vanished` (no longer in the catalog), or the kind of
            the refusal that denies it now.
        reason: a sentence for people and models.

    Example:
        >>> from shortlist import Engine, Tool
        >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
        >>> session = engine.session()
        >>> turn = session.turn("list the invoices")
        >>> session.allowed = []
        >>> [(one.tool_id, one.kind) for one in session.turn("list them again").left]
        [('billing/list_invoices', 'not_allowed')]
    """

    tool_id: str
    kind: str
    reason: str

    def to_dict(self) -> dict[str, str]:
        """JSON form."""
        return {"tool": self.tool_id, "kind": self.kind, "reason": self.reason}


class Active:
    """The active tools in the order they came.

    Args:
        held: tool id to its data, in order.
    """

    def __init__(self, held: Mapping[str, Held] | None = None) -> None:
        self._held = dict(held or {})

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids in the order they came."""
        return tuple(self._held)

    def __contains__(self, tool_id: object) -> bool:
        return tool_id in self._held

    def fingerprint(self, tool_id: str) -> str | None:
        """Fingerprint of the definition that was offered last; None for a tool not kept."""
        held = self._held.get(tool_id)
        return None if held is None else held.fingerprint

    def append(self, tools: Iterable[Tool], turn: int, *, pinned: bool = False) -> tuple[str, ...]:
        """Add tools that are not active yet at the end. Mark the others as used.

        Returns:
            Ids of the added tools, in order.
        """
        added = []
        for tool in tools:
            held = self._held.get(tool.id)
            if held is None:
                self._held[tool.id] = Held(tool.fingerprint, turn, pinned)
                added.append(tool.id)
            else:
                self._held[tool.id] = Held(tool.fingerprint, turn, held.pinned or pinned)
        return tuple(added)

    def settle(
        self, view: View, *, offering: bool = True
    ) -> tuple[tuple[Departure, ...], tuple[str, ...]]:
        """Remove tools that are gone or denied.

        Args:
            view: the tools that may be used now.
            offering: whether the model now receives the present definitions.

        Returns:
            The removed tools, and the ids of the others whose definition changed.
        """
        left, changed = [], []
        for tool_id, held in list(self._held.items()):
            if tool_id not in view.catalog:
                left.append(Departure(tool_id, "vanished", "it is no longer in the catalog"))
                del self._held[tool_id]
            elif (refusal := view.refusal(tool_id)) is not None:
                left.append(Departure(tool_id, refusal.kind, refusal.reason))
                del self._held[tool_id]
            elif (fingerprint := view.catalog.get(tool_id).fingerprint) != held.fingerprint:
                changed.append(tool_id)
                if offering:
                    self._held[tool_id] = replace(held, fingerprint=fingerprint)
        return tuple(left), tuple(changed)

    def make_room(
        self, wanted: Sequence[Tool], most: int, since: int
    ) -> tuple[tuple[Departure, ...], tuple[Tool, ...]]:
        """Remove the least recently used tools until the wanted ones fit.

        Tools of the setting `pinned` and recently used tools stay. If there is still too little
        room, only the best of the wanted tools are taken.

        Args:
            wanted: ids of tools to add or keep, best first.
            most: maximum number of tools kept.
            since: tools used in this turn or later count as recently used.

        Returns:
            The removed tools, and the wanted ones that fit.
        """
        fresh = [tool for tool in wanted if tool.id not in self._held]
        count = len(self._held)
        left: list[Departure] = []
        if count + len(fresh) > most:
            staying = {tool.id for tool in wanted}
            loose = [
                tool_id
                for tool_id, held in self._held.items()
                if not held.pinned and held.used < since and tool_id not in staying
            ]
            loose.sort(key=lambda tool_id: self._held[tool_id].used)
            for tool_id in loose:
                if count + len(fresh) <= most * _ROOM:
                    break
                count -= 1
                del self._held[tool_id]
                left.append(Departure(tool_id, "budget", "unused for longest, to make room"))
        fitting = []
        for tool in wanted:
            if tool.id in self._held:
                fitting.append(tool)
            elif count < most:
                count += 1
                fitting.append(tool)
        return tuple(left), tuple(fitting)

    def to_dict(self) -> list[dict[str, Any]]:
        """JSON form."""
        return [{"id": tool_id, **asdict(held)} for tool_id, held in self._held.items()]

    @classmethod
    def from_dict(cls, values: Iterable[Mapping[str, Any]]) -> Active:
        """Active tools from their JSON form.

        Raises:
            RequestError: it is not one.
        """
        try:
            held = [(one["id"], one["fingerprint"], one["used"], one["pinned"]) for one in values]
            return cls(
                {str(one): Held(str(mark), int(used), bool(pin)) for one, mark, used, pin in held}
            )
        except (KeyError, TypeError, ValueError) as error:
            raise RequestError(f"session.active: damaged: {error!r}") from error
