"""What servers say of their own tools for one turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..retrieval.selection import VoterFailure


@dataclass(frozen=True, slots=True)
class Votes:
    """The votes of a turn, as collected; the gate has the last word on every one.

    Args:
        excluded: id of each tool left out, to the server's reason.
        claimed: ids of the tools that take the turn, in order; put first if they are admitted.
        failures: what was said or went wrong that counts for nothing.
    """

    excluded: Mapping[str, str] = field(default_factory=dict)
    claimed: tuple[str, ...] = ()
    failures: tuple[VoterFailure, ...] = ()
