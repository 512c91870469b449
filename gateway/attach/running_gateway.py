"""Finds the background gateway of a configuration, starts it, lists and ends all of them.

The gateway holds a lock on a file for as long as it lives. The process that starts it takes the
lock first and passes it on, so two processes never start the same gateway.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import ConfigError
from .identity import Identity
from .socket_folder import AttachError, connect, socket_folder, socket_path

#: Seconds that a gateway may take until it accepts clients.
START_TIMEOUT_S = 120.0
#: Seconds that a running gateway may take to greet a client.
GREETING_TIMEOUT_S = 30.0
_POLL_S = 0.01
#: Seconds that a gateway has to stop its servers.
_STOP_TIMEOUT_S = 20.0
#: A longer log is started anew.
_MAX_LOG_BYTES = 1_000_000
_MAX_GREETING_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """A background gateway.

    Args:
        pid: id of its process.
        config: its file with the servers.
        log: file with what it wrote to stderr.
    """

    pid: int
    config: Path
    log: Path


@dataclass(frozen=True, slots=True)
class Attachment:
    """A connection of one client to the background gateway.

    Args:
        connection: the connection. Messages in both directions are lines.
        problems: what is wrong with the gateway's configuration, one line each.
    """

    connection: socket.socket
    problems: tuple[str, ...]


def attach(identity: Identity, profile: str) -> Attachment:
    """Connect to the gateway of a configuration. Starts it if it does not run.

    Raises:
        AttachError: it cannot be reached or started.
        ConfigError: it has no such profile.
    """
    folder = socket_folder()
    path = socket_path(folder, identity.key)
    deadline = time.monotonic() + START_TIMEOUT_S
    process: subprocess.Popen[bytes] | None = None
    try:
        while True:
            if (attachment := _connect_with_profile(path, profile)) is not None:
                return attachment
            if process is not None and process.poll() is not None:
                raise AttachError(f"the background gateway ended at once; see {_log_path(path)}")
            if process is None and (lock := _take_lock(path)) is not None:
                process = _start_gateway(identity, path, lock)
            if time.monotonic() > deadline:
                if process is not None:
                    process.terminate()
                raise AttachError(
                    f"the background gateway accepts no clients after {START_TIMEOUT_S:.0f} s; "
                    f"see {_log_path(path)}, or end it: shortlist stop"
                )
            time.sleep(_POLL_S)
    except OSError as error:
        raise AttachError(f"{error.filename or path}: {error.strerror or error}") from None


def greeting_line(**values: Any) -> bytes:
    """The first line in each direction of a connection."""
    return json.dumps(values).encode() + b"\n"


def _connect_with_profile(path: Path, profile: str) -> Attachment | None:
    """A connection with an accepted profile; None if no gateway listens, or it is just ending."""
    try:
        connection = connect(path)
    except (FileNotFoundError, ConnectionError):
        return None
    try:
        connection.settimeout(GREETING_TIMEOUT_S)
        connection.sendall(greeting_line(profile=profile))
        line = b""
        # Byte by byte, so that nothing after the line is read here.
        while not line.endswith(b"\n") and len(line) < _MAX_GREETING_BYTES:
            if not (byte := connection.recv(1)):
                connection.close()
                return None
            line += byte
        answer: Mapping[str, Any] = json.loads(line)
        connection.settimeout(None)
    except ConnectionError:
        connection.close()
        return None
    except (OSError, ValueError) as error:
        connection.close()
        raise AttachError(f"the background gateway does not answer ({error})") from None
    if "error" in answer:
        connection.close()
        raise ConfigError(str(answer["error"]))
    return Attachment(connection=connection, problems=tuple(answer.get("problems", ())))


def ask(
    gateway: RunningGateway, *, timeout_s: float, **question: object
) -> Mapping[str, Any] | None:
    """A running gateway's answer to a question that needs no session; None if it gives none.

    Args:
        gateway: the gateway.
        timeout_s: seconds that it may take.
        question: what the first line says, see `SocketServer`. A refusal has the key `error`.
    """
    try:
        with connect(gateway.log.with_suffix(".sock")) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(greeting_line(**question))
            with connection.makefile("rb") as lines:
                answer = json.loads(lines.readline(_MAX_GREETING_BYTES))
    except (OSError, ValueError, AttachError):
        return None
    return answer if isinstance(answer, dict) else None


def _start_gateway(identity: Identity, path: Path, lock: int) -> subprocess.Popen[bytes]:
    """Start a background gateway that holds the lock."""
    arguments = ["serve", "--config", str(identity.config)]
    if identity.settings is not None:
        arguments += ["--settings", str(identity.settings)]
    arguments += ["--background", f"{lock}:{path}"]
    log_path = _log_path(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    log = os.open(log_path, flags, 0o600)
    try:
        if os.fstat(log).st_size > _MAX_LOG_BYTES:
            os.ftruncate(log, 0)
        # `-P`: no module is imported from the working folder.
        return subprocess.Popen(  # noqa: S603 - this package's own command
            [sys.executable, "-P", "-c", "from shortlist.cli import main; main()", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=identity.folder,
            start_new_session=True,
            pass_fds=(lock,),
        )
    finally:
        os.close(log)
        os.close(lock)


def _take_lock(path: Path) -> int | None:
    """The descriptor of the lock of a gateway that does not run; None if it runs or starts."""
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    # Until the next gateway writes its own, the file must not name the process of the last one.
    os.ftruncate(lock, 0)
    return lock


def record_running(lock: int, config: Path) -> None:
    """Write this process into the lock that it got from the process that started it."""
    os.set_inheritable(lock, False)
    os.pwrite(lock, json.dumps({"pid": os.getpid(), "config": str(config)}).encode(), 0)


def running_gateways(config: Path | None = None) -> Iterator[RunningGateway]:
    """The background gateways of this user.

    Args:
        config: only those of this file with the servers; all when absent.

    Raises:
        AttachError: other users have access to the folder of the sockets.
    """
    for path in sorted(socket_folder().glob("*.lock")):
        if not _is_locked(path):
            continue
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            continue  # it starts just now
        gateway = RunningGateway(values["pid"], Path(values["config"]), _log_path(path))
        if config is None or gateway.config == config.absolute():
            yield gateway


def stop(gateway: RunningGateway) -> None:
    """End a background gateway and its servers, and wait until it has ended."""
    lock = gateway.log.with_suffix(".lock")
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    try:
        os.kill(gateway.pid, signal.SIGTERM)
        while _is_locked(lock):
            if time.monotonic() > deadline:
                os.kill(gateway.pid, signal.SIGKILL)
            time.sleep(_POLL_S)
    except ProcessLookupError:
        return


def _is_locked(path: Path) -> bool:
    lock = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _log_path(path: Path) -> Path:
    return path.with_suffix(".log")
