"""Check: one thing the doctor looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "note", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check.

    Args:
        name: name of the check.
        status: `note` is worth knowing, `warn` costs quality, `fail` stops shortlist from working.
        summary: the finding in one line.
        details: all single findings.
    """

    name: str
    status: Status
    summary: str
    details: tuple[str, ...] = ()
