"""Check: one thing the doctor looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "note", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at and what was found.

    Args:
        name: of the check.
        status: `note` is worth knowing, `warn` costs quality, `fail` stops shortlist from working.
        summary: the finding in one line.
        details: the single findings, all of them.
    """

    name: str
    status: Status
    summary: str
    details: tuple[str, ...] = ()
