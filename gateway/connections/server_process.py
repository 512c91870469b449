"""A server process.

Messages over stdin and stdout, stderr in a log, and the end of processes that a killed gateway left
running.

The SDK's transport reads a long line again with each chunk. If a server ends by itself, its
children stay. And it needs a file for stderr, which grows without bound.
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import mcp.types as types
from anyio.abc import Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage

from ...catalog.text_file import replace_file
from ...untrusted import MAX_MESSAGE_BYTES, MAX_MESSAGE_VALUES
from ...untrusted.flood_limit import FloodError, FloodLimit
from ...untrusted.json_bytes import JsonRepair, has_many_values, parsed_json
from .server_log import ServerLog
from .server_spec import ServerSpec
from .user_folders import own_folder, state_folder

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams


#: Seconds that a server has to end: after its stdin was closed, and after it got a signal.
_END_TIMEOUT_S = 2.0
_KEPT_END_BYTES = 4_096
#: Most lines and bytes of a minute that answer no request.
_MAX_UNREQUESTED_LINES, _MAX_UNREQUESTED_BYTES = 30_000, 2 * MAX_MESSAGE_BYTES
#: A request of the server counts as so many lines, because it must be answered.
_LINES_PER_REQUEST = 10
#: Stray lines that are read in one turn. Other servers have their turns in between.
_STRAY_LINES_PER_TURN = 50
#: A line of this many times the most bytes of a message counts as endless.
_ENDLESS_LINE_FACTOR = 8
#: The id of an answer is first or last, depending on the server's SDK.
_ID_AT_BEGINNING = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+)\s*,')
_ID_AT_END = re.compile(rb',\s*"id"\s*:\s*(\d+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')

_STREAM_CLOSED_ERRORS = (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)


@asynccontextmanager
async def stdio_transport(
    spec: ServerSpec,
    log: ServerLog,
    on_stray_line: Callable[[str], None],
    processes: RunningProcesses,
) -> AsyncIterator[TransportStreams]:
    """A connection to a new process. The process and its children end with the connection.

    Args:
        spec: server with command, arguments, environment and folder.
        log: receives the stderr of the process.
        on_stray_line: called with stdout text that is not a message.
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
        env=get_default_environment() | processes.mark | spec.revealed_env(),
        start_new_session=True,
    )
    # No await before `try`: a cancellation there would leave the process running.
    to_session, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        processes.record_start(process.pid)
        async with anyio.create_task_group() as group:
            unrequested = _UnrequestedLines()
            group.start_soon(_receive_messages, process, to_session, on_stray_line, unrequested)
            group.start_soon(_send_messages, process, from_session, to_session, unrequested)
            group.start_soon(_log_stderr, process, log)
            try:
                yield read, write
            finally:
                read.close()
                write.close()
                with anyio.CancelScope(shield=True):
                    await _stop_process(process)
                group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await _stop_process(process)
        processes.record_end(process.pid)
        for stream in (read, write, to_session, from_session):
            stream.close()


async def _receive_messages(
    process: Process,
    to_session: MemoryObjectSendStream[SessionMessage | Exception],
    on_stray_line: _OnStrayLine,
    unrequested: _UnrequestedLines,
) -> None:
    assert process.stdout is not None
    repair, lines, stray_line_count = JsonRepair(), LineReader(), 0
    async with to_session:
        with suppress(*_STREAM_CLOSED_ERRORS, anyio.EndOfStream):
            while True:
                for received in lines.feed(repair.feed(await process.stdout.receive())):
                    line = await _oversized_if_many_values(received)
                    message = _parse_message(line, on_stray_line)
                    unrequested.count_line(line, message)
                    if message is not None:
                        await to_session.send(SessionMessage(message))
                        continue
                    stray_line_count += 1
                    if stray_line_count % _STRAY_LINES_PER_TURN == 0:
                        await anyio.lowlevel.checkpoint()
                lines.check_open_line()
    # A server that still writes while it ends must not block on a full pipe.
    with suppress(*_STREAM_CLOSED_ERRORS, anyio.EndOfStream):
        while True:
            await process.stdout.receive()


async def _oversized_if_many_values(line: bytes | OversizedLine) -> bytes | OversizedLine:
    """The line; an oversized one in its place if it has too many values to be read at once."""
    if isinstance(line, OversizedLine) or len(line) <= MAX_MESSAGE_VALUES:
        return line
    if not await anyio.to_thread.run_sync(has_many_values, line):
        return line
    problem = f"a message of more than {MAX_MESSAGE_VALUES:,} values"
    return OversizedLine(
        head=line[:_KEPT_END_BYTES], tail=line[-_KEPT_END_BYTES:], size=len(line), problem=problem
    )


async def _send_messages(
    process: Process,
    messages: MemoryObjectReceiveStream[SessionMessage],
    to_session: MemoryObjectSendStream[SessionMessage | Exception],
    unrequested: _UnrequestedLines,
) -> None:
    assert process.stdin is not None
    try:
        async for item in messages:
            unrequested.record_sent(item.message)
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            await process.stdin.send(text.encode() + b"\n")
    except _STREAM_CLOSED_ERRORS:
        # The MCP session must see the end of the connection and not wait for an answer.
        await to_session.aclose()


async def _log_stderr(process: Process, log: ServerLog) -> None:
    assert process.stderr is not None
    with suppress(*_STREAM_CLOSED_ERRORS, anyio.EndOfStream):
        while True:
            data = await process.stderr.receive()
            # A full disk must not stop the server: it blocks if nobody reads its stderr.
            with suppress(OSError):
                log.write(data)


def _parse_message(
    line: bytes | OversizedLine, on_stray_line: _OnStrayLine
) -> types.JSONRPCMessage | None:
    if isinstance(line, OversizedLine):
        on_stray_line(line.problem)
        id_match = _ID_AT_BEGINNING.match(line.head) or _ID_AT_END.search(line.tail)
        if id_match is None:
            return None
        error = types.ErrorData(
            code=types.INTERNAL_ERROR, message=f"the server sent {line.problem}"
        )
        return types.JSONRPCError(jsonrpc="2.0", id=int(id_match.group(1)), error=error)
    if not (text := line.strip()):
        return None
    if text.startswith(b"{"):
        with suppress(ValueError):
            # Read as plain values first: the adapter takes up to ten times as long for bytes.
            value = parsed_json(text, allow_nan=True)
            return types.jsonrpc_message_adapter.validate_python(value, by_name=False)
    on_stray_line(text[:200].decode(errors="replace"))
    return None


class _UnrequestedLines:
    """Limits the lines of a server that answer no request: stray lines, notifications, questions.

    Each of them takes time that other servers' calls wait for.
    """

    def __init__(self) -> None:
        self._limit = FloodLimit(
            max_lines=_MAX_UNREQUESTED_LINES,
            max_bytes=_MAX_UNREQUESTED_BYTES,
            subject="output that answers no request",
        )
        self._open_requests = 0

    def record_sent(self, message: types.JSONRPCMessage) -> None:
        """Record a message to the server. It may answer a request."""
        self._open_requests += isinstance(message, types.JSONRPCRequest)

    def count_line(self, line: bytes | OversizedLine, message: types.JSONRPCMessage | None) -> None:
        """Count a line of the server.

        Args:
            line: the line.
            message: the message in it; None for a stray line.

        Raises:
            FloodError: there were too many within a minute.
        """
        is_answer = isinstance(message, types.JSONRPCResponse | types.JSONRPCError)
        if is_answer and self._open_requests:
            self._open_requests -= 1
            return
        lines = _LINES_PER_REQUEST if isinstance(message, types.JSONRPCRequest) else 1
        self._limit.count(lines, line.size if isinstance(line, OversizedLine) else len(line))


class OversizedLine:
    """A line that is not read.

    Args:
        head: its first bytes.
        tail: its last bytes.
        size: its size in bytes.
        problem: why it is not read, for a message.
    """

    def __init__(self, head: bytes, tail: bytes, size: int, problem: str) -> None:
        self.head = head
        self.tail = tail
        self.size = size
        self.problem = problem


class LineReader:
    """Splits chunks of bytes into lines. Lines longer than `max_bytes` need no memory.

    Args:
        max_bytes: most bytes of a line.
    """

    def __init__(self, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._line = bytearray()
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes | OversizedLine]:
        """The lines that end in this chunk."""
        *complete_parts, rest = chunk.split(b"\n")
        for part in complete_parts:
            self._append(part)
            yield self._take_line()
        self._append(rest)

    def check_open_line(self) -> None:
        """Check the line that has not ended yet.

        Raises:
            FloodError: it is much longer than a line may be, and may have no end.
        """
        if self._size > _ENDLESS_LINE_FACTOR * self._max_bytes:
            raise FloodError(
                f"it was stopped, because it sent a line of more than {self._size:,} bytes"
            )

    def _append(self, part: bytes) -> None:
        self._line += part
        self._size += len(part)
        if self._size > self._max_bytes and len(self._line) > 4 * _KEPT_END_BYTES:
            self._line[_KEPT_END_BYTES:-_KEPT_END_BYTES] = b""

    def _take_line(self) -> bytes | OversizedLine:
        line, size = bytes(self._line), self._size
        self._line, self._size = bytearray(), 0
        if size <= self._max_bytes:
            return line
        problem = f"a message of {size:,} bytes, more than the limit of {MAX_MESSAGE_BYTES:,}"
        return OversizedLine(
            head=line[:_KEPT_END_BYTES], tail=line[-_KEPT_END_BYTES:], size=size, problem=problem
        )


async def _stop_process(process: Process) -> None:
    """Close stdin, wait, then end the process and the rest of its process group."""
    if process.stdin is not None:
        with suppress(*_STREAM_CLOSED_ERRORS):
            await process.stdin.aclose()
    with anyio.move_on_after(_END_TIMEOUT_S):
        # Not `process.wait`, which also waits for children that inherited the pipes.
        while process.returncode is None:
            await anyio.sleep(0.01)
    if os.name == "posix":
        await terminate_posix_process_tree(process, _END_TIMEOUT_S)
    elif process.returncode is None:
        process.kill()
    with anyio.move_on_after(_END_TIMEOUT_S):
        while process.returncode is None:
            await anyio.sleep(0.01)
    # anyio has no other way to close this side of the pipes.
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()


_OnStrayLine = Callable[[str], None]


_LOG = logging.getLogger("shortlist.gateway")
#: Tolerance in seconds between two readings of a process's start time.
_CLOCK_TOLERANCE_S = 2.0
_MARK_VARIABLE = "SHORTLIST_GATEWAY"


class RunningProcesses:
    """A record on disk of this gateway's processes, so that the next gateway can end them.

    A process is identified by its id and its start time, because operating systems reuse ids.

    Args:
        folder: folder with one file for each process, created with the first one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def default(cls) -> RunningProcesses:
        """The record in the user's state folder."""
        return cls(state_folder() / "running")

    @property
    def mark(self) -> dict[str, str]:
        """Environment variables that identify the processes of this gateway and their children."""
        return {_MARK_VARIABLE: _gateway_mark(os.getpid(), _start_time(os.getpid()))}

    def record_start(self, pid: int) -> None:
        """Record a process that is the leader of its process group.

        Raises:
            OSError: the file cannot be written.
        """
        own_folder(self._folder)
        record = {
            "pid": pid,
            "started": _start_time(pid),
            "owner": os.getpid(),
            "owner_started": _start_time(os.getpid()),
        }
        replace_file(self._path(pid), [json.dumps(record).encode()])

    def record_end(self, pid: int) -> None:
        """Remove a process from the record."""
        self._path(pid).unlink(missing_ok=True)

    def end_leftovers(self) -> list[int]:
        """End the processes of gateways that no longer run.

        Returns:
            Ids of the processes that were ended.
        """
        ended_ids: list[int] = []
        for path in sorted(self._folder.glob("*.json")):
            try:
                record = json.loads(path.read_text(encoding="utf-8"))
                if _is_alive(record["owner"], record["owner_started"]):
                    continue
                ended_ids += _end_processes(record)
            except (OSError, ValueError, KeyError, TypeError) as error:
                _LOG.warning("%s is not a record of a process and is deleted: %s", path, error)
            path.unlink(missing_ok=True)
        return ended_ids

    def _path(self, pid: int) -> Path:
        return self._folder / f"{pid}.json"


def _end_processes(record: Mapping[str, Any]) -> list[int]:
    """Kill a process, and the members of its group that have its gateway's variables."""
    import psutil

    mark = _gateway_mark(record["owner"], record["owner_started"])
    ended_ids = []
    for process in psutil.process_iter():
        try:
            if process.pid == record["pid"]:
                is_ours = _is_alive(process.pid, record["started"])
            else:
                is_ours = _process_group(process.pid) == record["pid"]
                is_ours = is_ours and process.environ().get(_MARK_VARIABLE) == mark
            if is_ours:
                os.kill(process.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
                ended_ids.append(process.pid)
        except (OSError, psutil.Error):
            continue  # gone by now, or of another user and so not ours
    return ended_ids


def _process_group(pid: int) -> int | None:
    return os.getpgid(pid) if hasattr(os, "getpgid") else None


def _start_time(pid: int) -> float:
    """Start time in seconds since 1970; 0 if the process is gone."""
    import psutil

    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return 0.0


def _is_alive(pid: int, start_time: float) -> bool:
    return abs(_start_time(pid) - start_time) < _CLOCK_TOLERANCE_S


def _gateway_mark(gateway_pid: int, start_time: float) -> str:
    return f"{gateway_pid}-{start_time:.0f}"
