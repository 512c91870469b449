"""The tools a conversation holds: appended to, never reordered, evicted only against a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..catalog import Catalog, Tool
from ..errors import RequestError
from ..gating import Admission, Refusal

#: An eviction makes room down to this share of the budget, so that the next one, which changes the
#: prompt's prefix again, is some turns away.
_ROOM = 0.5


@dataclass(frozen=True, slots=True)
class Budget:
    """What a conversation's tools may amount to.

    Args:
        tools: how many at most.
        tokens: what they may cost together, None for no limit.
        cost: tokens of a tool as it is shown to the model; needed with `tokens`.

    Raises:
        RequestError: a number below 1, or `tokens` without `cost`.
    """

    tools: int = 50
    tokens: int | None = None
    cost: Callable[[Tool], int] | None = None

    def __post_init__(self) -> None:
        for name, value in (("tools", self.tools), ("tokens", self.tokens)):
            if value is None and name == "tokens":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise RequestError(f"budget.{name}: {value!r}; a whole number, at least 1")
        if self.tokens is not None and self.cost is None:
            raise RequestError("budget.tokens: needs `cost`, which says what a tool takes")

    def spent(self, tool: Tool) -> int:
        """What a tool costs; 0 where nothing counts tokens."""
        return 0 if self.cost is None else self.cost(tool)

    def holds(self, count: int, tokens: int, share: float = 1.0) -> bool:
        """Whether so many tools of so many tokens are within a share of the budget."""
        return count <= self.tools * share and (
            self.tokens is None or tokens <= self.tokens * share
        )


@dataclass(frozen=True, slots=True)
class Held:
    """An active tool.

    Args:
        fingerprint: of the definition that was offered last.
        used: number of the turn in which it was last found or called.
        pinned: whether a budget never evicts it.
    """

    fingerprint: str
    used: int
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class Departure:
    """A tool that is active no longer.

    Args:
        tool_id: the tool.
        kind: `budget`, `vanished`, or the kind of the refusal that holds it back now.
        reason: a sentence for people and models.
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
        held: tool id to what is known of it, in order.
    """

    def __init__(self, held: Mapping[str, Held] | None = None) -> None:
        self._held = dict(held or {})

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids in the order they came."""
        return tuple(self._held)

    def __contains__(self, tool_id: object) -> bool:
        return tool_id in self._held

    def append(self, tools: Iterable[Tool], turn: int, *, pinned: bool = False) -> tuple[str, ...]:
        """Put tools that are not active yet at the end, mark those that are as used.

        Returns:
            Ids of the tools appended, in order.
        """
        added = []
        for tool in tools:
            held = self._held.get(tool.id)
            if held is None:
                self._held[tool.id] = Held(tool.fingerprint, turn, pinned)
                added.append(tool.id)
            else:
                self._held[tool.id] = replace(held, used=turn, pinned=held.pinned or pinned)
        return tuple(added)

    def settle(self, admission: Admission) -> tuple[tuple[Departure, ...], tuple[str, ...]]:
        """Follow the catalog and the gate.

        Returns:
            The tools that left because they are gone or held back, and the ids of those that stay
            with another definition than before.
        """
        left, changed = [], []
        rows, tools = admission.index.rows, admission.tools
        for tool_id, held in list(self._held.items()):
            if tool_id not in rows:
                left.append(Departure(tool_id, "vanished", "it is in the catalog no longer"))
                del self._held[tool_id]
            elif not admission.admits(tool_id):
                refusal = admission.refusal(tool_id)
                left.append(_refused(tool_id, refusal))
                del self._held[tool_id]
            elif (fingerprint := tools[rows[tool_id]].fingerprint) != held.fingerprint:
                changed.append(tool_id)
                self._held[tool_id] = replace(held, fingerprint=fingerprint)
        return tuple(left), tuple(changed)

    def make_room(
        self,
        wanted: Sequence[Tool],
        budget: Budget,
        catalog: Catalog,
        since: int,
    ) -> tuple[tuple[Departure, ...], tuple[Tool, ...]]:
        """Evict what was used longest ago until what is wanted fits the budget.

        Pinned tools and those used lately stay. Where even that leaves too little, as many of the
        wanted tools as fit are taken, best first.

        Args:
            wanted: tools to be active, best first.
            budget: what they may amount to.
            catalog: holds the active tools.
            since: number of the turn from which on a tool counts as used lately.

        Returns:
            The tools that left, and the wanted ones there is room for.
        """
        fresh = [tool for tool in wanted if tool.id not in self._held]
        costs = {tool_id: budget.spent(catalog.get(tool_id)) for tool_id in self._held}
        count, spent = len(self._held), sum(costs.values())
        added = sum(budget.spent(tool) for tool in fresh)
        left: list[Departure] = []
        if not budget.holds(count + len(fresh), spent + added):
            staying = {tool.id for tool in wanted}
            loose = [
                tool_id
                for tool_id, held in self._held.items()
                if not held.pinned and held.used < since and tool_id not in staying
            ]
            loose.sort(key=lambda tool_id: self._held[tool_id].used)
            for tool_id in loose:
                if budget.holds(count + len(fresh), spent + added, _ROOM):
                    break
                count, spent = count - 1, spent - costs[tool_id]
                del self._held[tool_id]
                left.append(Departure(tool_id, "budget", "used longest ago, to make room"))
        fitting = []
        for tool in wanted:
            if tool.id in self._held:
                fitting.append(tool)
            elif budget.holds(count + 1, spent + budget.spent(tool)):
                count, spent = count + 1, spent + budget.spent(tool)
                fitting.append(tool)
        return tuple(left), tuple(fitting)

    def to_dict(self) -> list[dict[str, Any]]:
        """JSON form."""
        return [
            {
                "id": tool_id,
                "fingerprint": held.fingerprint,
                "used": held.used,
                "pinned": held.pinned,
            }
            for tool_id, held in self._held.items()
        ]

    @classmethod
    def from_dict(cls, values: Iterable[Mapping[str, Any]]) -> Active:
        """Active tools from their JSON form.

        Raises:
            RequestError: it is not one.
        """
        try:
            return cls(
                {
                    str(one["id"]): Held(
                        str(one["fingerprint"]), int(one["used"]), bool(one["pinned"])
                    )
                    for one in values
                }
            )
        except (KeyError, TypeError, ValueError) as error:
            raise RequestError(f"session.active: damaged: {error!r}") from error


def _refused(tool_id: str, refusal: Refusal | None) -> Departure:
    if refusal is None:
        return Departure(tool_id, "not_allowed", "it is held back")
    return Departure(tool_id, refusal.kind, refusal.reason)
