"""CatalogDiff: what changed between two versions of a catalog."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CatalogDiff:
    """Ids that differ between an old and a new catalog.

    Attributes:
        added: ids only the new version holds, in its order.
        removed: ids only the old version holds, in its order.
        changed: ids both hold with different content, in the new order.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]

    def __bool__(self) -> bool:
        """Whether anything differs; a change of order alone does not."""
        return bool(self.added or self.removed or self.changed)
