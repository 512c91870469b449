"""The arm that is measured: a session that finds, and a prompt that shows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...gating import State
from ...loaders import Detail, Prompt
from ...loaders.ladder import Rung
from ...loaders.pool import POOL_BUDGET
from ...loaders.prompt import SCHEMA_BUDGET
from ...session import Session
from .arm import Running, Shown
from .tasks import Script, Turn

if TYPE_CHECKING:
    from ...engine import Engine
    from ...loaders import EntryWriter, PoolWriter, SchemaLoader
    from ...session.deciding import Decides

FORMAT = "anthropic_call_tool"
"""One stable tool; definitions travel in messages, so that nothing before them moves."""
TYPED = Detail.SIGNATURE
"""The least detail at which all arguments of a tool are there with their types."""
_STANDING = 2
"""Segments of the format that stand before the conversation: the one tool and the pool."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the two phases are set to.

    Args:
        tier: that searches; the engine's default when absent.
        k: tools found per turn; the engine's number when absent.
        decider: cuts and abstains; none by default, as in a Session.
        pool_budget: tokens of phase 1; 0 for none.
        top: what a line of the pool says where there is room.
        schema_budget: tokens of phase 2.
        turn_budget: tokens a turn may write, see `Prompt`; None for no bound.
        check: whether a call of a tool that is visible and not offered promotes it.
        preconditions: whether sessions run with their accounts' scopes under the engine's rules.
    """

    tier: str | None = None
    k: int | None = None
    decider: Decides | None = None
    pool_budget: int = POOL_BUDGET
    top: Rung = Rung.SUMMARIES
    schema_budget: int = SCHEMA_BUDGET
    turn_budget: int | None = None
    check: bool = True
    preconditions: bool = False


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
        self.schemas = schemas
        self.entries = entries
        self.pools = pools
        self.withheld = withheld
        self.pool = pools.write(engine.catalog, withheld=withheld)
        shown = [tool for tool in engine.catalog if tool.id not in withheld]
        self.visible = frozenset(
            tool.id for tool in shown if self.pool.rungs[tool.server or ""] >= Rung.NAMES
        )
        self.standing = self.pool.standing(shown)

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
        )
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
        )
        self._offered: frozenset[str] = frozenset()

    def show(self, turn: Turn) -> Shown:
        """What the session finds, as far as the prompt has room."""
        found = self._session.turn(turn.user)
        scores = {hit.id: 1.0 / hit.rank for hit in found.hits}
        prompt = self._prompt.turn(found.active, scores)
        typed = frozenset(tool_id for tool_id, detail in prompt.details.items() if detail >= TYPED)
        self._offered = typed | self._arm.standing
        segments = prompt.rendered.segments
        return Shown(
            segments[:_STANDING],
            segments[_STANDING:],
            (),
            self._offered,
            typed,
            self._arm.visible | prompt.details.keys(),
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
        self._session.answered(turn.assistant)
