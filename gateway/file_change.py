"""Atomic changes of files, with backups."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile

from ..errors import ConfigError

_SUFFIX = ".shortlist-backup"
#: Only the owner may read a new file, because it may contain secrets.
_PRIVATE = 0o600


@dataclass(frozen=True)
class FileChange:
    """New content of one file.

    Args:
        path: the file.
        before: its bytes when the change was planned; None if there was no file.
        after: its new bytes; None to delete it.
    """

    path: Path
    before: bytes | None = field(repr=False)
    after: bytes | None = field(repr=False)

    @property
    def is_needed(self) -> bool:
        """Whether the content differs."""
        return self.before != self.after


def read_or_none(path: Path) -> bytes | None:
    """Bytes of a file; None if it does not exist.

    Raises:
        ConfigError: the file exists and cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None


def apply_change(change: FileChange, *, backup: bool = True) -> Path | None:
    """Write a change, after a backup of the file as it was.

    If the path is a symbolic link, the linked file is changed. The file keeps its mode.

    Returns:
        The backup. It is empty if there was no file. None without a backup.

    Raises:
        ConfigError: the file was changed since the change was planned, or cannot be written.
    """
    path = change.path.resolve()
    if read_or_none(path) != change.before:
        raise ConfigError(
            f"{path}: another program changed the file in the meantime; run the command again"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        copy = _back_up(path, change.before or b"") if backup else None
        if change.after is None:
            path.unlink(missing_ok=True)
        else:
            mode = _PRIVATE if change.before is None else path.stat().st_mode & 0o7777
            _write(path, change.after, mode)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None
    return copy


def last_backup(path: Path) -> Path | None:
    """The newest backup of a file; None if there is none."""
    path = path.resolve()
    found = [one for one in _backups(path) if one.is_file()]
    return found[-1] if found else None


def _backups(path: Path) -> list[Path]:
    """Paths of the backups, oldest first, then the path for the next one."""
    names = [path.with_name(path.name + _SUFFIX)]
    while names[-1].exists():
        names.append(path.with_name(f"{path.name}{_SUFFIX}-{len(names) + 1}"))
    return names


def _back_up(path: Path, data: bytes) -> Path:
    copy = _backups(path)[-1]
    with os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return copy


def _write(path: Path, data: bytes, mode: int) -> None:
    temporary: Path | None = None
    try:
        with NamedTemporaryFile(
            "wb", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            temporary = Path(file.name)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    except OSError:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise
