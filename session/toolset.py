"""The tools of one conversation: which are active, how they are rendered, which calls pass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..catalog import Tool
from ..config import SessionConfig
from ..gating.verdict import Verdict
from ..loaders.history import SeenLevel, ToolHistory
from ..view import View
from .session_data import SessionData
from .session_prompt import SessionPrompt

if TYPE_CHECKING:
    from ..loaders.schemas import DefinitionSource


#: Tools offered with their definitions per turn where all others have lines.
_DEFINITIONS_BESIDE_LINES = 3
#: An eviction makes room down to this share of the budget, so that the next one, which changes the
#: prompt's prefix again, is some turns away.
_SHARE_AFTER_EVICTION = 0.5


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
        >>> [(tool.tool_id, tool.kind) for tool in session.turn("list them again").left]
        [('billing/list_invoices', 'not_allowed')]
    """

    tool_id: str
    kind: str
    reason: str

    def to_dict(self) -> dict[str, str]:
        """JSON form."""
        return {"tool": self.tool_id, "kind": self.kind, "reason": self.reason}


def tools_per_turn(settings: SessionConfig, format: str | None, default: int) -> int:  # noqa: A002
    """Tools per turn: the setting `k`; else few if all tools have lines; else the engine's `k`."""
    lines = format is not None and settings.pool != "summaries"
    return settings.k or (_DEFINITIONS_BESIDE_LINES if lines else default)


def departures(history: ToolHistory, view: View) -> tuple[Departure, ...]:
    """The active tools that are gone or denied."""
    removed = []
    for tool_id in history.active:
        if not view.exists(tool_id):
            removed.append(Departure(tool_id, "vanished", "it is no longer in the catalog"))
        elif (refusal := view.refusal(tool_id)) is not None:
            removed.append(Departure(tool_id, refusal.kind, refusal.reason))
    return tuple(removed)


def changed_tools(history: ToolHistory, view: View) -> tuple[Tool, ...]:
    """The active tools whose definition differs from the one that the model has seen."""
    tools = (view.catalog.get(tool_id) for tool_id in history.active if tool_id in view.catalog)
    return tuple(
        tool for tool in tools if history.record_of(tool.id).fingerprint != tool.fingerprint
    )


def evictions(
    history: ToolHistory, offered_tools: Sequence[Tool], limit: int, since: int
) -> tuple[Departure, ...]:
    """The active tools to remove so that the wanted ones fit, the least recently used first.

    Pinned, wanted and recently used tools stay. None is removed if there is room for all.

    Args:
        history: what the model has seen.
        offered_tools: tools to add or keep.
        limit: maximum number of active tools.
        since: tools used in this turn or later count as recently used.
    """
    active, offered_ids = history.active, {tool.id for tool in offered_tools}
    count = len(active) + len(offered_ids.difference(active))
    if count <= limit:
        return ()
    unused = [
        tool_id
        for tool_id in active
        if tool_id not in offered_ids
        and not history.record_of(tool_id).pinned
        and history.record_of(tool_id).used < since
    ]
    unused.sort(key=lambda tool_id: history.record_of(tool_id).used)
    evicted_ids = unused[: math.ceil(count - limit * _SHARE_AFTER_EVICTION)]
    return tuple(
        Departure(tool_id, "budget", "unused for longest, to make room") for tool_id in evicted_ids
    )


def tools_that_fit(
    history: ToolHistory, offered_tools: Sequence[Tool], limit: int
) -> tuple[Tool, ...]:
    """The wanted tools that are active or fit beside the active ones, best first.

    Args:
        history: what the model has seen.
        offered_tools: tools to add or keep, best first.
        limit: maximum number of active tools.
    """
    active = history.active
    room = max(limit - len(active), 0)
    new_ids = [tool.id for tool in offered_tools if tool.id not in active][:room]
    return tuple(tool for tool in offered_tools if tool.id in active or tool.id in new_ids)


class Toolset:
    """The tools and the prompt of a session. Not thread-safe.

    Args:
        settings: settings of the session.
        data: state of the session.
        k: tools offered with their definitions per turn.
        schemas: loads definitions that the catalog lacks.

    Attributes:
        history: what the model has seen.
        prompt: the rendered prompt; None without a format and before the first step.
    """

    def __init__(
        self,
        settings: SessionConfig,
        data: SessionData,
        k: int,
        schemas: DefinitionSource | None = None,
    ) -> None:
        self.history = data.history
        self.prompt: SessionPrompt | None = None
        self._settings = settings
        self._data = data
        self._k = k
        self._schemas = schemas

    @property
    def active(self) -> tuple[str, ...]:
        """Ids of the active tools, in the order they came."""
        return self.history.active

    def follow(self, view: View) -> SessionPrompt | None:
        """Update the prompt to a view. The first step creates it."""
        if self._data.format is None:
            return None
        if self.prompt is None:
            saved, self._data.prompt = self._data.prompt, None
            self.prompt = SessionPrompt(
                view,
                self._data.format,
                self._settings,
                self._k,
                self.history,
                self._schemas,
                saved,
            )
            if saved is not None:
                self.prompt.render(self.active)
        self.prompt.follow(view)
        return self.prompt

    def update_active(
        self, view: View, offered_tools: Sequence[Tool], called_id: str | None, number: int
    ) -> tuple[tuple[Departure, ...], tuple[str, ...], tuple[str, ...]]:
        """Remove tools that are gone or denied, make room, and add the wanted tools.

        Args:
            view: the tools that may be used now.
            offered_tools: ids of tools that the turn offers, best first.
            called_id: id of the tool that answered; None for a user's message.
            number: number of the turn.

        Returns:
            The removed tools, ids of tools with a changed definition, and ids of added tools.
        """
        history, settings = self.history, self._settings
        removed = departures(history, view)
        history.deactivate(departure.tool_id for departure in removed)
        changed = changed_tools(history, view)
        history.note_resent(changed)
        pinned = [view.catalog.get(name) for name in settings.pinned if view.permits(name)]
        added = history.activate(pinned, number, pinned=True)
        if called_id is not None and history.record_of(called_id).active:
            history.activate([view.catalog.get(called_id)], number)
        limit = max(settings.active_tools, len(pinned) + 1)
        evicted = evictions(history, offered_tools, limit, number - 1)
        history.deactivate(departure.tool_id for departure in evicted)
        added += history.activate(tools_that_fit(history, offered_tools, limit), number)
        return removed + evicted, tuple(tool.id for tool in changed), added

    def check(self, view: View, name: str, arguments: object, number: int) -> Verdict:
        """The verdict on a call, see `judge`.

        Args:
            view: the tools that may be used now.
            name: the name in the model's call.
            arguments: as for `View.check`.
            number: number of the turn.
        """
        if self.prompt is not None and isinstance(name, str):
            name, arguments = self.prompt.tool_id(name, arguments)
        verdict = view.check(name, arguments)
        if verdict.status == "unknown" and self.prompt is not None:
            verdict = self.prompt.own_tool_verdict(name, arguments) or verdict
        return self.judge(view, verdict, number)

    def judge(self, view: View, verdict: Verdict, number: int) -> Verdict:
        """The final verdict on a call. It also depends on the definition that the model has seen.

        If the model has not seen the tool's present definition, the tool is offered instead.

        Args:
            view: the tools that may be used now.
            verdict: result of `View.check` or `View.recheck`.
            number: number of the turn.
        """
        tool = verdict.tool
        if tool is None:
            return verdict
        record = self.history.record_of(tool.id)
        if verdict.status == "promoted":
            offer_first = True
        elif record.seen is SeenLevel.NEVER:
            offer_first = self._settings.must_offer or verdict.status == "invalid"
        elif record.fingerprint != tool.fingerprint:
            offer_first = True
        else:
            # After a line only, the schema says more than the problems do.
            offer_first = record.seen is SeenLevel.LINE and verdict.status == "invalid"
        if offer_first:
            return self._promote(view, verdict, tool, number)
        if verdict.passed:
            self.history.activate([tool], number)
        return verdict

    def refresh(self, view: View) -> None:
        """Render again if something changed since the last step."""
        removed = departures(self.history, view)
        self.history.deactivate(departure.tool_id for departure in removed)
        changed = changed_tools(self.history, view)
        if self.prompt is not None and (self.prompt.follow(view) or removed or changed):
            self.prompt.render(self.active)

    def save(self, view: View) -> dict[str, Any]:
        """JSON form of the session."""
        if self.prompt is None:
            return self._data.to_dict(self._settings, self._data.prompt, ())
        prompt = self.prompt
        return self._data.to_dict(self._settings, prompt.to_dict(view), prompt.prefix_ids)

    def _promote(self, view: View, verdict: Verdict, tool: Tool, number: int) -> Verdict:
        """Offer a tool that the model asked for by name."""
        prompt = self.follow(view)
        self.history.activate([tool], number)
        append: tuple[dict[str, Any], ...] = ()
        rebuilt = False
        if prompt is not None:
            active = tuple(tool_id for tool_id in self.active if view.permits(tool_id))
            prompt_turn = prompt.promote(tool, active)
            append, rebuilt = prompt_turn.appended, prompt_turn.rebuilt
        return replace(verdict, status="promoted", append=append, rebuilt=rebuilt)
