"""A connection to a server process: messages over stdin and stdout, a log of stderr.

The SDK's transport reads a long line again with each chunk. If a server ends by itself, its
children stay. And it needs a file for stderr, which grows without bound.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from subprocess import PIPE
from typing import TYPE_CHECKING

import anyio
import mcp.types as types
from anyio.abc import Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage

from .logs import ServerLog
from .orphans import RunningProcesses
from .server_spec import ServerSpec

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

#: Most bytes of one message of a server.
MOST_BYTES = 32 * 1024 * 1024
#: Seconds that a server has to end: after its stdin was closed, and after it got a signal.
_GRACE = 2.0
_KEPT = 4_096
#: The id of an answer is first or last, depending on the server's SDK.
_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+)\s*,')
_LAST = re.compile(rb',\s*"id"\s*:\s*(\d+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')

_CLOSED = (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)


@asynccontextmanager
async def stdio_transport(
    spec: ServerSpec,
    log: ServerLog,
    noise: Callable[[str], None],
    processes: RunningProcesses,
) -> AsyncIterator[TransportStreams]:
    """A connection to a new process. The process and its children end with the connection.

    Args:
        spec: server with command, arguments, environment and folder.
        log: receives the stderr of the process.
        noise: called with stdout text that is not a message.
        processes: record of the running processes.

    Raises:
        OSError: the process cannot be started.
    """
    process = await anyio.open_process(
        [spec.command or "", *spec.args],
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        cwd=spec.cwd,
        env=get_default_environment() | processes.mark | spec.plain_env(),
        start_new_session=True,
    )
    # No await before `try`: a cancellation there would leave the process running.
    to_session, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        processes.started(process.pid)
        async with anyio.create_task_group() as group:
            group.start_soon(_read, process, to_session, noise)
            group.start_soon(_write, process, from_session, to_session)
            group.start_soon(_log, process, log)
            try:
                yield read, write
            finally:
                read.close()
                write.close()
                with anyio.CancelScope(shield=True):
                    await _stop(process)
                group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await _stop(process)
        processes.stopped(process.pid)
        for stream in (read, write, to_session, from_session):
            stream.close()


async def _read(
    process: Process, out: MemoryObjectSendStream[SessionMessage | Exception], noise: _Noise
) -> None:
    assert process.stdout is not None
    lines = LineReader()
    async with out:
        with suppress(*_CLOSED, anyio.EndOfStream):
            while True:
                for line in lines.feed(await process.stdout.receive()):
                    message = _message(line, noise)
                    if message is not None:
                        await out.send(SessionMessage(message))
    # A server that still writes while it ends must not block on a full pipe.
    with suppress(*_CLOSED, anyio.EndOfStream):
        while True:
            await process.stdout.receive()


async def _write(
    process: Process,
    messages: MemoryObjectReceiveStream[SessionMessage],
    out: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    assert process.stdin is not None
    try:
        async for one in messages:
            text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
            await process.stdin.send(text.encode() + b"\n")
    except _CLOSED:
        # The MCP session must see the end of the connection and not wait for an answer.
        await out.aclose()


async def _log(process: Process, log: ServerLog) -> None:
    assert process.stderr is not None
    with suppress(*_CLOSED, anyio.EndOfStream):
        while True:
            data = await process.stderr.receive()
            # A full disk must not stop the server: it blocks if nobody reads its stderr.
            with suppress(OSError):
                log.write(data)


def _message(line: bytes | TooLong, noise: _Noise) -> types.JSONRPCMessage | None:
    if isinstance(line, TooLong):
        said = f"a message of {line.size:,} bytes, more than the limit of {MOST_BYTES:,}"
        noise(said)
        found = _FIRST.match(line.head) or _LAST.search(line.tail)
        if found is None:
            return None
        error = types.ErrorData(code=types.INTERNAL_ERROR, message=f"the server sent {said}")
        return types.JSONRPCError(jsonrpc="2.0", id=int(found.group(1)), error=error)
    if not line.strip():
        return None
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        noise(line[:200].decode(errors="replace").strip())
        return None


class TooLong:
    """A line that was too long: its beginning, its end and its size in bytes."""

    def __init__(self, head: bytes, tail: bytes, size: int) -> None:
        self.head = head
        self.tail = tail
        self.size = size


class LineReader:
    """Splits chunks of bytes into lines. Lines longer than `most` need no memory.

    Args:
        most: most bytes of a line.
    """

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._line = bytearray()
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes | TooLong]:
        """The lines that end in this chunk."""
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            self._add(part)
            yield self._taken()
        self._add(rest)

    def _add(self, part: bytes) -> None:
        self._line += part
        self._size += len(part)
        if self._size > self._most and len(self._line) > 4 * _KEPT:
            self._line[_KEPT:-_KEPT] = b""

    def _taken(self) -> bytes | TooLong:
        whole, size = bytes(self._line), self._size
        self._line, self._size = bytearray(), 0
        if size <= self._most:
            return whole
        return TooLong(whole[:_KEPT], whole[-_KEPT:], size)


async def _stop(process: Process) -> None:
    """Close stdin, wait, then end the process and the rest of its process group."""
    if process.stdin is not None:
        with suppress(*_CLOSED):
            await process.stdin.aclose()
    with anyio.move_on_after(_GRACE):
        # Not `process.wait`, which also waits for children that inherited the pipes.
        while process.returncode is None:
            await anyio.sleep(0.01)
    if os.name == "posix":
        await terminate_posix_process_tree(process, _GRACE)
    elif process.returncode is None:
        process.kill()
    with anyio.move_on_after(_GRACE):
        while process.returncode is None:
            await anyio.sleep(0.01)
    # anyio has no other way to close this side of the pipes.
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()


_Noise = Callable[[str], None]
