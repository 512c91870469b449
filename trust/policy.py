"""Trust: decides once per catalog version which tools are quarantined or get a warning, and why."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ..catalog import Catalog, Tool
from ..errors import PinsError, StoreError
from .flag import (
    DEFINITION_CHANGED,
    HIDDEN_INSTRUCTION,
    NEW_TOOL_WAITS,
    STRONG_WORDING,
    Finding,
    Flag,
)
from .pins import Pins
from .scan import scan

_Findings = dict[str, tuple[Finding, ...]]


class Trust:
    """Decides which definitions are quarantined. Safe to use from several threads.

    A tool is quarantined if its definition differs from the pinned one, or if it has no pin and
    its server's pins are full or cannot be read. It is also quarantined if the scan finds hidden
    instructions, unless exactly this definition was approved. Findings are cached by id and
    fingerprint, so only changed tools are scanned again.

    Args:
        scans: whether definitions are scanned.
        pins: accepted definitions, or their file, which is read again for every decision.
        approved: tools that the scan never quarantines: `id` for every definition of the tool,
            `id@fingerprint` for one definition.
    """

    def __init__(
        self,
        *,
        scans: bool = True,
        pins: Pins | Path | None = None,
        approved: Collection[str] = (),
    ) -> None:
        self._scans = scans
        self._pins = pins
        self._approved = frozenset(approved)
        self._cached_findings: _Findings = {}
        # What `trusted_pin_ages` read, for the `flags` of the same version: one decision.
        self._last_pins: tuple[Catalog, Pins] | None = None

    def flags(self, catalog: Catalog) -> dict[str, Flag]:
        """Tool id to its flag, in the order of the catalog. Most tools have none.

        If `trusted_pin_ages` was called for the same catalog, the same pins are used.

        Args:
            catalog: the tools; about 0.2 ms each the first time a definition is seen.

        Raises:
            PinsError: the file of pins is missing or cannot be read.
        """
        last_pins, self._last_pins = self._last_pins, None
        if last_pins is not None and last_pins[0] is catalog:
            pins = last_pins[1]
        else:
            pins = self._current_pins()
        findings_by_key = self._findings(catalog) if self._scans else {}
        flags: dict[str, Flag] = {}
        for tool in catalog:
            change = pins.change(tool)
            findings = findings_by_key.get(_findings_key(tool), ()) if findings_by_key else ()
            if findings and self._approves(tool, pins):
                findings = ()
            if change is not None:
                flags[tool.id] = _build_flag(findings, DEFINITION_CHANGED, change.summary)
            elif tool.id not in pins and (reason := pins.closed_reason(tool.server or "")):
                flags[tool.id] = _build_flag(findings, NEW_TOOL_WAITS, reason)
            elif findings:
                flags[tool.id] = _build_flag(findings)
        return flags

    def trusted_pin_ages(self, catalog: Catalog) -> dict[str, int]:
        """Each tool that is approved, or whose definition equals its pin, and the age of its pin.

        Of two such tools that say the same, the one with the lower age is the original. A tool that
        the scan quarantines is none.

        Args:
            catalog: the tools.

        Raises:
            PinsError: the file of pins is missing or cannot be read.
        """
        pins = self._current_pins()
        self._last_pins = (catalog, pins)
        findings_by_key = self._findings(catalog) if self._scans else {}
        return {
            tool.id: pins.age(tool.id) or 0
            for tool in catalog
            if self._approves(tool, pins)
            or (
                tool.id in pins
                and pins.change(tool) is None
                and not _hides_instructions(findings_by_key.get(_findings_key(tool), ()))
            )
        }

    def to_dict(self, catalog: Catalog) -> dict[str, Any] | None:
        """JSON form of the scan's findings; None without scanning."""
        if not self._scans:
            return None
        findings_by_key = self._findings(catalog)
        flagged = {
            tool.id: findings_by_key[key]
            for tool in catalog
            if (key := _findings_key(tool)) in findings_by_key
        }
        return {
            "scanner": scanner_hash(),
            "flagged": {
                tool_id: [finding.to_dict() for finding in findings]
                for tool_id, findings in flagged.items()
            },
        }

    def use_saved_findings(self, catalog: Catalog, saved: Mapping[str, Any] | None) -> None:
        """Use the findings in the result of `to_dict`, unless another scanner version wrote them.

        Raises:
            StoreError: it is damaged.
        """
        if not self._scans or saved is None:
            return
        try:
            if saved["scanner"] != scanner_hash():
                return
            findings_by_id = {
                tool_id: tuple(Finding(**finding) for finding in findings)
                for tool_id, findings in saved["flagged"].items()
            }
        except (KeyError, TypeError, AttributeError) as error:
            raise StoreError(f"screening of a saved index: damaged: {error!r}") from error
        self._cached_findings = {
            _findings_key(tool): findings_by_id.get(tool.id, ()) for tool in catalog
        }

    def _findings(self, catalog: Catalog) -> _Findings:
        """Findings by key, of the tools with findings. Scans tools that are not cached."""
        cached = self._cached_findings
        fresh: _Findings = {}
        for tool in catalog:
            key = _findings_key(tool)
            findings = cached.get(key)
            fresh[key] = scan(tool) if findings is None else findings
        self._cached_findings = fresh
        return {key: findings for key, findings in fresh.items() if findings}

    def _current_pins(self) -> Pins:
        return _read_pins(self._pins) if isinstance(self._pins, Path) else self._pins or Pins()

    def _approves(self, tool: Tool, pins: Pins) -> bool:
        return (
            tool.id in self._approved
            or f"{tool.id}@{tool.fingerprint}" in self._approved
            or pins.approves(tool)
        )


def _build_flag(findings: tuple[Finding, ...], pins_code: str = "", difference: str = "") -> Flag:
    """The flag of a tool with findings, a difference from the pins, or both."""
    if _hides_instructions(findings):
        return Flag("quarantine", HIDDEN_INSTRUCTION, findings, difference)
    if pins_code:
        return Flag("quarantine", pins_code, findings, difference)
    return Flag("warn", STRONG_WORDING, findings)


def _hides_instructions(findings: tuple[Finding, ...]) -> bool:
    return any(finding.level == "quarantine" for finding in findings)


def _findings_key(tool: Tool) -> str:
    """The key of findings: the id, which models read too, and the definition."""
    return "\n".join((tool.id, tool.fingerprint, *tool.cleaned))


def _read_pins(path: Path) -> Pins:
    try:
        return Pins.read(path)
    except PinsError as error:
        raise PinsError(f"trust.pins: {error}") from error


@cache
def scanner_hash() -> str:
    """Hash of the scanner's own code, rules."""
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    for path in sorted(folder.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:32]
