"""The gateway for several clients of this machine, over a local socket.

Each connection is a session of its own, with the profile that the client names first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import mcp.types as types
from anyio.abc import ByteStream, SocketAttribute, SocketListener
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.shared.message import ServerMessageMetadata, SessionMessage

from ..errors import ShortlistError
from ..untrusted import MAX_MESSAGE_BYTES, MAX_MESSAGE_VALUES, MAX_OPEN_REQUESTS
from ..untrusted.json_bytes import has_many_values, parsed_json, read_json
from .attach.running_gateway import greeting_line
from .attach.socket_folder import AttachError, check_peer
from .client_protocol import serve_connection
from .http_connections import connection_limit
from .meta_tools.prompt_tools import prompt_tools
from .server import Gateway

_LOG = logging.getLogger("shortlist.gateway")
#: Seconds in which a client must name its profile.
_GREETING_TIMEOUT_S = 10.0
_MAX_GREETING_BYTES = 1_000_000
#: Seconds until the next try where no descriptor is free for a connection.
_NO_DESCRIPTOR_WAIT_S = 0.1
_CANCEL_METHOD = "notifications/cancelled"
_CONNECTION_ENDED_ERRORS = (
    anyio.EndOfStream,
    anyio.ClosedResourceError,
    anyio.BrokenResourceError,
    anyio.IncompleteRead,
    anyio.DelimiterNotFound,
)

ChooseProfile = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class AttachedRequest:
    """The parts of a request that say whose it is, as an HTTP request has them.

    Args:
        scope: the profile, under `shortlist.profile`.
        headers: the session, under `mcp-session-id`.
    """

    scope: Mapping[str, str | None]
    headers: Mapping[str, str]


class SocketServer:
    """Serves clients over a local socket, until the last one has been gone for a while.

    Args:
        gateway: the gateway to serve.
        choose_profile: function that returns the key of a client's profile in
            `ClientSessions` for the name that the client gives. Raises ConfigError if there is no
            such profile.
        problems: problems of the configuration that each client is told.
        idle_end_s: seconds without a client after which the gateway ends.

    Attributes:
        problems: the argument; replaced when the configuration changes.
    """

    def __init__(
        self,
        gateway: Gateway,
        choose_profile: ChooseProfile,
        problems: tuple[str, ...] = (),
        idle_end_s: float = 300.0,
    ) -> None:
        self._gateway = gateway
        self._choose_profile = choose_profile
        self.problems = problems
        self._idle_end_s = idle_end_s
        self._client_count = 0
        #: Connections that have not named a profile, the oldest first.
        self._unnamed_streams: dict[ByteStream, None] = {}
        self._idle_since = 0.0
        self._is_ending = False
        #: Whether a client was ever served. Until then, a refused client ends the gateway, which
        #: was started for it.
        self._has_served = False
        self._client_left = anyio.Event()

    async def serve(self, path: Path) -> None:
        """Serve clients at a socket.

        Args:
            path: the socket. A file of a gateway that was killed is replaced.

        Raises:
            OSError: the socket cannot be created.
        """
        try:
            async with anyio.create_task_group() as group:
                await group.start(self._gateway.fleet.run)
                listener = await anyio.create_unix_listener(path, mode=0o600, backlog=128)
                group.start_soon(self._accept, listener)
                await self._wait_until_idle()
                self._is_ending = True
                group.cancel_scope.cancel()
        finally:
            path.unlink(missing_ok=True)

    async def _accept(self, listener: SocketListener) -> None:
        async with listener, anyio.create_task_group() as group:
            while True:
                try:
                    stream = await listener.accept()
                except anyio.BrokenResourceError:
                    await anyio.sleep(_NO_DESCRIPTOR_WAIT_S)
                    continue
                group.start_soon(self._serve_stream, stream)

    async def _wait_until_idle(self) -> None:
        self._idle_since = anyio.current_time()
        while True:
            rest = self._idle_since + self._idle_end_s - anyio.current_time()
            if self._client_count:
                rest = self._idle_end_s
            elif rest <= 0:
                return
            with anyio.move_on_after(rest):
                await self._client_left.wait()
                self._client_left = anyio.Event()
                if not (self._has_served or self._client_count):
                    return

    async def _serve_stream(self, stream: ByteStream) -> None:
        if self._is_ending:
            # Without a greeting, the client waits for the next gateway.
            await stream.aclose()
            return
        self._client_count += 1
        try:
            if self._client_count > connection_limit():
                # As over HTTP: a client that names its profile at once still gets in.
                closed = next(iter(self._unnamed_streams), stream)
                self._unnamed_streams.pop(closed, None)
                await closed.aclose()
                if closed is stream:
                    return
            self._unnamed_streams[stream] = None
            async with stream:
                await self.serve_client(stream)
        except AttachError as error:
            _LOG.warning("refused a client: %s", error)
        except Exception:  # noqa: BLE001
            # A client's connection never ends the gateway of the others.
            _LOG.exception("the connection of a client failed")
        finally:
            self._unnamed_streams.pop(stream, None)
            self._client_count -= 1
            self._idle_since = anyio.current_time()
            self._client_left.set()

    async def serve_client(self, stream: ByteStream) -> None:
        """Serve one client until it disconnects.

        Args:
            stream: the connection.

        Raises:
            AttachError: the client belongs to another user.
        """
        check_peer(stream.extra(SocketAttribute.raw_socket))  # noqa: S610
        lines = BufferedByteReceiveStream(stream)
        with suppress(*_CONNECTION_ENDED_ERRORS):
            profile, prompt = await self._greet(lines, stream)
            if prompt is not None:
                await self._answer_prompt(stream, profile, prompt)
                return
            session_id = uuid4().hex
            request = AttachedRequest(
                {"shortlist.profile": profile}, {"mcp-session-id": session_id}
            )
            try:
                await self._serve_messages(lines, stream, request, session_id)
            finally:
                self._gateway.sessions.end(profile, session_id)

    async def _answer_prompt(self, stream: ByteStream, profile: str | None, prompt: str) -> None:
        """Answer a hook that asks for the tools that fit a user's message."""
        views = self._gateway.sessions.views(profile)
        found = await anyio.to_thread.run_sync(prompt_tools, views, prompt)
        await stream.send(greeting_line(tools=found))

    async def _greet(
        self, lines: BufferedByteReceiveStream, stream: ByteStream
    ) -> tuple[str | None, str | None]:
        """The key of the profile that the client names, and the message that a hook asks about.

        The operator's page asks about servers instead, and is answered here.

        Raises:
            EndOfStream: there is no client to serve.
        """
        line = b""
        with anyio.move_on_after(_GREETING_TIMEOUT_S):
            line = await lines.receive_until(b"\n", _MAX_GREETING_BYTES)
        if not line:
            raise anyio.EndOfStream
        self._unnamed_streams.pop(stream, None)
        try:
            greeting = read_json(line)
            if isinstance(greeting.get("action"), str):
                await stream.send(greeting_line(servers=await self._servers_after(greeting)))
                raise anyio.EndOfStream
            profile, prompt = self._choose_profile(greeting["profile"]), greeting.get("prompt")
        except (ShortlistError, ValueError, TypeError, KeyError, AttributeError) as error:
            await stream.send(greeting_line(error=str(error)))
            raise anyio.EndOfStream from None
        self._has_served = True
        if isinstance(prompt, str):
            return profile, prompt
        await stream.send(greeting_line(problems=self.problems))
        return profile, None

    async def _servers_after(self, greeting: Mapping[str, Any]) -> dict[str, Any]:
        """The states of all servers, after one was started or stopped if the operator asks."""
        fleet = self._gateway.fleet
        if greeting["action"] != "show":
            await fleet.start_or_stop(str(greeting["server"]), str(greeting["action"]))
        return fleet.states()

    async def _serve_messages(
        self,
        lines: BufferedByteReceiveStream,
        stream: ByteStream,
        request: AttachedRequest,
        session_id: str,
    ) -> None:
        server, questions = self._gateway.server, QuestionIds(session_id)
        open_requests = 0
        to_server, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, from_server = anyio.create_memory_object_stream[SessionMessage](0)

        async def end_request() -> None:
            nonlocal open_requests
            open_requests -= 1

        async def receive_all() -> None:
            nonlocal open_requests
            metadata = ServerMessageMetadata(
                request_context=request, on_request_unanswered=end_request
            )
            async with to_server:
                with suppress(*_CONNECTION_ENDED_ERRORS):
                    while True:
                        line = await lines.receive_until(b"\n", 2 * MAX_MESSAGE_BYTES)
                        message = await _message(line)
                        if isinstance(message, Exception):
                            await to_server.send(message)
                            continue
                        if not questions.restore(message):
                            continue
                        if isinstance(message, types.JSONRPCRequest):
                            open_requests += 1
                            if open_requests > MAX_OPEN_REQUESTS:
                                await write.send(SessionMessage(_refusal(message)))
                                continue
                        await to_server.send(SessionMessage(message, metadata))

        async def send_all() -> None:
            async with from_server:
                with suppress(*_CONNECTION_ENDED_ERRORS):
                    async for session_message in from_server:
                        message = questions.mark(session_message.message)
                        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
                            await end_request()
                        text = message.model_dump_json(by_alias=True, exclude_unset=True)
                        await stream.send(text.encode() + b"\n")

        async with anyio.create_task_group() as group:
            group.start_soon(receive_all)
            group.start_soon(send_all)
            await serve_connection(server, read, write)
            group.cancel_scope.cancel()


class QuestionIds:
    """Marks the ids of the gateway's own requests to a client with the connection.

    Each gateway counts its requests from 1. A late answer to a request of a killed gateway must not
    answer another request of the next one.

    Args:
        connection_id: id that no other connection has.
    """

    def __init__(self, connection_id: str) -> None:
        self._connection_id = connection_id

    def mark(self, message: types.JSONRPCMessage) -> types.JSONRPCMessage:
        """A message for the client, with a marked id if it is a request or cancels one."""
        if isinstance(message, types.JSONRPCRequest):
            return message.model_copy(update={"id": f"{self._connection_id}-{message.id}"})
        if isinstance(message, types.JSONRPCNotification) and message.method == _CANCEL_METHOD:
            params = dict(message.params or {})
            params["requestId"] = f"{self._connection_id}-{params.get('requestId')}"
            return message.model_copy(update={"params": params})
        return message

    def restore(self, message: types.JSONRPCMessage) -> bool:
        """Give an answer of the client its id back. Returns whether the gateway may get it.

        Args:
            message: a message of the client; it is changed.
        """
        if not isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            return True
        prefix, _, number = str(message.id).rpartition("-")
        if prefix != self._connection_id or not number.isdecimal():
            return False
        message.id = int(number)
        return True


def _refusal(request: types.JSONRPCRequest) -> types.JSONRPCError:
    reason = f"more than {MAX_OPEN_REQUESTS:,} requests wait for an answer; send it again later"
    error = types.ErrorData(code=types.INTERNAL_ERROR, message=reason)
    return types.JSONRPCError(jsonrpc="2.0", id=request.id, error=error)


async def _message(line: bytes) -> types.JSONRPCMessage | Exception:
    if len(line) > MAX_MESSAGE_VALUES and await anyio.to_thread.run_sync(has_many_values, line):
        return ValueError(f"a message of more than {MAX_MESSAGE_VALUES:,} values")
    try:
        value = parsed_json(line, allow_nan=True)
        return types.jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValueError as error:
        return error
