"""Session settings of the benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the sessions that one method uses.

    Args:
        session: settings of `SessionConfig` that differ from the defaults.
        promote: whether the agent also calls tools of which it sees only the name. The first call
            of such a tool is answered with its definition.
        preconditions: whether sessions run with their accounts' scopes under the engine's rules.
    """

    session: Mapping[str, Any] = field(default_factory=dict)
    promote: bool = True
    preconditions: bool = False

    def changed(self, **session: Any) -> Settings:
        """With other settings of the session."""
        return replace(self, session={**self.session, **session})


_ALL_FOUND: Mapping[str, Any] = {"pass_through": 0.0, "abstain": False}
DEFAULTS = Settings()
"""A session without options."""
EVERY_SIGNATURE = Settings(
    {
        **_ALL_FOUND,
        "k": 3,
        "pool": "signatures",
        "pool_tokens": 3_000,
        "schema_tokens": 1_200,
        "turn_tokens": 600,
    }
)
"""A one-line call signature of every tool in the prompt, for catalogs where they fit. Pool and
definitions together take fewer tokens than ten definitions of 400 tokens. A turn adds one
definition in full and two signatures."""
SUMMARIES = Settings(
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
"""A pool of summaries, and the 20 best hits: what search alone contributes. One full definition and
nineteen signatures take about 2,100 tokens."""
