"""Pins each definition when the gateway first sees it, in a file of the user."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from pathlib import Path

from ...catalog import Tool
from ...trust import Pins, change_pins
from ..connections.user_folders import state_folder

_LOG = logging.getLogger("shortlist.gateway")


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

    Several gateways and `shortlist trust approve` may use the file at the same time. If the file is
    deleted meanwhile, it is written again with its last pins. Otherwise a changed definition would
    count as a new one.

    Args:
        path: path of the file, which is created if it does not exist.

    Raises:
        PinsError: the file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last_stamp = 0
        self._last_pins = Pins()
        self.pin(())
        # Servers start in any order. What they list first in one run of the gateway has one age.
        self._age_at_start = self._last_pins.next_age
        self._not_listed: set[str] = set()

    def start(self, servers: Iterable[str], tools: Iterable[Tool]) -> None:
        """Pin the tools that are known at the start.

        Args:
            servers: the configured servers; they may list more tools soon.
            tools: their tools that are known already.

        Raises:
            PinsError: the file cannot be read or written.
        """
        self._not_listed = set(servers)
        self.pin(tools, self._age_at_start)

    def pin_first_list(self, server: str, tools: Iterable[Tool]) -> None:
        """Pin the tools of a server, with the age of this start if it has not listed any since.

        Raises:
            PinsError: the file cannot be read or written.
        """
        is_first = server in self._not_listed
        self._not_listed.discard(server)
        self.pin(tools, self._age_at_start if is_first else None)

    def pin(self, tools: Iterable[Tool], age: int | None = None) -> None:
        """Pin each definition that has no pin. Existing pins stay.

        Args:
            tools: the tools.
            age: age of the new pins, see `Pin`; higher than all others when absent.

        Raises:
            PinsError: the file cannot be read or written.
        """

        def with_new_pins(pins: Pins) -> Pins:
            if not pins and self._last_pins:
                _LOG.warning("the file of pins was deleted; it is written again: %s", self.path)
                pins = self._last_pins
            return pins.pin(tools, age)

        self._last_pins = change_pins(self.path, with_new_pins)
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
