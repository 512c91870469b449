"""Flag: why one tool is quarantined or has a warning. Only its findings quote the definition."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

Level = Literal["quarantine", "warn", "look"]

HIDDEN_INSTRUCTION: Final = "hidden_instruction"
DEFINITION_CHANGED: Final = "definition_changed"
NEW_TOOL_WAITS: Final = "new_tool_waits"
STRONG_WORDING: Final = "strong_wording"

SENTENCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        HIDDEN_INSTRUCTION: "It waits for an operator's approval: its definition may hide "
        "instructions.",
        DEFINITION_CHANGED: "It waits for an operator's approval: its definition changed since it "
        "was accepted.",
        NEW_TOOL_WAITS: "It waits for an operator's approval: it is not among the accepted "
        "definitions of its server, and none is added without one.",
        STRONG_WORDING: "It is offered: its definition is worded strongly.",
    }
)
"""Code of a flag to its fixed sentence, which models and events may see."""
_LOG: Final = logging.getLogger("shortlist.trust")
_ID_FIELDS: Final = frozenset(("server", "name", "id"))


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule that matched in one field. For operators: `text` quotes the definition.

    Args:
        code: the rule, such as `moves_secrets`.
        level: `quarantine` or `warn`; `look` for a definition that a person should read.
        where: the field, such as `description` or `input_schema.properties.note`.
        text: the sentence that matched, cut to one line.
    """

    code: str
    level: Level
    where: str
    text: str

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Flag:
    """Why a tool is quarantined, or offered with a warning.

    Args:
        level: `quarantine` or `warn`.
        code: a key of `SENTENCES`.
        findings: what the scan found, quarantine first.
        change: one line that names the parts that differ from the pin, or says why a tool without
            a pin is not accepted; "" for neither.
    """

    level: Level
    code: str
    findings: tuple[Finding, ...] = ()
    change: str = ""

    @property
    def sentence(self) -> str:
        """The fixed sentence of the code, for models."""
        return SENTENCES[self.code]

    @property
    def is_about_id(self) -> bool:
        """Whether the id itself has the finding, so that the id must not be shown."""
        return any(finding.where in _ID_FIELDS for finding in self.findings)

    @property
    def reasons(self) -> tuple[str, ...]:
        """What differs from the pins, then a line for each finding, with a quote. For operators."""
        lines = (f"{finding.where}: {finding.code}: {finding.text!r}" for finding in self.findings)
        return (self.change, *lines) if self.change else tuple(lines)


def quarantined(flags: Mapping[str, Flag]) -> dict[str, Flag]:
    """The flags of the tools that are quarantined, by id."""
    return {tool_id: flag for tool_id, flag in flags.items() if flag.level == "quarantine"}


def quarantine_notice(flags: Mapping[str, Flag]) -> str:
    """One line with the number of quarantined tools and what to do; "" if there are none."""
    count = len(quarantined(flags))
    if not count:
        return ""
    tools = "1 tool is" if count == 1 else f"{count:,} tools are"
    return (
        f"{tools} quarantined until an operator approves: see `shortlist doctor`, approve with "
        "`shortlist trust approve ID` (docs/trust.md)"
    )


def warn_of_quarantine(flags: Mapping[str, Flag], before: Mapping[str, Flag]) -> None:
    """Log the notice if the quarantined tools differ from before."""
    line = quarantine_notice(flags)
    if line and quarantined(flags).keys() != quarantined(before).keys():
        _LOG.warning("%s", line)
