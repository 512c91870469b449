"""The folder that an index is saved in, as a caller names it."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import StoreError


def folder_of(folder: str | Path) -> Path:
    """The folder as a path.

    Raises:
        StoreError: no file system can hold such a name.
    """
    try:
        if isinstance(folder, str | Path) and b"\0" not in os.fsencode(folder):
            return Path(folder)
    except UnicodeEncodeError:
        pass
    raise StoreError(f"{folder!r:.200}: no folder: give a path the file system can hold")
