"""Standard input and output as the streams of messages of one client.

Where they are pipes or sockets, as with every client, they are read and written without a thread:
a change of threads for each line took a tenth of a call's time.
"""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import anyio

from ..untrusted.json_bytes import repaired_json

if sys.platform != "win32":
    import fcntl

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_MAX_READ_BYTES = 65_536
#: Bytes of one write. A pipe that is ready takes at least as many without blocking.
_MAX_WRITE_BYTES = 4_096
#: Milliseconds for which a thread waits until the client reads. A waiting thread cannot be
#: cancelled, so the time is short.
_POLL_MS = 500

Streams = tuple["anyio.AsyncFile[str]", "anyio.AsyncFile[str] | None"]


@contextmanager
def standard_streams() -> Iterator[Streams]:
    """Standard input and output for the SDK's `stdio_server`; None where it opens its own.

    Meanwhile other code of this process reads an empty stdin. What it prints goes to stderr, so
    that it does not mix with messages.
    """
    if sys.platform == "win32":
        yield _threaded(sys.stdin.buffer), None
        return
    sys.stdout.flush()
    # A thread that reads may outlive the gateway, so nothing closes these descriptors.
    stdin, stdout = _duplicate(_STDIN), _duplicate(_STDOUT)
    with Path(os.devnull).open("r+b", buffering=0) as nothing:
        os.dup2(nothing.fileno(), _STDIN)
        try:
            os.dup2(_STDERR, _STDOUT)
        except OSError:
            # The client started the gateway without a stderr.
            os.dup2(nothing.fileno(), _STDOUT)
    lines: Any = RepairedPipeLines(stdin)
    if not _is_pipe(stdin):
        lines = _threaded(os.fdopen(stdin, "rb", closefd=False))
    try:
        yield lines, cast("anyio.AsyncFile[str]", PipeWriter(stdout))
    finally:
        sys.stdout.flush()
        os.dup2(stdout, _STDOUT)
        os.dup2(stdin, _STDIN)


def _duplicate(descriptor: int) -> int:
    """A duplicate that is never 0, 1 or 2, also where the client closed one of these."""
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _STDERR + 1)


def _is_pipe(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _threaded(file: BinaryIO) -> anyio.AsyncFile[str]:
    return anyio.wrap_file(cast("IO[str]", _RepairedLines(file)))


class _RepairedLines:
    """A text file with `readline`, the one method that the SDK needs.

    `repaired_json` replaces the rest of an emoji that the client cut in two by U+FFFD. JSON parsers
    would refuse the whole line.

    Args:
        file: a file with one JSON text in each line.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def readline(self) -> str:
        """The next line, repaired by `repaired_json`; "" at the end."""
        return repaired_json(self._file.readline()).decode()


class RepairedPipeLines:
    """The lines of a pipe or socket; the SDK iterates over them. Repaired as by `_RepairedLines`.

    Args:
        descriptor: the end to read from.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines = self._read_lines()

    def __aiter__(self) -> AsyncIterator[str]:
        return self._lines

    async def _read_lines(self) -> AsyncIterator[str]:
        pieces: list[bytes] = []
        while chunk := await self._read():
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                line = b"".join((*pieces, end))
                pieces.clear()
                yield repaired_json(line).decode()
            pieces.append(rest)
        if line := b"".join(pieces):
            yield repaired_json(line).decode()

    async def _read(self) -> bytes:
        await anyio.wait_readable(self._descriptor)
        return os.read(self._descriptor, _MAX_READ_BYTES)


class PipeWriter:
    """Writes texts to a descriptor, in a thread only while nobody reads the other end.

    Args:
        descriptor: the end to write to.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._writable = select.poll()
        self._writable.register(descriptor, select.POLLOUT)

    async def write(self, text: str) -> None:
        """Write a text, all of it."""
        rest = memoryview(text.encode())
        while rest:
            while not self._writable.poll(0):
                await anyio.to_thread.run_sync(self._writable.poll, _POLL_MS)
            rest = rest[os.write(self._descriptor, rest[:_MAX_WRITE_BYTES]) :]

    async def flush(self) -> None:
        """Nothing is kept back."""
