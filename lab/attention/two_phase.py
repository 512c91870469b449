"""The arm of shortlist: a session, used like in an agent loop."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ... import State
from ...errors import EvaluationError
from .arm import Running, ShownTools
from .example_arguments import example_arguments
from .settings import Settings
from .tasks import TaskScript, TaskTurn

if TYPE_CHECKING:
    from ...engine import Engine
    from ...session import Session
    from ...session import Turn as Answer

#: Levels at which the model has read the arguments of a tool, so that it may call it.
CALL_LEVELS = frozenset({"arguments", "signature", "full"})


class TwoPhase:
    """Phase 1 in the prefix, phase 2 after it, and one constant tool that calls any other.

    Args:
        engine: engine with the tools. Quarantined tools are never shown.
        settings: settings of the sessions.
    """

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.engine = engine
        self.settings = settings

    @property
    def pool_tokens(self) -> int:
        """Number of tokens of the prefix."""
        return self._prefix[1]

    @cached_property
    def visible(self) -> frozenset[str]:
        """Ids of the tools that the prefix names."""
        return frozenset(tool_id for tool_id, level in self._prefix[0].items() if level is not None)

    @property
    def levels(self) -> dict[str, int]:
        """Level of the pool to the number of servers shown at it."""
        shown = self._prefix[0]
        of_server = {tool.server: shown[tool.id] or "search" for tool in self.engine.catalog}
        return dict(sorted(Counter(of_server.values()).items()))

    def session(self, state: State | None = None) -> Session:
        """A new conversation."""
        return self.engine.session(
            "anthropic", tools=self.settings.way, state=state, **self.settings.session
        )

    def begin(self, script: TaskScript) -> Running:
        """Start a session."""
        gated = self.settings.preconditions
        state = State(scopes=frozenset(script.scopes)) if gated else None
        return _Running(self, self.session(state))

    @cached_property
    def _prefix(self) -> tuple[Mapping[str, str | None], int]:
        """What a new session shows of each tool, and the tokens of these texts."""
        session = self.session()
        session.answered("Hello.")
        turn = session.turn("thanks")  # asks for nothing, so that nothing is searched
        levels = {tool.id: session.level(tool.id) for tool in self.engine.catalog}
        return levels, turn.shown.tokens if turn.shown else 0


class _Running:
    def __init__(self, arm: TwoPhase, session: Session) -> None:
        self._arm = arm
        self._session = session
        self._batches: list[str] = []
        self._callable: frozenset[str] = frozenset()

    def show(self, turn: TaskTurn) -> ShownTools:
        """The texts about tools that a caller would send in this turn."""
        answer = self._session.turn(turn.user)
        self._add(answer)
        levels = {tool.id: self._session.level(tool.id) for tool in self._arm.engine.catalog}
        self._callable = frozenset(one for one, level in levels.items() if level in CALL_LEVELS)
        system = self._session.system
        return ShownTools(
            (*map(_definition, self._session.tools), *([system] if system else [])),
            tuple(self._batches),
            (),
            self._callable,
            frozenset(one for one, level in levels.items() if level in ("full", "signature")),
            self._arm.visible | self._callable | frozenset(answer.active),
        )

    def done(self, turn: TaskTurn) -> None:
        """Call the offered tools. A tool that is only visible is first promoted by a call."""
        for tool_id in turn.needed:
            named = self._arm.settings.promote and tool_id in self._arm.visible
            if tool_id in self._callable or named:
                self._call(tool_id)
        self._session.answered(turn.assistant)

    def _call(self, tool_id: str) -> None:
        """Make a successful call. Its answer is not replayed."""
        arguments = example_arguments(self._arm.engine.catalog.get(tool_id).input_schema)
        verdict = self._session.check(tool_id, arguments)
        if verdict.status == "promoted":
            self._batches.append(verdict.text)
            verdict = self._session.check(tool_id, arguments)
        if verdict.status == "denied":
            return
        if not verdict.passed:
            raise EvaluationError(f"{tool_id}: {verdict.message}")
        self._add(self._session.result(tool_id, ""))

    def _add(self, answer: Answer) -> None:
        self._batches += map(_text, answer.append)


def _definition(tool: Mapping[str, Any]) -> str:
    """A tool's definition without its cache mark."""
    shown = {name: value for name, value in tool.items() if name != "cache_control"}
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


def _text(message: Mapping[str, Any]) -> str:
    """The text of a message about tools."""
    return "".join(part.get("text") or json.dumps(part) for part in message["content"])
