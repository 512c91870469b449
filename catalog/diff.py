"""CatalogDiff: what changed between two versions of a catalog."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CatalogDiff:
    """Ids that differ between an old and a new catalog.

    Attributes:
        added: ids that only the new version has, in its order.
        removed: ids that only the old version has, in its order.
        changed: ids in both versions with different content, in the order of the new one.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]

    def __bool__(self) -> bool:
        """Whether anything differs. Order does not count."""
        return bool(self.added or self.removed or self.changed)
