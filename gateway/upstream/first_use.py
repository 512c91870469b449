"""Pins each definition when the gateway first sees it, in a file of the user."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from ...catalog import Tool
from ...trust import change_pins
from ..connections.user_folders import state_folder


def default_pins(config: Path) -> Path:
    """The file of pins of a client's configuration, in the user's state folder.

    Args:
        config: the configuration. Each configuration has its own pins, because different servers
            may have the same name.
    """
    path = str(config.expanduser().resolve())
    digest = hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return state_folder() / "pins" / f"{config.stem}-{digest}.json"


class FirstUse:
    """A file of pins to which new tools are added when they are first seen.

    Several gateways and `shortlist trust approve` may use the file at the same time.

    Args:
        path: path of the file, which is created if it does not exist.

    Raises:
        PinsError: the file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last_stamp = 0
        self.pin(())

    def pin(self, tools: Iterable[Tool]) -> None:
        """Pin each definition that has no pin. Existing pins stay.

        Raises:
            PinsError: the file cannot be read or written.
        """
        change_pins(self.path, lambda pins: pins.pin(tools))
        self._last_stamp = self._stamp()

    def has_changed(self) -> bool:
        """Whether another process wrote the file since the last call of this method."""
        stamp = self._stamp()
        changed, self._last_stamp = stamp != self._last_stamp, stamp
        return changed

    def _stamp(self) -> int:
        try:
            return self.path.stat().st_mtime_ns
        except OSError:
            return 0
