"""What the two-phase arm is set to, and which setting is measured where."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...loaders import WorkingSet
from ...loaders.ladder import Rung
from ...loaders.pool import POOL_BUDGET
from ...loaders.prompt import SCHEMA_BUDGET

if TYPE_CHECKING:
    from ...session.deciding import Decides


@dataclass(frozen=True, slots=True)
class Settings:
    """What the two phases are set to.

    Args:
        tier: that searches; the engine's default when absent.
        k: tools found per turn; the engine's number when absent.
        promoted: how many of them are promoted, the first; all when absent.
        decider: cuts and abstains; none by default, as in a Session.
        pool_budget: tokens of phase 1; 0 for none.
        top: what a line of the pool says where there is room.
        schema_budget: tokens of phase 2.
        working: tokens of a working set, see `WorkingSet`; only where not all are promoted.
        in_use: how many of these may go to servers in use.
        turn_budget: tokens a turn may write, see `Prompt`; None for no bound.
        check: whether a call of a tool that is visible and not offered promotes it.
        preconditions: whether sessions run with their accounts' scopes under the engine's rules.
    """

    tier: str | None = None
    k: int | None = None
    promoted: int | None = None
    decider: Decides | None = None
    pool_budget: int = POOL_BUDGET
    top: Rung = Rung.SUMMARIES
    schema_budget: int = SCHEMA_BUDGET
    working: int = 0
    in_use: int = 0
    turn_budget: int | None = None
    check: bool = True
    preconditions: bool = False

    @property
    def working_set(self) -> WorkingSet | None:
        """Of the prompt; none where all that is found is promoted."""
        if self.promoted is None:
            return None
        return WorkingSet(self.working, self.in_use, self.promoted)


OURS = Settings(k=3, pool_budget=3_000, top=Rung.ARGUMENTS, schema_budget=1_200, turn_budget=600)
"""Measured as two-phase where the pool has room for every tool's arguments: all tools can be called
from the prefix, so that few are promoted. By arithmetic: pool and schemas together take less than
ten definitions of 400 tokens, and a turn writes the first in full and two signatures."""
SEARCHED = Settings(k=20, schema_budget=2_200)
"""A pool of summaries at its default budget, and what a search finds: what finding is worth alone.
By the same arithmetic: the first in full and nineteen signatures take some 2,100 tokens."""
WORKING = replace(OURS, k=250, promoted=3, pool_budget=100, working=3_000, in_use=2_000)
"""Measured as two-phase where the pool has no room for every tool's arguments. Of most servers it
could say nothing; it says how many there are, and its tokens go to lines of arguments: of the
servers in use, two thirds at most, and of what was found, as much as there is room for. All else is
as in `OURS`."""
