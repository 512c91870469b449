"""Screening: which tools of a catalog version are held back because of their definitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..catalog import Catalog
from ..errors import PinsError, StoreError

if TYPE_CHECKING:
    from ..trust import Pins, Trust


class Screening:
    """Has definitions judged by `trust`; safe to use from several threads.

    What was scanned is remembered, so that a catalog that changes little costs little. `trust` is
    imported only where something is scanned or pinned.

    Args:
        scan: whether definitions are scanned for orders to the model.
        pins: file of accepted definitions, read anew for every question; None for none.
        approved: ids of tools that are offered whatever a scan finds, but not whatever their pins
            say.
    """

    def __init__(self, scan: bool, pins: Path | None, approved: Collection[str]) -> None:
        self._scan = scan
        self._pins = pins
        self._approved = frozenset(approved)

    def held(self, catalog: Catalog) -> dict[str, str]:
        """Tool id to the reason it is held back.

        Raises:
            PinsError: the file of pins is missing or cannot be read.
        """
        changed: Mapping[str, str] = {}
        orders: Mapping[str, str] = {}
        pins = self._read_pins()
        if pins is not None:
            from ..trust import Trust

            changed = Trust(scans=False, pins=pins).quarantined(catalog)
        if self._scan:
            orders = {
                tool_id: reason
                for tool_id, reason in self._scanner.quarantined(catalog).items()
                if tool_id not in self._approved
                and not (pins is not None and pins.approves(catalog.get(tool_id)))
            }
        return {
            tool_id: "; ".join(said[tool_id] for said in (changed, orders) if tool_id in said)
            for tool_id in dict.fromkeys((*changed, *orders))
        }

    def to_dict(self, catalog: Catalog) -> dict[str, Any] | None:
        """JSON form of what a scan finds in a catalog, whatever is approved; None without scans."""
        if not self._scan:
            return None
        from ..trust import revision

        return {
            "scanner": revision(),
            "flagged": {
                tool_id: [finding.to_dict() for finding in found.findings]
                for tool_id, found in self._scanner.flagged(catalog).items()
            },
        }

    def recall(self, catalog: Catalog, saved: Mapping[str, Any] | None) -> None:
        """Take over what `to_dict` gave for a catalog, if this scanner would find the same.

        Raises:
            StoreError: it is of this scanner, and damaged.
        """
        if not self._scan or saved is None:
            return
        from ..trust import Finding, Scan, revision

        try:
            if saved["scanner"] != revision():
                return
            scans = {
                tool_id: Scan(tuple(Finding(**finding) for finding in found))
                for tool_id, found in saved["flagged"].items()
            }
        except (KeyError, TypeError, AttributeError) as error:
            raise StoreError(f"screening of a saved index: damaged: {error!r}") from error
        self._scanner.remember(catalog, scans)

    def _read_pins(self) -> Pins | None:
        if self._pins is None:
            return None
        from ..trust import Pins

        try:
            return Pins.read(self._pins)
        except PinsError as error:
            raise PinsError(f"trust.pins: {error}") from error

    @cached_property
    def _scanner(self) -> Trust:
        from ..trust import Trust

        return Trust()
