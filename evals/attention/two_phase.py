"""The arm that is measured: a session that finds, and a prompt that shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from copy import copy
from typing import TYPE_CHECKING

from ...catalog import Tool
from ...gating import State
from ...loaders import Detail, Prompt
from ...loaders.ladder import Rung
from ...session import Budget, Session
from .arm import Running, Shown
from .settings import Settings
from .tasks import Script, Turn
from .working import ArgumentLines

if TYPE_CHECKING:
    from ...engine import Engine
    from ...loaders import EntryWriter, PoolWriter, SchemaLoader
    from .transcript import TextTokens

FORMAT = "anthropic_call_tool"
"""One stable tool; definitions travel in messages, so that nothing before them moves."""
TYPED = Detail.SIGNATURE
"""The least detail at which all arguments of a tool are there with their types."""
_STANDING = 2
"""Segments of the format that stand before the conversation: the one tool and the pool."""


class TwoPhase:
    """Phase 1 in the prefix, phase 2 behind it, one stable tool that calls any other.

    Args:
        engine: searched.
        settings: of the session and the prompt.
        pools: writes phase 1; shared, so that it is written once per catalog and budget.
        lines: writes what stands without being promoted; shared.
        count: counts tokens; shared.
        schemas: loads phase 2; shared.
        entries: writes tools; shared.
        withheld: ids of the tools the engine has in quarantine.
    """

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        *,
        pools: PoolWriter,
        lines: ArgumentLines,
        count: TextTokens,
        schemas: SchemaLoader,
        entries: EntryWriter,
        withheld: frozenset[str] = frozenset(),
    ) -> None:
        self.engine = engine
        self.settings = settings
        self.lines = lines
        self.count = count
        self.withheld = withheld
        self.pool = pools.write(engine.catalog, withheld=withheld)
        shown = [tool for tool in engine.catalog if tool.id not in withheld]
        self.visible = frozenset(
            tool.id for tool in shown if self.pool.rungs[tool.server or ""] >= Rung.NAMES
        )
        self.standing = self.pool.standing
        # Each conversation goes on from a copy: a prompt takes up the whole catalog when it begins.
        self.unused = Prompt(
            engine.catalog,
            format=FORMAT,
            pool=pools,
            schemas=schemas,
            entries=entries,
            schema_budget=settings.schema_budget,
            turn_budget=settings.turn_budget,
            pass_through_share=0.0,
            withheld=withheld,
        )
        self.servers: dict[str, list[Tool]] = {}
        for tool in shown:
            self.servers.setdefault(tool.server or "", []).append(tool)

    @property
    def rungs(self) -> dict[Rung, int]:
        """Rung of the pool to how many servers stand on it."""
        return dict(sorted(Counter(self.pool.rungs.values()).items()))

    def begin(self, script: Script) -> Running:
        """A session and a prompt of their own."""
        return _Running(self, script)


class _Running:
    def __init__(self, arm: TwoPhase, script: Script) -> None:
        settings = arm.settings
        self._arm = arm
        self._session = Session(
            arm.engine,
            tier=settings.tier,
            k=settings.k,
            decider=settings.decider,
            standing=arm.standing,
            state=State(scopes=frozenset(script.scopes)) if settings.preconditions else None,
            budget=Budget(max(Budget().tools, 2 * (settings.k or 0))),
        )
        self._prompt = copy(arm.unused)
        self._kept: set[str] = set()
        self._servers: dict[str, list[Tool]] = {}
        self._in_use = ""
        self._at_hand: frozenset[str] = frozenset()
        self._offered: frozenset[str] = frozenset()

    def show(self, turn: Turn) -> Shown:
        """What the session finds, as far as the prompt has room."""
        found = self._session.turn(turn.user)
        first = found.hits[: self._arm.settings.promoted]
        self._kept |= {hit.id for hit in first}
        wanted = [tool_id for tool_id in found.active if tool_id in self._kept]
        prompt = self._prompt.turn(wanted, {hit.id: 1.0 / hit.rank for hit in first})
        typed = frozenset(tool_id for tool_id, detail in prompt.details.items() if detail >= TYPED)
        there = typed | self._arm.standing | self._at_hand
        told = self._told([hit.tool for hit in found.hits if hit.id not in there])
        self._offered = there | {tool.id for tool in told}
        segments = prompt.rendered.segments
        return Shown(
            _texts(*segments[:_STANDING], self._in_use),
            segments[_STANDING:],
            _texts(self._arm.lines.text(told)),
            self._offered,
            typed,
            self._arm.visible | self._offered | prompt.details.keys(),
        )

    def _told(self, found: Iterable[Tool]) -> list[Tool]:
        """Of what was found, that whose arguments are told in the room that servers leave."""
        spent = self._arm.count(self._in_use)
        return self._arm.lines.fitting(found, self._arm.settings.working - spent)

    def done(self, turn: Turn) -> None:
        """What was offered is called; what was only visible is named, promoted, and called."""
        for tool_id in turn.needed:
            if tool_id not in self._offered:
                if not (self._arm.settings.check and tool_id in self._arm.visible):
                    continue
                if self._session.check(tool_id).status != "promoted":
                    continue
                self._kept.add(tool_id)
            self._session.state = self._arm.engine.after_call(self._session.state, tool_id)
            self._use(self._arm.engine.catalog.get(tool_id))
        self._session.answered(turn.assistant)

    def _use(self, called: Tool) -> None:
        """Put a tool's server in use; the latest called has room before the others."""
        if called.server is None or called.id in self._arm.standing:
            return
        self._servers.pop(called.server, None)
        self._servers[called.server] = self._arm.servers[called.server]
        latest = reversed(self._servers.values())
        tools = self._arm.lines.fitting_servers(latest, self._arm.settings.in_use)
        self._in_use = self._arm.lines.text(tools)
        self._at_hand = frozenset(tool.id for tool in tools)


def _texts(*texts: str) -> tuple[str, ...]:
    """Those that say something."""
    return tuple(filter(None, texts))
