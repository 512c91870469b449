"""Originals: the tools that an operator trusts by name, before which no copy ranks."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ..catalog import Catalog


def originals(catalog: Catalog, pins: Path | None, approved: Collection[str]) -> frozenset[str]:
    """Ids of tools that are approved, or pinned with exactly the definition they have.

    Args:
        catalog: the tools.
        pins: file of accepted definitions; None for none.
        approved: `id` or `id@fingerprint`, as the configuration approves them.

    Raises:
        PinsError: the file of pins is missing or cannot be read.
    """
    trusted = {
        tool.id
        for tool in catalog
        if tool.id in approved or f"{tool.id}@{tool.fingerprint}" in approved
    }
    if pins is not None:
        from ..trust.trust import read_pins

        accepted = read_pins(pins)
        trusted.update(
            tool.id for tool in catalog if tool.id in accepted and accepted.change(tool) is None
        )
    return frozenset(trusted)
