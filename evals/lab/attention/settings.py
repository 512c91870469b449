"""What the two-phase arm is set to, and which setting is measured where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Settings:
    """What the sessions of the two-phase arm are set to.

    Args:
        session: settings of `SessionConfig` that differ from the defaults.
        check: whether a call of a tool that is visible and not offered promotes it.
        preconditions: whether sessions run with their accounts' scopes under the engine's rules.
    """

    session: Mapping[str, Any] = field(default_factory=dict)
    check: bool = True
    preconditions: bool = False

    def changed(self, **session: Any) -> Settings:
        """With other settings of the session."""
        return replace(self, session={**self.session, **session})


_ALL_FOUND: Mapping[str, Any] = {"pass_through": 0.0, "abstain": False}
DEFAULTS = Settings()
"""A session without options."""
OURS = Settings(
    {
        **_ALL_FOUND,
        "k": 3,
        "pool": "signatures",
        "pool_tokens": 3_000,
        "schema_tokens": 1_200,
        "turn_tokens": 600,
    }
)
"""Every tool's arguments in the pool, where it has room for them: all tools can be called from the
prefix, so few are promoted. By arithmetic: pool and schemas together take less than ten definitions
of 400 tokens, and a turn writes the first in full and two signatures."""
SEARCHED = Settings(
    {
        **_ALL_FOUND,
        "k": 20,
        "pool": "summaries",
        "pool_tokens": 2_000,
        "in_use_tokens": 0,
        "schema_tokens": 2_200,
        "turn_tokens": None,
    }
)
"""A pool of summaries, and what a search finds: what finding is worth alone. By the same
arithmetic: the first in full and nineteen signatures take some 2,100 tokens."""
WORKING = OURS.changed(pool="auto", in_use_tokens=2_000)
"""Where the pool has no room for every tool's arguments: it says how many there are, and its tokens
go to lines of arguments: of the servers in use, two thirds at most, and of what was found."""
