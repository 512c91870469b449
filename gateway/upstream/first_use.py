"""Pins each definition when the gateway first sees it, in a folder of the user."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ...catalog import Tool
from ...errors import PinsError
from ...trust import Pins, change_pins, make_pins_folder, pins_stamp
from ...trust.pins import DAMAGED
from ..connections.user_folders import state_folder

if TYPE_CHECKING:
    from ...retrieval.postgres.stored_texts import StoredTexts

#: Kind of the pins that the replicas share; the key is a server.
_SHARED_KIND = "pins"
_LOG = logging.getLogger("shortlist.gateway")


def default_pins(config: Path) -> Path:
    """The folder of pins of a client's configuration, in the user's state folder.

    Earlier versions wrote a file of that name, which is used as it is.

    Args:
        config: the configuration. Each configuration has its own pins, because different servers
            may have the same name.
    """
    return state_folder() / "pins" / _file_name(config)


def approvals_file(config: Path) -> Path:
    """The file of the approvals that users of a configuration want remembered.

    Args:
        config: the configuration.
    """
    return state_folder() / "approvals" / _file_name(config)


def _file_name(config: Path) -> str:
    path = str(config.expanduser().resolve())
    digest = hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return f"{config.stem}-{digest}.json"


class FirstUsePins:
    """A folder of pins, one file a server, to which new tools are added when first seen.

    What a server names is bounded: beyond `MAX_SERVER_PINS` or `MAX_SERVER_PIN_BYTES` its new
    tools wait for an approval. A file that cannot be read quarantines the tools of its server.

    Several gateways and `shortlist trust approve` may use the folder at the same time. If a file is
    deleted meanwhile, it is written again with its last pins. Otherwise a changed definition would
    count as a new one.

    With `shared`, the folder is this replica's copy of pins that all replicas share. An approval in
    the folder of any replica holds for all.

    Args:
        path: path of the folder, which is created if it does not exist.
        shared: state that all replicas of the gateway share; None if there is only this one.

    Raises:
        PinsError: the folder cannot be read or written.
        StoreError: the shared state cannot be read.
    """

    def __init__(self, path: Path, shared: StoredTexts | None = None) -> None:
        self.path = path
        self._shared = shared
        self._last_stamp: tuple[object, str] = ((), "")
        self._last_pins = Pins()
        self._logged_files: frozenset[str] = frozenset()
        make_pins_folder(path)
        if shared is not None and shared.stamp(_SHARED_KIND):
            # What an earlier start left in the folder may be older than what the others have.
            self._last_pins = Pins.read(path)
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

    def pin_new_tools(self, server: str, tools: Iterable[Tool]) -> None:
        """Pin the tools of a server, with the age of this start if it has not listed any since.

        Raises:
            PinsError: the file cannot be read or written.
        """
        is_first = server in self._unlisted_servers
        self._unlisted_servers.discard(server)
        self.pin(tools, self._age_at_start if is_first else None)

    def pin(self, tools: Iterable[Tool], age: int | None = None) -> None:
        """Pin each definition that has no pin. Existing pins stay, and deleted ones come back.

        Args:
            tools: the tools.
            age: age of the new pins, see `Pin`; higher than all others when absent.

        Raises:
            PinsError: the folder cannot be read or written.
        """
        tools = list(tools)

        def with_new_pins(pins: Pins) -> Pins:
            restored = pins.restored(self._last_pins)
            if restored != pins:
                _LOG.warning("a file of pins was deleted; it is written again in %s", self.path)
            if self._shared is None:
                return restored.pin_first_seen(tools, age)
            return self._with_shared(self._shared, restored, tools, age)

        make_pins_folder(self.path)
        self._last_pins = change_pins(self.path, with_new_pins)
        self._last_stamp = self._stamp()
        self._log_unreadable_files()

    @property
    def is_shared(self) -> bool:
        """Whether `has_changed` asks the state that all replicas share, which takes a while."""
        return self._shared is not None

    def has_changed(self) -> bool:
        """Whether another process wrote the pins since the last call of this method.

        Raises:
            StoreError: the shared state cannot be read.
        """
        stamp = self._stamp()
        changed, self._last_stamp = stamp != self._last_stamp, stamp
        return changed

    def _with_shared(
        self, texts: StoredTexts, pins: Pins, tools: list[Tool], age: int | None
    ) -> Pins:
        """The pins with those of all replicas, and with new tools; the others get them too."""
        before = self._last_pins.by_server()
        now = pins.by_server()
        tools_by_server: dict[str, list[Tool]] = {}
        for tool in tools:
            tools_by_server.setdefault(tool.server or "", []).append(tool)
        new_age = _read_shared(texts).next_age if age is None and tools else age
        changed = {server for server, own in now.items() if own != before.get(server, Pins())}
        for server in sorted({*changed, *tools_by_server}):

            def merge(text: str | None, server: str = server) -> str:
                shared = Pins() if text is None else _server_pins(server, text)
                present = shared.merged(
                    now.get(server, Pins()), since=before.get(server, Pins())
                ).pin_first_seen(tools_by_server.get(server, ()), new_age)
                return text if text is not None and present == shared else present.to_text()

            texts.change(_SHARED_KIND, server, merge)
        return _read_shared(texts)

    def _log_unreadable_files(self) -> None:
        unreadable = self._last_pins.unreadable
        for name in unreadable.keys() - self._logged_files:
            _LOG.warning("the tools of a server wait for approval: %s", unreadable[name])
        self._logged_files = frozenset(unreadable)

    def _stamp(self) -> tuple[object, str]:
        shared = "" if self._shared is None else self._shared.stamp(_SHARED_KIND)
        return pins_stamp(self.path), shared


def _read_shared(texts: StoredTexts) -> Pins:
    """The pins that all replicas share."""
    shared = Pins()
    for server, text in texts.read_all(_SHARED_KIND).items():
        shared = shared.merged(_server_pins(server, text), since=Pins())
    return shared


def _server_pins(server: str, text: str) -> Pins:
    """The shared pins of a server. If they cannot be read, its tools wait for an approval."""
    try:
        return Pins.from_text(text, f"the shared pins of server {server!r}")
    except PinsError as error:
        _LOG.warning("the tools of a server wait for approval: %s", error)
        return Pins(closed={server: DAMAGED})
