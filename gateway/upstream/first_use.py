"""Pins each definition when the gateway first sees it, in a file of the user."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ...catalog import Tool
from ...trust import Pins, change_pins
from ..connections.user_folders import state_folder

if TYPE_CHECKING:
    from ...retrieval.postgres.stored_texts import StoredTexts

#: Kind and key of the pins that the replicas share.
_SHARED_PINS_KEY = ("pins", "")
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


class FirstUsePins:
    """A file of pins to which new tools are added when they are first seen.

    Several gateways and `shortlist trust approve` may use the file at the same time. If the file is
    deleted meanwhile, it is written again with its last pins. Otherwise a changed definition would
    count as a new one.

    With `shared`, the file is this replica's copy of pins that all replicas share. An approval in
    the file of any replica holds for all.

    Args:
        path: path of the file, which is created if it does not exist.
        shared: state that all replicas of the gateway share; None if there is only this one.

    Raises:
        PinsError: the file cannot be read or written.
        StoreError: the shared state cannot be read.
    """

    def __init__(self, path: Path, shared: StoredTexts | None = None) -> None:
        self.path = path
        self._shared = shared
        self._last_stamp = (0, "")
        self._last_pins = Pins()
        if shared is not None and shared.stamp(*_SHARED_PINS_KEY):
            # What an earlier start left in the file may be older than what the others have.
            self._last_pins = Pins.read(path, missing_ok=True)
        self.pin(())
        # Servers start in any order. What they list first in one run of the gateway has one age.
        self._age_at_start = self._last_pins.next_age
        self._unlisted_servers: set[str] = set()

    def start(self, servers: Iterable[str], tools: Iterable[Tool]) -> None:
        """Pin the tools that are known at the start.

        Args:
            servers: the configured servers; they may list more tools soon.
            tools: their tools that are known already.

        Raises:
            PinsError: the file cannot be read or written.
        """
        self._unlisted_servers = set(servers)
        self.pin(tools, self._age_at_start)

    def pin_first_list(self, server: str, tools: Iterable[Tool]) -> None:
        """Pin the tools of a server, with the age of this start if it has not listed any since.

        Raises:
            PinsError: the file cannot be read or written.
        """
        is_first = server in self._unlisted_servers
        self._unlisted_servers.discard(server)
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
            return self._with_shared(pins, tools, age)

        self._last_pins = change_pins(self.path, with_new_pins)
        self._last_stamp = self._stamp()

    @property
    def is_shared(self) -> bool:
        """Whether `has_changed` asks the state that all replicas share, which takes a while."""
        return self._shared is not None

    def has_changed(self) -> bool:
        """Whether another process wrote the pins since the last call of this method.

        Raises:
            PinsError: the file cannot be read or written.
            StoreError: the shared state cannot be read.
        """
        stamp = self._stamp()
        changed, self._last_stamp = stamp != self._last_stamp, stamp
        if changed and self._shared is not None:
            self.pin(())
        return changed

    def _with_shared(self, pins: Pins, tools: Iterable[Tool], age: int | None) -> Pins:
        """The pins with those of all replicas, and with new tools; the others get them too."""
        if self._shared is None:
            return pins.pin(tools, age)
        present_pins: list[Pins] = []

        def changed(text: str | None) -> str:
            shared_pins = Pins() if text is None else Pins.from_text(text, "the shared pins")
            present = shared_pins.merged(pins, since=self._last_pins).pin(tools, age)
            present_pins.append(present)
            return text if text is not None and present == shared_pins else present.to_text()

        self._shared.change(*_SHARED_PINS_KEY, changed)
        return present_pins[0]

    def _stamp(self) -> tuple[int, str]:
        shared = "" if self._shared is None else self._shared.stamp(*_SHARED_PINS_KEY)
        try:
            return self.path.stat().st_mtime_ns, shared
        except OSError:
            return 0, shared
