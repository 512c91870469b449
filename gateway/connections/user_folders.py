"""The user's folders for files of the gateway, where the operating system wants them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import MissingExtraError

if TYPE_CHECKING:
    from platformdirs import PlatformDirs

_NAME = "shortlist"


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


def _platform_folders() -> PlatformDirs:
    try:
        from platformdirs import PlatformDirs
    except ImportError:
        raise MissingExtraError("the gateway", "gateway") from None
    return PlatformDirs(_NAME, appauthor=False)
