"""Reads the tools that an operator quarantined from a damaged index."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from ...errors import StoreError
from .versions import (
    QUARANTINE_FILE,
    current_version_name,
    is_complete,
    read_quarantine,
    versions_by_number,
)


def saved_quarantine(folder: Path) -> dict[str, str]:
    """Tool id to the operator's reason, from an index that cannot be opened.

    They are those of the current version. If CURRENT is damaged, they are those of all complete
    versions, because each may be the current one.

    Args:
        folder: folder of the index.

    Raises:
        StoreError: that part cannot be read either.
    """
    version_names = versions_by_number(folder).values()
    try:
        names = [name for name in [current_version_name(folder)] if name in version_names]
    except StoreError:
        names = []
    names = names or [name for name in version_names if is_complete(folder / name)]
    if not names:
        raise _unreadable(folder, "no complete version")
    reasons: dict[str, str] = {}
    for name in names:
        try:
            reasons |= _quarantine_of_version(folder / name)
        except (OSError, ValueError, RecursionError) as error:
            raise _unreadable(folder / name, repr(error)) from error
    return reasons


def _quarantine_of_version(version: Path) -> dict[str, str]:
    path = version / QUARANTINE_FILE
    try:
        manifest = json.loads((version / "manifest.json").read_text(encoding="utf-8"))
        saved = manifest["files"].get(QUARANTINE_FILE)
        expected = None if saved is None else saved["sha256"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return read_quarantine(path)  # only the manifest is known to be damaged
    if expected is None:
        return {}
    if hashlib.sha256(path.read_bytes()).hexdigest() != expected:
        raise ValueError(f"{path.name}: not the content that was saved")
    return read_quarantine(path)


def _unreadable(place: Path, reason: str) -> StoreError:
    return StoreError(
        f"{place}: damaged, and it cannot be read which tools were quarantined in it ({reason}); "
        "restore the folder from a backup, or delete it, index again and repeat each "
        "`Engine.quarantine`"
    )
