"""The user's folders for files of the gateway, where the operating system wants them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...catalog.text_file import make_private_folder
from ...errors import MissingExtraError

if TYPE_CHECKING:
    from platformdirs import PlatformDirs

_APP_NAME = "shortlist"


def state_folder() -> Path:
    """The folder of logs, pins and the record of running servers.

    On Linux `$XDG_STATE_HOME/shortlist`, by default `~/.local/state/shortlist`.

    Raises:
        MissingExtraError: the extra `gateway` is not installed.
    """
    return Path(_platform_folders().user_state_dir)


def cache_folder() -> Path:
    """The folder of files that can be deleted at any time.

    On Linux `$XDG_CACHE_HOME/shortlist`, by default `~/.cache/shortlist`.

    Raises:
        MissingExtraError: the extra `gateway` is not installed.
    """
    return Path(_platform_folders().user_cache_dir)


def own_folder(path: Path) -> Path:
    """A folder for the gateway's files, created if needed, that only the user may open.

    An existing folder that others may open, as earlier versions created it, is closed to them.

    Raises:
        OSError: the folder cannot be created.
    """
    make_private_folder(path)
    if path.stat().st_mode & 0o077:
        path.chmod(0o700)
    return path


def _platform_folders() -> PlatformDirs:
    try:
        from platformdirs import PlatformDirs
    except ImportError:
        raise MissingExtraError("the gateway", "gateway") from None
    return PlatformDirs(_APP_NAME, appauthor=False)
