"""The tools of one conversation: which are active, how they are rendered, which calls pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..catalog import Tool
from ..config import SessionConfig
from ..gating.verdict import Verdict
from ..view import View
from .active import Departure
from .data import SessionData
from .prompting import SessionPrompt

if TYPE_CHECKING:
    from ..loaders.schemas import SchemaLoader


#: Tools offered with their definitions per turn where all others have lines.
_BESIDE_LINES = 3


def found_per_turn(settings: SessionConfig, format: str | None, most: int) -> int:  # noqa: A002
    """Tools per turn: the setting `k`; else few if all tools have lines; else the engine's `k`."""
    lines = format is not None and settings.pool != "summaries"
    return settings.k or (_BESIDE_LINES if lines else most)


class Toolset:
    """The active tools and the prompt of a session. Not thread-safe.

    Args:
        settings: settings of the session.
        data: state of the session.
        k: tools offered with their definitions per turn.
        schemas: loads definitions that the catalog lacks.

    Attributes:
        active: the active tools.
        prompt: the rendered prompt; None without a format and before the first step.
    """

    def __init__(
        self,
        settings: SessionConfig,
        data: SessionData,
        k: int,
        schemas: SchemaLoader | None = None,
    ) -> None:
        self.active = data.active
        self.prompt: SessionPrompt | None = None
        self._settings = settings
        self._data = data
        self._k = k
        self._schemas = schemas

    def follow(self, view: View) -> SessionPrompt | None:
        """Update the prompt to a view. The first step creates it."""
        if self._data.format is None:
            return None
        if self.prompt is None:
            saved, self._data.prompt = self._data.prompt, None
            self.prompt = SessionPrompt(
                view, self._data.format, self._settings, self._k, self._schemas, saved
            )
            if saved is not None:
                self.prompt.render(self.active.ids)
        self.prompt.follow(view)
        return self.prompt

    def settle(
        self, view: View, wanted: Sequence[Tool], called: str | None, number: int
    ) -> tuple[tuple[Departure, ...], tuple[str, ...], tuple[str, ...]]:
        """Remove tools that are gone or denied, make room, and add the wanted tools.

        Args:
            view: the tools that may be used now.
            wanted: ids of tools that the turn offers, best first.
            called: id of the tool that answered; None for a user's message.
            number: number of the turn.

        Returns:
            The removed tools, ids of tools with a changed definition, and ids of added tools.
        """
        left, changed = self.active.settle(view)
        pins = self._settings.pinned
        pinned = [view.catalog.get(tool_id) for tool_id in pins if view.permits(tool_id)]
        came = self.active.append(pinned, number, pinned=True)
        if called is not None and called in self.active:
            self.active.append([view.catalog.get(called)], number)
        most = max(self._settings.active_tools, len(pinned) + 1)
        dropped, fitting = self.active.make_room(wanted, most, number - 1)
        return left + dropped, changed, came + self.active.append(fitting, number)

    def judge(self, view: View, verdict: Verdict, number: int) -> Verdict:
        """The final verdict on a call. It also depends on the definition that the model has seen.

        If the model has not seen the tool's present definition, the tool is offered instead.

        Args:
            view: the tools that may be used now.
            verdict: result of `View.check`.
            number: number of the turn.
        """
        tool = verdict.tool
        if tool is None:
            return verdict
        kept = self.active.fingerprint(tool.id)
        seen = kept
        if seen is None and self.prompt is not None:
            seen = self.prompt.offered_as(tool.id)
        unseen = seen is None and self._settings.must_offer
        outdated = seen is not None and seen != tool.fingerprint
        # Where only a line of the tool was there, its schema says more than the problems do.
        shown = self.prompt is not None and self.prompt.level(tool.id) in ("full", "signature")
        misread = kept is None and verdict.status == "invalid" and not shown
        if unseen or outdated or misread:
            return self._promoted(view, verdict, tool, number)
        if verdict.passed:
            self.active.append([tool], number)
        return verdict

    def refresh(self, view: View) -> None:
        """Render again if something changed since the last step."""
        left, changed = self.active.settle(view, offering=False)
        if self.prompt is not None and (self.prompt.follow(view) or left or changed):
            self.prompt.render(self.active.ids)

    def saved_prompt(self, view: View) -> Mapping[str, Any] | None:
        """JSON form of the prompt; None before the first step."""
        return self._data.prompt if self.prompt is None else self.prompt.to_dict(view)

    def _promoted(self, view: View, verdict: Verdict, tool: Tool, number: int) -> Verdict:
        """Offer a tool that the model asked for by name."""
        prompt = self.follow(view)
        self.active.append([tool], number)
        append: tuple[dict[str, Any], ...] = ()
        rebuilt = False
        if prompt is not None:
            active = tuple(tool_id for tool_id in self.active.ids if view.permits(tool_id))
            shown = prompt.promote(tool, active)
            append, rebuilt = shown.appended, shown.rebuilt
        return replace(verdict, status="promoted", append=append, rebuilt=rebuilt)
