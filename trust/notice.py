"""The log line about quarantined tools when a catalog is loaded."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from .flag import Flag

_LOG: Final = logging.getLogger("shortlist.trust")


def notice(flags: Mapping[str, Flag]) -> str:
    """One line with the number of quarantined tools and what to do; "" if there are none."""
    count = sum(flag.level == "quarantine" for flag in flags.values())
    if not count:
        return ""
    tools = "1 tool is" if count == 1 else f"{count:,} tools are"
    return (
        f"{tools} quarantined until an operator approves: see `shortlist doctor`, approve with "
        "`shortlist trust approve ID` (docs/trust.md)"
    )


def tell(flags: Mapping[str, Flag], before: Mapping[str, Flag]) -> None:
    """Log the notice if the quarantined tools differ from before."""
    if _quarantined(flags) != _quarantined(before) and (line := notice(flags)):
        _LOG.warning("%s", line)


def _quarantined(flags: Mapping[str, Flag]) -> set[str]:
    return {tool_id for tool_id, flag in flags.items() if flag.level == "quarantine"}
