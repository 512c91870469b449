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
        approved: ids approved by configuration.

    Raises:
        PinsError: the file of pins cannot be read.
    """
    trusted = {tool_id for tool_id in approved if tool_id in catalog}
    if pins is not None:
        from ..trust import Pins

        accepted = Pins.read(pins)
        trusted.update(
            tool.id for tool in catalog if tool.id in accepted and accepted.change(tool) is None
        )
    return frozenset(trusted)
