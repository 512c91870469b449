"""Pins: the accepted definition of each tool, in one JSON file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ..catalog import Catalog, Tool
from ..catalog.text_file import (
    OWNER_ONLY_MODE,
    make_private_folder,
    read_text_file,
    replace_text_file,
)
from ..errors import PinsError
from .change import DefinitionChange, changed_parts

_FORMAT = 1
#: Seconds to wait for another process that writes the same file.
_LOCK_SECONDS = 10.0


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
    """

    def __init__(self, pins: Mapping[str, Pin] | None = None) -> None:
        self._pins = dict(pins or {})

    @classmethod
    def read(cls, path: str | Path, *, missing_ok: bool = False) -> Self:
        """The pins of a file.

        Args:
            path: the file.
            missing_ok: whether a file that does not exist counts as a file without pins.

        Raises:
            PinsError: there is no such file, or it is not a file of pins.
        """
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
        return cls({tool_id: _pin(source, tool_id, row) for tool_id, row in _rows(source, text)})

    def to_text(self) -> str:
        """The text of a file with these pins, in ASCII."""
        return json.dumps({"format": _FORMAT, "tools": self._to_rows()})

    def save(self, path: str | Path) -> None:
        """Write the file in one step; only its owner may read it.

        Processes that may do so at the same time use `change_pins`.

        Raises:
            PinsError: the file cannot be written.
        """
        path = Path(path)
        form = {"format": _FORMAT, "tools": self._to_rows()}
        text = json.dumps(form, indent=1, ensure_ascii=False)
        try:
            make_private_folder(path.parent)
            replace_text_file(path, [f"{text}\n"], mode=OWNER_ONLY_MODE)
        except OSError as error:
            raise PinsError(f"{path}: cannot be written: {error}") from error

    def _to_rows(self) -> dict[str, Any]:
        return {
            tool_id: {
                "fingerprint": pin.fingerprint,
                "approved": pin.approved,
                "age": pin.age,
                "definition": pin.definition,
            }
            for tool_id, pin in sorted(self._pins.items())
        }

    def __len__(self) -> int:
        return len(self._pins)

    def __iter__(self) -> Iterator[str]:
        return iter(self._pins)

    def __contains__(self, tool_id: object) -> bool:
        return tool_id in self._pins

    def __eq__(self, other: object) -> bool:
        return self._pins == other._pins if isinstance(other, Pins) else NotImplemented

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
        return Pins(self._pins | fresh)

    def merged(self, copy: Pins, *, since: Pins) -> Pins:
        """These pins with the pins that somebody added or replaced in a copy of them.

        Args:
            copy: the copy, with its changes.
            since: the copy as it was before.
        """
        changed = {
            tool_id: pin for tool_id, pin in copy._pins.items() if since._pins.get(tool_id) != pin
        }
        return Pins(self._pins | changed)

    def approve(self, tools: Iterable[Tool]) -> Pins:
        """A copy in which these tools are approved with their present definitions."""
        new_age = self.next_age
        ages = {tool_id: pin.age for tool_id, pin in self._pins.items()}
        approved = {
            tool.id: Pin.of(tool, ages.get(tool.id, new_age), approved=True) for tool in tools
        }
        return Pins(self._pins | approved)


def change_pins(path: str | Path, change: Callable[[Pins], Pins]) -> Pins:
    """Read, change and write a file of pins, with a lock against other processes.

    Args:
        path: the file; created if it does not exist.
        change: returns the new pins. The file is written only if they differ.

    Returns:
        The new pins.

    Raises:
        PinsError: the file cannot be read or written, or another process holds it for too long.
    """
    from filelock import FileLock, Timeout  # 25 ms of a start

    path = Path(path)
    try:
        make_private_folder(path.parent)
        with FileLock(f"{path}.lock", timeout=_LOCK_SECONDS, mode=OWNER_ONLY_MODE):
            before = Pins.read(path, missing_ok=True)
            after = change(before)
            if after != before or not path.exists():
                after.save(path)
            return after
    except Timeout as error:
        raise PinsError(f"{path}: another process is writing; try again") from error
    except OSError as error:
        raise PinsError(f"{path}: cannot be written: {error}") from error


def approve_definitions(path: str | Path, tools: Iterable[Tool]) -> Pins:
    """Approve the present definitions of these tools in a file of pins; returns the new pins.

    Args:
        path: the file; created if it does not exist.
        tools: the tools, each with the definition that somebody read.

    Raises:
        PinsError: as for `change_pins`.
    """
    approved = list(tools)
    return change_pins(path, lambda before: before.approve(approved))


def _rows(path: str | Path, text: str) -> Iterable[tuple[str, Any]]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PinsError(f"{path}: no JSON: {error}") from error
    rows = value.get("tools") if isinstance(value, dict) else None
    if not isinstance(rows, dict) or value.get("format") != _FORMAT:
        raise PinsError(f'{path}: no file of pins: "format": {_FORMAT} and "tools" were expected')
    return rows.items()


def _pin(path: str | Path, tool_id: str, row: Any) -> Pin:
    match row:
        case {"fingerprint": str(), "definition": dict(), "approved": bool()}:
            age = row.get("age", 0)
            if isinstance(age, bool) or not isinstance(age, int) or age < 0:
                raise PinsError(f"{path}: {tool_id!r}: age: {age!r:.80} is not a number from 0 on")
            return Pin(row["fingerprint"], row["definition"], row["approved"], age)
    raise PinsError(f"{path}: {tool_id!r}: lacks fingerprint, definition or approved")
