"""Clients of a background gateway, as processes of `shortlist serve`."""

from __future__ import annotations

import json
import os
import queue
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import mcp.types as types
import psutil
from anyio.abc import UNIXSocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.shared.message import SessionMessage

from shortlist.gateway.attach.running_gateway import (
    RunningGateway,
    greeting_line,
    running_gateways,
    stop,
)
from shortlist.gateway.socket_server import SocketServer

_PROGRAM = "from shortlist.cli import main; main()"
_LONGEST_S = 180.0
ROUGH = str(Path(__file__).parent / "rough_server.py")


def wait_for(condition: Callable[[], Any], seconds: float = _LONGEST_S) -> Any:
    """Wait until a condition is true. Returns its value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.02)
    return value


class Machine:
    """A user's folders and configuration, and the processes of the user's clients.

    The folder of the sockets has a short path, because the path of a socket is limited.
    """

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="sl"))
        self.config = self.home / "mcp.json"
        self.runtime = self.home / "run"
        self.runtime.mkdir()
        self.clients: list[Attached] = []

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "XDG_CACHE_HOME": str(self.home / "c"),
            "XDG_STATE_HOME": str(self.home / "s"),
            "XDG_RUNTIME_DIR": str(self.runtime),
        }

    def write(self, own: Mapping[str, Any] | None = None, **servers: Any) -> None:
        """Write the configuration."""
        settings = {"pass_through": 0, "engine": {"tiers": ["lexical"]}, **(own or {})}
        self.config.write_text(json.dumps({"mcpServers": servers, "shortlist": settings}))

    def rough(self, name: str, mode: str = "plain", **more: Any) -> dict[str, Any]:
        """Entry of a server that notes in the folder `name` how often it started."""
        (self.home / name).mkdir(exist_ok=True)
        return {"command": sys.executable, "args": [ROUGH, mode, str(self.home / name)], **more}

    def starts(self, name: str) -> int:
        path = self.home / name / "starts"
        return len(path.read_text()) if path.exists() else 0

    def client(self, *more: str, **variables: str) -> Attached:
        """Start a client's process."""
        command = [sys.executable, "-c", _PROGRAM, "serve", "--config", str(self.config), *more]
        client = Attached(command, {**self.environment, **variables})
        self.clients.append(client)
        return client

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run another command of the user."""
        command = [sys.executable, "-c", _PROGRAM, *words]
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=_LONGEST_S
        )

    def gateways(self) -> list[RunningGateway]:
        """The background gateways."""
        before = os.environ.get("XDG_RUNTIME_DIR")
        os.environ["XDG_RUNTIME_DIR"] = str(self.runtime)
        try:
            return list(running_gateways())
        finally:
            if before is None:
                del os.environ["XDG_RUNTIME_DIR"]
            else:
                os.environ["XDG_RUNTIME_DIR"] = before

    def gateway(self) -> RunningGateway:
        """The only background gateway."""
        (gateway,) = self.gateways()
        return gateway

    def close(self) -> None:
        """End all clients and gateways."""
        for client in self.clients:
            client.close()
        for gateway in self.gateways():
            stop(gateway)
        shutil.rmtree(self.home)


class Attached:
    """A client that writes JSON-RPC by hand."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe
        )
        self.messages: queue.Queue[dict[str, Any]] = queue.Queue()
        self.stderr = b""
        self._readers = [
            threading.Thread(target=self._read_messages, daemon=True),
            threading.Thread(target=self._read_stderr, daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        self._last_id = 0

    def initialize(self, **capabilities: Any) -> dict[str, Any]:
        """Do the handshake. Returns the gateway's answer."""
        answer = self.ask(
            "initialize",
            protocolVersion="2025-06-18",
            capabilities=capabilities,
            clientInfo={"name": "test", "version": "1"},
        )
        self.send(method="notifications/initialized")
        return answer

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        return self.answer(self.request(method, **params))

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool of a server, when the gateway knows it. Returns the result."""
        deadline = time.monotonic() + _LONGEST_S
        params = {"name": "call_tool", "arguments": {"name": tool, "arguments": arguments}}
        while True:
            result = self.ask("tools/call", **params)["result"]
            if not result.get("isError") or time.monotonic() > deadline:
                return result
            time.sleep(0.05)

    def request(self, method: str, **params: Any) -> int:
        """Send a request. Returns its id."""
        self._last_id += 1
        self.send(id=self._last_id, method=method, params=params)
        return self._last_id

    def send(self, **message: Any) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def answer(self, request_id: int) -> dict[str, Any]:
        """The answer to a request; notifications before it are skipped."""
        while True:
            message = self.message()
            if message.get("id") == request_id and "method" not in message:
                return message
            assert "id" not in message, message

    def message(self, seconds: float = _LONGEST_S) -> dict[str, Any]:
        """The next message of the gateway."""
        return self.messages.get(timeout=seconds)

    def close(self) -> None:
        """End stdin, and wait for the process."""
        if self.process.stdin and not self.process.stdin.closed:
            self.process.stdin.close()
        self.process.wait(60)
        for reader in self._readers:
            reader.join(60)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream
            stream.close()

    def _read_messages(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.messages.put(json.loads(line))

    def _read_stderr(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self.stderr += line


def own_memory(pid: int) -> int:
    """Bytes that would be free if the process ended."""
    return psutil.Process(pid).memory_full_info().uss


@asynccontextmanager
async def attached_streams(server: SocketServer, profile: str) -> AsyncIterator[tuple[Any, Any]]:
    """The transport of an SDK client in this process that is attached to a gateway."""
    ours, theirs = socket.socketpair()
    stream = await UNIXSocketStream.from_socket(ours)
    lines = BufferedByteReceiveStream(stream)
    to_client, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, from_client = anyio.create_memory_object_stream[SessionMessage](0)

    async def receive_all() -> None:
        async with to_client:
            with suppress(
                anyio.IncompleteRead, anyio.ClosedResourceError, anyio.BrokenResourceError
            ):
                while True:
                    line = await lines.receive_until(b"\n", 10_000_000)
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    await to_client.send(SessionMessage(message))

    async def send_all() -> None:
        async with from_client:
            async for message in from_client:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await stream.send(text.encode() + b"\n")

    async def serve() -> None:
        async with await UNIXSocketStream.from_socket(theirs) as served:
            await server.serve_client(served)

    async with stream, anyio.create_task_group() as group:
        group.start_soon(serve)
        await stream.send(greeting_line(profile=profile))
        assert "error" not in json.loads(await lines.receive_until(b"\n", 10_000))
        group.start_soon(receive_all)
        group.start_soon(send_all)
        yield read, write
        group.cancel_scope.cancel()
