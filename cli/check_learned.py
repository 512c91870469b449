"""Check of a saved index: whether what usage taught is in force."""

from __future__ import annotations

from pathlib import Path

from ..retrieval.store import read
from .check import Check
from .console import counted


def check_learned(index: Path) -> Check:
    """The check of usage learning of the current version in this folder.

    Raises:
        StoreError: nothing readable is saved there.
    """
    learned = read(index).learned
    if learned is None:
        return Check("usage learning", "ok", "not in force")
    facts = learned.to_dict()
    line = f"in force, from {counted(facts['events'], 'event')}"
    details = (
        f"tools moved towards the requests they served: {facts['moved']:,}",
        f"lexical factor {facts['lexical']:g}",
        f"`shortlist learn --forget --index {index}` takes it back",
    )
    return Check("usage learning", "note", line, details)
