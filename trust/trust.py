"""Trust: which tools of a catalog are held back, and why."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Self, TypeAlias

from ..catalog import Catalog, Tool
from .pins import Pins
from .scan import Scan, scan

_Key: TypeAlias = "str | tuple[str, ...]"
_Known: TypeAlias = "dict[frozenset[str], _Family]"


@dataclass(frozen=True, slots=True)
class _Family:
    """What was found in the tools of one server, or of several with the same names.

    Kept whole, so that a catalog that changes little makes few objects for the garbage collector.

    Args:
        scans: fingerprint of a definition to what was found.
        flagged: those that read like orders.
    """

    scans: dict[_Key, Scan]
    flagged: frozenset[_Key]

    @classmethod
    def of(cls, scans: dict[_Key, Scan]) -> Self:
        """Of scans by fingerprint."""
        return cls(scans, frozenset(key for key, found in scans.items() if found.flagged))


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
        self._known: _Known = {}

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
        known: _Known = {}
        found: dict[str, Scan] = {}
        for siblings, tools in _families(catalog).items():
            family = self._known.get(siblings) or _Family.of({})
            keys = [_key(tool) for tool in tools]
            if not (len(keys) == len(family.scans) and all(key in family.scans for key in keys)):
                family = _Family.of(
                    {
                        key: family.scans.get(key) or scan(tool, siblings)
                        for key, tool in zip(keys, tools, strict=True)
                    }
                )
            known[siblings] = family
            if family.flagged:
                found |= {
                    tool.id: family.scans[key]
                    for key, tool in zip(keys, tools, strict=True)
                    if key in family.flagged and not self._approves(tool)
                }
        self._known = known
        return found

    def remember(self, catalog: Catalog, scans: Mapping[str, Scan]) -> None:
        """Take over what a scanner of this `revision` found, so that it is not scanned again.

        Args:
            catalog: the tools that were scanned.
            scans: tool id to what was found, for each that was flagged.
        """
        self._known = {
            siblings: _Family.of({_key(tool): scans.get(tool.id, Scan()) for tool in tools})
            for siblings, tools in _families(catalog).items()
        }

    def _approves(self, tool: Tool) -> bool:
        return tool.id in self._approved or self._pins.approves(tool)


def _key(tool: Tool) -> _Key:
    return (tool.fingerprint, *tool.cleaned) if tool.cleaned else tool.fingerprint


def _families(catalog: Catalog) -> dict[frozenset[str], list[Tool]]:
    """The tools by the names their server has; a tool of no server stands alone."""
    servers: dict[str | None, list[Tool]] = {}
    for tool in catalog:
        servers.setdefault(tool.server, []).append(tool)
    families: dict[frozenset[str], list[Tool]] = {}
    for server, tools in servers.items():
        names = frozenset() if server is None else frozenset(tool.name for tool in tools)
        families.setdefault(names, []).extend(tools)
    return families
