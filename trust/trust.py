"""Trust: which tools of a catalog are held back, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TypeAlias

from ..catalog import Catalog, Tool
from .pins import Pins
from .scan import Scan, scan

_Key: TypeAlias = "tuple[str, tuple[str, ...], frozenset[str]]"


class Trust:
    """Decides which definitions may be shown to a model; safe to use from several threads.

    A tool whose definition is not the pinned one is held back, and so is one that reads like
    orders to the model, unless someone approved exactly what it says. What was scanned is
    remembered by fingerprint, so that a catalog that changes little costs little.

    Args:
        scans: whether definitions are scanned.
        pins: accepted definitions.
        approved: ids of tools that are offered whatever a scan finds, now and later.
    """

    def __init__(
        self, *, scans: bool = True, pins: Pins | None = None, approved: Collection[str] = ()
    ) -> None:
        self._scans = scans
        self._pins = pins or Pins()
        self._approved = frozenset(approved)
        self._known: dict[_Key, Scan] = {}

    @property
    def pins(self) -> Pins:
        """The accepted definitions."""
        return self._pins

    def quarantined(self, catalog: Catalog) -> dict[str, str]:
        """Tool id to the reason it is held back, in the order of the catalog.

        Args:
            catalog: the tools; about 1 ms each the first time their definitions are seen.
        """
        reasons = {change.tool_id: change.summary for change in self._pins.changes(catalog)}
        for tool_id, found in self.flagged(catalog).items():
            says = f"reads like orders to the model: {'; '.join(found.reasons)}"
            reasons[tool_id] = f"{reasons[tool_id]}; {says}" if tool_id in reasons else says
        return {tool.id: reasons[tool.id] for tool in catalog if tool.id in reasons}

    def flagged(self, catalog: Catalog) -> dict[str, Scan]:
        """Tool id to what was found, for each that reads like orders and was not approved."""
        if not self._scans:
            return {}
        known: dict[_Key, Scan] = {}
        found: dict[str, Scan] = {}
        for tool, siblings in _families(catalog):
            key = (tool.fingerprint, tool.cleaned, siblings)
            known[key] = self._known.get(key) or scan(tool, siblings)
            if known[key].flagged and not self._approves(tool):
                found[tool.id] = known[key]
        self._known = known
        return found

    def remember(self, catalog: Catalog, scans: Mapping[str, Scan]) -> None:
        """Take over what a scanner of this `revision` found, so that it is not scanned again.

        Args:
            catalog: the tools that were scanned.
            scans: tool id to what was found, for each that was flagged.
        """
        self._known = {
            (tool.fingerprint, tool.cleaned, siblings): scans.get(tool.id, Scan())
            for tool, siblings in _families(catalog)
        }

    def _approves(self, tool: Tool) -> bool:
        return tool.id in self._approved or self._pins.approves(tool)


def _families(catalog: Catalog) -> Iterator[tuple[Tool, frozenset[str]]]:
    """Each tool with the names its server has; a tool of no server stands alone."""
    names: dict[str, set[str]] = {}
    for tool in catalog:
        if tool.server is not None:
            names.setdefault(tool.server, set()).add(tool.name)
    families = {server: frozenset(held) for server, held in names.items()}
    for tool in catalog:
        yield tool, frozenset() if tool.server is None else families[tool.server]
