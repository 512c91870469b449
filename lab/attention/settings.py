"""Session settings of the benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...loaders.providers import Way


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the sessions that one method uses.

    Args:
        session: settings of `SessionConfig` that differ from the defaults.
        promote: whether the agent also calls tools of which it sees only the name. The first call
            of such a tool is answered with its definition.
        preconditions: whether sessions run with their accounts' scopes under the engine's rules.
        way: how found tools reach the model.
    """

    session: Mapping[str, Any] = field(default_factory=dict)
    promote: bool = True
    preconditions: bool = False
    way: Way = "call_tool"

    def changed(self, **session: Any) -> Settings:
        """With other settings of the session."""
        return replace(self, session={**self.session, **session})


_ALL_FOUND: Mapping[str, Any] = {"pass_through": 0.0, "abstain": False}
DEFAULTS = Settings()
"""A session without options."""
EVERY_SIGNATURE = Settings({**_ALL_FOUND, "pool_tokens": 100_000})
"""A one-line call signature of every tool in the prompt, for catalogs where they fit."""
SUMMARIES = Settings({**_ALL_FOUND, "k": 20, "list_tokens": 2_200}, way="list")
"""A summary of every tool in the prompt, and the definitions of the best hits in the provider's
list, about eight of 20: what search alone contributes."""
