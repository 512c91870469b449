"""Pins: the accepted definition of each tool, in a JSON file, or a folder with one a server."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from ..catalog import Catalog, Tool
from ..catalog.text_file import (
    OWNER_ONLY_MODE,
    locked,
    make_private_folder,
    read_text_file,
    replace_text_file,
)
from ..errors import PinsError
from .change import DefinitionChange, changed_parts

_FORMAT = 1

MAX_SERVER_PINS = 10_000
"""Most pins of a server that are made without an approval, as many as its list may have tools."""
MAX_SERVER_PIN_BYTES = 8_000_000
"""Most bytes of their definitions as JSON. The longest real list of tools found has 0.6 MB."""

FULL: Final = "full"
DAMAGED: Final = "damaged"
_CLOSED_REASONS: Final = {
    FULL: f"more than {MAX_SERVER_PINS:,} tools or {MAX_SERVER_PIN_BYTES:,} bytes of definitions "
    "were listed by this server; its new tools wait for an approval",
    DAMAGED: "the file with the accepted definitions of this server could not be read; its tools "
    "wait for an approval",
}


@dataclass(frozen=True, slots=True)
class Pin:
    """An accepted definition of a tool.

    Args:
        fingerprint: fingerprint of the definition.
        definition: the definition in row form, to show changes.
        approved: whether someone read and approved it. An approval lifts a quarantine by the scan.
        age: when the id got its first pin: tools pinned together have one number, later ones a
            higher one. 0 for pins of earlier versions. Of two tools that say the same, the one with
            the lower number is the original.
    """

    fingerprint: str
    definition: Mapping[str, Any]
    approved: bool = False
    age: int = 0

    @classmethod
    def of(cls, tool: Tool, age: int, *, approved: bool = False) -> Self:
        """A pin of a tool's present definition."""
        return cls(tool.fingerprint, tool.to_dict(), approved, age)

    @property
    def server(self) -> str:
        """The server of the tool, or ""."""
        return str(self.definition.get("server") or "")

    def change(self, tool: Tool) -> DefinitionChange | None:
        """The differences between a definition and the pin; None if there are none."""
        if tool.fingerprint == self.fingerprint:
            return None
        parts = changed_parts(self.definition, tool.to_dict())
        return DefinitionChange(tool.id, self.fingerprint, tool.fingerprint, parts)


class Pins:
    """The accepted definitions by tool id; immutable.

    Args:
        pins: tool id to pin.
        closed: servers whose new tools wait for an approval, each with `FULL` or `DAMAGED`.
        unreadable: files of a folder that cannot be read, each with the error. The tools of their
            servers wait for an approval.
    """

    def __init__(
        self,
        pins: Mapping[str, Pin] | None = None,
        *,
        closed: Mapping[str, str] | None = None,
        unreadable: Mapping[str, str] | None = None,
    ) -> None:
        self._pins = dict(pins or {})
        self._closed = dict(closed or {})
        self.unreadable = dict(unreadable or {})

    @classmethod
    def read(cls, path: str | Path, *, missing_ok: bool = False) -> Self:
        """The pins of a file, or of a folder with one file for each server.

        Args:
            path: the file or folder. A file in a folder that cannot be read raises nothing: see
                `closed_reason`.
            missing_ok: whether a file that does not exist counts as a file without pins.

        Raises:
            PinsError: there is no such file, or it is not a file of pins.
        """
        if Path(path).is_dir():
            return cls._read_folder(Path(path))
        try:
            text = read_text_file(path, error=PinsError)
        except PinsError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            if missing_ok:
                return cls()
            raise PinsError(
                f"{path}: no such file of pins; create it from the tools as they are now with "
                f"`shortlist trust init --tools FILE --pins {path}`"
            ) from error
        return cls.from_text(text, str(path))

    @classmethod
    def from_text(cls, text: str, source: str) -> Self:
        """The pins in the text of a file.

        Args:
            text: the text.
            source: where it is from, for errors.

        Raises:
            PinsError: it has no pins.
        """
        rows, closed = _rows(source, text)
        return cls({tool_id: _pin(source, tool_id, row) for tool_id, row in rows}, closed=closed)

    @classmethod
    def _read_folder(cls, folder: Path) -> Self:
        pins: dict[str, Pin] = {}
        closed: dict[str, str] = {}
        unreadable: dict[str, str] = {}
        for path in _files_of_folder(folder):
            try:
                server_pins = cls.from_text(read_text_file(path, error=PinsError), str(path))
            except PinsError as error:
                unreadable[path.name] = str(error)
            else:
                pins |= server_pins._pins
                closed |= server_pins._closed
        return cls(pins, closed=closed, unreadable=unreadable)

    def to_text(self) -> str:
        """The text of a file with these pins, in ASCII."""
        return json.dumps(self._to_document())

    def save(self, path: str | Path) -> None:
        """Write the file in one step; only its owner may read it. In a folder, each server's file.

        Processes that may do so at the same time use `change_pins`.

        Raises:
            PinsError: the file cannot be written.
        """
        path = Path(path)
        try:
            if path.is_dir():
                self._save_to_folder(path, Pins.read(path))
            else:
                make_private_folder(path.parent)
                self._write(path)
        except OSError as error:
            raise PinsError(f"{path}: cannot be written: {error}") from error

    def _save_to_folder(self, folder: Path, before: Pins) -> None:
        """Write the files of the servers whose pins differ from before."""
        pins_before = before.by_server()
        pins_now = self.by_server()
        for server in pins_before.keys() - pins_now.keys():
            (folder / _file_name(server)).unlink(missing_ok=True)
        for server, pins in pins_now.items():
            if pins == pins_before.get(server):
                continue
            path = folder / _file_name(server)
            if path.name in before.unreadable:
                path.replace(path.with_suffix(".damaged"))
            pins._write(path)

    def _write(self, path: Path) -> None:
        text = json.dumps(self._to_document(), indent=1, ensure_ascii=False)
        replace_text_file(path, [f"{text}\n"], mode=OWNER_ONLY_MODE)

    def _to_document(self) -> dict[str, Any]:
        rows = {
            tool_id: {
                "fingerprint": pin.fingerprint,
                "approved": pin.approved,
                "age": pin.age,
                "definition": pin.definition,
            }
            for tool_id, pin in sorted(self._pins.items())
        }
        closed = {"closed": self._closed} if self._closed else {}
        return {"format": _FORMAT, **closed, "tools": rows}

    def by_server(self) -> dict[str, Pins]:
        """The pins of each server; "" for tools without a server."""
        pins: dict[str, dict[str, Pin]] = {server: {} for server in self._closed}
        for tool_id, pin in self._pins.items():
            pins.setdefault(pin.server, {})[tool_id] = pin
        return {
            server: Pins(
                server_pins,
                closed={server: self._closed[server]} if server in self._closed else None,
            )
            for server, server_pins in pins.items()
        }

    def closed_reason(self, server: str) -> str:
        """Why new tools of a server wait for an approval; "" if they do not."""
        code = self._closed_code(server)
        return _CLOSED_REASONS[code] if code else ""

    def _closed_code(self, server: str) -> str:
        if server in self._closed:
            return self._closed[server]
        return DAMAGED if self.unreadable and _file_name(server) in self.unreadable else ""

    def __len__(self) -> int:
        return len(self._pins)

    def __iter__(self) -> Iterator[str]:
        return iter(self._pins)

    def __contains__(self, tool_id: object) -> bool:
        return tool_id in self._pins

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pins):
            return NotImplemented
        return self._pins == other._pins and self._closed == other._closed

    __hash__ = None  # type: ignore[assignment]  # holds definitions, which are not hashable

    def approves(self, tool: Tool) -> bool:
        """Whether exactly this definition was approved."""
        pin = self._pins.get(tool.id)
        return pin is not None and pin.approved and pin.fingerprint == tool.fingerprint

    def change(self, tool: Tool) -> DefinitionChange | None:
        """The differences between a definition and its pin; None if there are none, or no pin."""
        pin = self._pins.get(tool.id)
        return None if pin is None else pin.change(tool)

    def changes(self, catalog: Catalog) -> tuple[DefinitionChange, ...]:
        """All definitions of a catalog that differ from their pin, in order."""
        if not self._pins:
            return ()
        return tuple(change for tool in catalog if (change := self.change(tool)) is not None)

    @property
    def next_age(self) -> int:
        """A number higher than the age of every pin."""
        return 1 + max((pin.age for pin in self._pins.values()), default=0)

    def first_ages(self) -> dict[str, int]:
        """Server to the age of its oldest pin, of tools that it no longer lists too."""
        ages: dict[str, int] = {}
        for pin in self._pins.values():
            ages[pin.server] = min(pin.age, ages.get(pin.server, pin.age))
        return ages

    def fingerprint(self, tool_id: str) -> str | None:
        """The fingerprint of a tool's pin; None if it has no pin."""
        pin = self._pins.get(tool_id)
        return None if pin is None else pin.fingerprint

    def age(self, tool_id: str) -> int | None:
        """The age of a tool's pin; None if it has no pin."""
        pin = self._pins.get(tool_id)
        return None if pin is None else pin.age

    def pin(self, tools: Iterable[Tool], age: int | None = None) -> Pins:
        """A copy with a pin added for each tool that has none.

        Args:
            tools: the tools.
            age: age of the new pins; `next_age` when absent.
        """
        new_age = self.next_age if age is None else age
        fresh = {tool.id: Pin.of(tool, new_age) for tool in tools if tool.id not in self._pins}
        return self._with(fresh)

    def pin_first_seen(self, tools: Iterable[Tool], age: int | None = None) -> Pins:
        """As `pin`, within the limits of each server: beyond them, its new tools wait.

        Args:
            tools: the tools.
            age: age of the new pins; `next_age` when absent.
        """
        new_age = self.next_age if age is None else age
        fresh: dict[str, dict[str, Pin]] = {}
        for tool in tools:
            if tool.id not in self._pins and not self._closed_code(tool.server or ""):
                fresh.setdefault(tool.server or "", {})[tool.id] = Pin.of(tool, new_age)
        if not fresh:
            return self
        pins_by_server = self.by_server()
        accepted: dict[str, Pin] = {}
        closed: dict[str, str] = {}
        for server, pins in fresh.items():
            fitting = _within_limits(pins_by_server.get(server, Pins())._pins.values(), pins)
            accepted |= fitting
            if len(fitting) < len(pins):
                closed[server] = FULL
        return self._with(accepted, closed)

    def merged(self, copy: Pins, *, since: Pins) -> Pins:
        """These pins with the pins that somebody added or replaced in a copy of them.

        Args:
            copy: the copy, with its changes.
            since: the copy as it was before.
        """
        changed = {
            tool_id: pin for tool_id, pin in copy._pins.items() if since._pins.get(tool_id) != pin
        }
        return self._with(changed, copy._closed)

    def restored(self, last: Pins) -> Pins:
        """These pins with those of servers that have none any more.

        Args:
            last: pins that were read earlier.
        """
        pins_by_server = self.by_server()
        lost = {
            server: pins
            for server, pins in last.by_server().items()
            if server not in pins_by_server and not self._closed_code(server)
        }
        return self._with(
            {id_: pin for pins in lost.values() for id_, pin in pins._pins.items()},
            {server: code for server, code in last._closed.items() if server in lost},
        )

    def approve(self, tools: Iterable[Tool]) -> Pins:
        """A copy in which these tools are approved with their present definitions.

        Other tools of a server whose pins could not be read wait for approvals of their own.
        """
        new_age = self.next_age
        approved: dict[str, Pin] = {}
        closed: dict[str, str] = {}
        for tool in tools:
            age = self._pins[tool.id].age if tool.id in self._pins else new_age
            approved[tool.id] = Pin.of(tool, age, approved=True)
            if code := self._closed_code(tool.server or ""):
                closed[tool.server or ""] = code
        return self._with(approved, closed)

    def _with(self, pins: Mapping[str, Pin], closed: Mapping[str, str] | None = None) -> Pins:
        """A copy with further pins and closed servers."""
        return Pins(
            {**self._pins, **pins},
            closed={**self._closed, **(closed or {})},
            unreadable=self.unreadable,
        )


def change_pins(path: str | Path, change: Callable[[Pins], Pins]) -> Pins:
    """Read, change and write pins, with a lock against other processes.

    Args:
        path: the file or folder; a file is created if it does not exist.
        change: returns the new pins. Only what differs is written.

    Returns:
        The new pins.

    Raises:
        PinsError: the file cannot be read or written, or another process holds it for too long.
    """
    path = Path(path)
    with locked(path, error=PinsError):
        before = Pins.read(path, missing_ok=True)
        after = change(before)
        if path.is_dir():
            after._save_to_folder(path, before)
            # What was unreadable and is written again is readable now.
            return Pins.read(path) if after != before else after
        if after != before or not path.exists():
            after.save(path)
        return after


def make_pins_folder(path: str | Path) -> None:
    """Make a folder of pins, with a file for each server. A folder or file that exists stays.

    Raises:
        PinsError: it cannot be written.
    """
    try:
        if not Path(path).exists():
            make_private_folder(Path(path))
    except OSError as error:
        raise PinsError(f"{path}: cannot be written: {error}") from error


def pins_stamp(path: str | Path) -> tuple[tuple[str, int], ...]:
    """Another value after each change of a file or folder of pins; empty if there is none."""
    path = Path(path)
    try:
        paths = [path, *_files_of_folder(path)] if path.is_dir() else [path]
        return tuple((file.name, file.stat().st_mtime_ns) for file in paths)
    except OSError:
        return ()


def approve_definitions(
    path: str | Path, tools: Iterable[Tool], *, pinned: Mapping[str, str] | None = None
) -> Pins:
    """Approve the present definitions of these tools in a file of pins; returns the new pins.

    Args:
        path: the file; created if it does not exist.
        tools: the tools, each with the definition that somebody read.
        pinned: tool id to the fingerprint of the pin that somebody compared it with, "" for none;
            None to replace any pin.

    Raises:
        PinsError: as for `change_pins`, or a tool has another pin by now.
    """
    approved = list(tools)

    def approve(before: Pins) -> Pins:
        for tool_id, fingerprint in (pinned or {}).items():
            if (before.fingerprint(tool_id) or "") != fingerprint:
                raise PinsError(
                    f"{tool_id}: its accepted definition changed since you saw it; read it again"
                )
        return before.approve(approved)

    return change_pins(path, approve)


def _files_of_folder(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.json") if not path.name.startswith("."))


def _file_name(server: str) -> str:
    """Name of a server's file. Part of it is a hash, because a name may have any characters."""
    readable = re.sub(r"[^A-Za-z0-9_.-]", "_", server)[:40].lstrip(".") or "tools"
    digest = hashlib.sha256(server.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return f"{readable}-{digest}.json"


def _within_limits(present: Iterable[Pin], new: Mapping[str, Pin]) -> dict[str, Pin]:
    """The first of the new pins of one server that are within its limits."""
    sizes = [_pin_bytes(pin) for pin in present]
    free_count, free_bytes = MAX_SERVER_PINS - len(sizes), MAX_SERVER_PIN_BYTES - sum(sizes)
    fitting: dict[str, Pin] = {}
    for tool_id, pin in new.items():
        free_count -= 1
        free_bytes -= _pin_bytes(pin)
        if free_count < 0 or free_bytes < 0:
            break
        fitting[tool_id] = pin
    return fitting


def _pin_bytes(pin: Pin) -> int:
    return len(json.dumps(pin.definition, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _rows(path: str | Path, text: str) -> tuple[Iterable[tuple[str, Any]], dict[str, str]]:
    """The rows of a file, and the servers whose new tools wait."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PinsError(f"{path}: no JSON: {error}") from error
    rows = value.get("tools") if isinstance(value, dict) else None
    if not isinstance(rows, dict) or value.get("format") != _FORMAT:
        raise PinsError(f'{path}: no file of pins: "format": {_FORMAT} and "tools" were expected')
    closed = value.get("closed", {})
    if not isinstance(closed, dict) or not all(code in _CLOSED_REASONS for code in closed.values()):
        raise PinsError(f'{path}: "closed": a server and one of: {", ".join(_CLOSED_REASONS)}')
    return rows.items(), closed


def _pin(path: str | Path, tool_id: str, row: Any) -> Pin:
    match row:
        case {"fingerprint": str(), "definition": dict(), "approved": bool()}:
            age = row.get("age", 0)
            if isinstance(age, bool) or not isinstance(age, int) or age < 0:
                raise PinsError(f"{path}: {tool_id!r}: age: {age!r:.80} is not a number from 0 on")
            return Pin(row["fingerprint"], row["definition"], row["approved"], age)
    raise PinsError(f"{path}: {tool_id!r}: lacks fingerprint, definition or approved")
