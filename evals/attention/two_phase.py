"""The arm that is measured: a session that finds, and a prompt that shows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ...gating import State
from ...loaders import Detail, Prompt
from ...loaders.ladder import Rung
from ...session import Budget, Session
from .arm import Running, Shown
from .settings import Settings
from .tasks import Script, Turn

if TYPE_CHECKING:
    from ...engine import Engine
    from ...loaders import EntryWriter, PoolWriter, SchemaLoader

FORMAT = "anthropic_call_tool"
"""One stable tool; definitions travel in messages, so that nothing before them moves."""
TYPED = Detail.SIGNATURE
"""The least detail at which all arguments of a tool are there with their types."""


class TwoPhase:
    """Phase 1 in the prefix, phase 2 behind it, one stable tool that calls any other.

    Args:
        engine: searched.
        settings: of the session and the prompt.
        pools: writes phase 1; shared, so that it is written once per catalog and budget.
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
        schemas: SchemaLoader,
        entries: EntryWriter,
        withheld: frozenset[str] = frozenset(),
    ) -> None:
        self.engine = engine
        self.settings = settings
        self.pools = pools
        self.schemas = schemas
        self.entries = entries
        self.withheld = withheld
        self.pool = pools.write(engine.catalog, withheld=withheld)
        self.visible = frozenset(
            tool.id
            for server, tools in self.pool.servers.items()
            if self.pool.rungs[server] >= Rung.NAMES
            for tool in tools
        )

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
        self._prompt = Prompt(
            arm.engine.catalog,
            format=FORMAT,
            pool=arm.pools,
            schemas=arm.schemas,
            entries=arm.entries,
            schema_budget=settings.schema_budget,
            turn_budget=settings.turn_budget,
            pass_through_share=0.0,
            withheld=arm.withheld,
            working_set=settings.working_set,
        )
        self._session = Session(
            arm.engine,
            tier=settings.tier,
            k=settings.k,
            decider=settings.decider,
            standing=self._prompt.standing,
            state=State(scopes=frozenset(script.scopes)) if settings.preconditions else None,
            budget=Budget(max(Budget().tools, 2 * (settings.k or 0))),
        )
        self._offered: frozenset[str] = frozenset()

    def show(self, turn: Turn) -> Shown:
        """What the session finds, as far as the prompt has room."""
        found = self._session.turn(turn.user)
        prompt = self._prompt.turn(found.active, {hit.id: 1.0 / hit.rank for hit in found.hits})
        self._session.standing = self._prompt.standing
        typed = frozenset(tool_id for tool_id, detail in prompt.details.items() if detail >= TYPED)
        self._offered = typed | self._prompt.standing
        segments = prompt.rendered.segments
        behind = len(segments) - len(prompt.rendered.messages)
        return Shown(
            segments[:behind],
            segments[behind:],
            tuple(part["text"] for message in prompt.passing for part in message["content"]),
            self._offered,
            typed,
            self._arm.visible | self._offered | prompt.details.keys(),
        )

    def done(self, turn: Turn) -> None:
        """What was offered is called; what was only visible is named, promoted, and called."""
        for tool_id in turn.needed:
            if tool_id not in self._offered:
                if not (self._arm.settings.check and tool_id in self._arm.visible):
                    continue
                if self._session.check(tool_id).status != "promoted":
                    continue
            self._session.state = self._arm.engine.after_call(self._session.state, tool_id)
            self._prompt.called(tool_id)
        self._session.answered(turn.assistant)
