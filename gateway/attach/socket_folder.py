"""The folder of the sockets over which clients reach a running gateway.

Nobody but its owner can enter the folder, so nobody else can connect.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import tempfile
from pathlib import Path

from ...errors import ShortlistError

#: Longest path of a socket in bytes. Linux permits 107, macOS 103.
_MAX_PATH_BYTES = 100
_PRIVATE_MODE = 0o700


class AttachError(ShortlistError):
    """A client cannot share a gateway here. It can still run one of its own."""


def socket_folder() -> Path:
    """The folder, created if it is missing.

    It is `$XDG_RUNTIME_DIR/shortlist`, or `shortlist-UID` in the folder for temporary files.

    Raises:
        AttachError: the folder cannot be created, or other users can change it.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_absolute() and Path(runtime).is_dir():
        folder = Path(runtime) / "shortlist"
    else:
        folder = Path(tempfile.gettempdir()) / f"shortlist-{os.getuid()}"
    try:
        folder.mkdir(mode=_PRIVATE_MODE, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise AttachError(f"{folder}: {error.strerror}") from None
    if not stat.S_ISDIR(status.st_mode):
        raise AttachError(f"{folder}: not a folder; delete it")
    if status.st_uid != os.getuid():
        raise AttachError(f"{folder}: belongs to another user; delete it or set XDG_RUNTIME_DIR")
    if stat.S_IMODE(status.st_mode) & ~_PRIVATE_MODE:
        raise AttachError(f"{folder}: other users have access to it; run: chmod 700 {folder}")
    return folder


def socket_path(folder: Path, key: str) -> Path:
    """The socket of a gateway.

    Raises:
        AttachError: the path is too long for a socket.
    """
    path = folder / f"{key}.sock"
    if len(os.fsencode(path)) > _MAX_PATH_BYTES:
        raise AttachError(f"{path}: too long for a socket; set XDG_RUNTIME_DIR to a shorter path")
    return path


def connect(path: Path) -> socket.socket:
    """A connection to the gateway at a socket.

    Raises:
        AttachError: the process at the socket belongs to another user.
        OSError: no process listens there.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(path))
        check_peer(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def check_peer(connection: socket.socket) -> None:
    """Check that the process at the other end has this process's user.

    Only Linux says whose process it is. Elsewhere the folder alone protects the socket.

    Raises:
        AttachError: it has another user.
    """
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return
    credentials = struct.Struct("3i")
    raw = connection.getsockopt(socket.SOL_SOCKET, option, credentials.size)
    _, user, _ = credentials.unpack(raw)
    if user != os.getuid():
        raise AttachError("the process at the other end of the socket belongs to another user")
