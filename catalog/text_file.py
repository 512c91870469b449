"""Files: reads only regular files of limited size, and writes in one step."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ..errors import CatalogError, ShortlistError

OWNER_ONLY_MODE = 0o600
"""Mode of a file that only its owner may read."""
MAX_FILE_BYTES = 1 << 28
"""Maximum bytes of a file, 256 MiB. A catalog of 50,000 tools takes about 50 MB."""
#: Seconds to wait for another process that writes the same file.
_LOCK_SECONDS = 10.0
_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


def open_file(
    path: str | Path,
    limit: int | None = MAX_FILE_BYTES,
    *,
    error: type[ShortlistError] = CatalogError,
) -> BinaryIO:
    """A regular file, open for reading bytes.

    Pipes, sockets and devices are refused without reading, because they may have no end.

    Args:
        path: the file; links are followed.
        limit: maximum bytes; None for no limit.
        error: type of the error to raise.

    Raises:
        ShortlistError: of the type `error`: no such file, no regular file, or too large.
    """
    try:
        _check(path, Path(path).stat(), limit, error)
        # What the path names may have changed since: opening a pipe must not wait for a writer.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0))
        try:
            _check(path, os.fstat(descriptor), limit, error)
            return os.fdopen(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise
    except (OSError, ValueError, TypeError) as cause:
        raise error(f"{_short_path(path)}: cannot be read: {_reason(cause)}") from cause


def read_text_file(
    path: str | Path, limit: int = MAX_FILE_BYTES, *, error: type[ShortlistError] = CatalogError
) -> str:
    """The text of a regular UTF-8 file, without a byte order mark.

    Args:
        path: the file.
        limit: maximum bytes.
        error: type of the error to raise.

    Raises:
        ShortlistError: of the type `error`: as `open_file`, or the file is not UTF-8.
    """
    try:
        with open_file(path, limit, error=error) as file:
            content = file.read(limit + 1)
    except OSError as cause:
        raise error(f"{_short_path(path)}: cannot be read: {_reason(cause)}") from cause
    if len(content) > limit:
        raise error(_too_large(path, len(content), limit))
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as cause:
        raise error(
            f"{_short_path(path)}: is not UTF-8 text: {cause.reason} at byte {cause.start}"
        ) from cause


def replace_file(
    path: Path,
    parts: Iterable[bytes],
    *,
    mode: int | None = OWNER_ONLY_MODE,
    several_writers: bool = False,
) -> None:
    """Write a file in one step: an interruption leaves the old file or the new one.

    A failure, such as a full disk, leaves no other file. A process that is killed meanwhile leaves
    a file beside it, which the next write replaces unless there are several writers. Whatever has
    that name is removed, never written to: in a stranger's folder it may be a link to another file.

    Args:
        path: the file.
        parts: the new content.
        mode: permissions of the file; None for those of new files (umask).
        several_writers: whether others may write the file at the same time without a lock. The
            last one wins.

    Raises:
        OSError: the file cannot be written.
    """
    writer = f"{os.getpid()}-{threading.get_ident()}." if several_writers else ""
    partial = path.with_name(f".{path.name}.{writer}partial")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    partial.unlink(missing_ok=True)
    try:
        descriptor = os.open(partial, flags, 0o666 if mode is None else OWNER_ONLY_MODE)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            partial.chmod(mode)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def replace_text_file(path: Path, lines: Iterable[str], *, mode: int | None = None) -> None:
    """The same for lines of UTF-8 text, each with its line end. By default others may read it."""
    replace_file(path, (line.encode("utf-8") for line in lines), mode=mode)


def make_private_folder(path: Path) -> None:
    """Create a folder, and the missing folders above it, that only their owner may open.

    Raises:
        OSError: a folder cannot be created.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    path.mkdir(exist_ok=True)  # an error if there is a file of this name


@contextmanager
def locked(path: Path, *, error: type[ShortlistError]) -> Iterator[None]:
    """Hold the lock of a file that several processes change.

    Args:
        path: the file; the lock lies beside it. Missing folders are created, for their owner only.
        error: type of the error to raise.

    Raises:
        ShortlistError: of the type `error`: another process holds it for too long, or a file
            cannot be written.
    """
    from filelock import FileLock, Timeout  # 25 ms of a start

    try:
        make_private_folder(path.parent)
        with FileLock(f"{path}.lock", timeout=_LOCK_SECONDS, mode=OWNER_ONLY_MODE):
            yield
    except Timeout as cause:
        raise error(f"{path}: another process is writing; try again") from cause
    except OSError as cause:
        raise error(f"{path}: cannot be written: {_reason(cause)}") from cause


def _check(
    path: str | Path, status: os.stat_result, limit: int | None, error: type[ShortlistError]
) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "a device")
        raise error(f"{_short_path(path)}: cannot be read: it is {kind}; give a regular file")
    if limit is not None and status.st_size > limit:
        raise error(_too_large(path, status.st_size, limit))


def _too_large(path: str | Path, size: int, limit: int) -> str:
    return f"{_short_path(path)}: has {size:,} bytes, more than {limit:,}; split it"


def _short_path(path: object) -> str:
    return f"{path!s:.300}"


def _reason(cause: Exception) -> str:
    return (isinstance(cause, OSError) and cause.strerror) or str(cause)
