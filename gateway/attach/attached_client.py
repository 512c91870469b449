"""Passes the messages of one client to the background gateway and back.

If the gateway dies, open requests get an error, and the next request starts it again. A client
that began with the handshake `initialize` is introduced to the new gateway by the same messages.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...errors import ShortlistError
from ..connections.json_repair import repaired_json
from .running_gateway import Attachment

#: Error code of a request whose gateway is gone, from the range for servers.
_GATEWAY_ENDED = -32_000
_ENDED = "the background gateway ended during this request; send it again"
_REQUEST_TOO_LONG = -32_600
#: How often a request is sent at most, if the gateway ends while it is sent.
_ATTEMPTS = 2
#: Most bytes of one message of the client.
MOST_BYTES = 32 * 1024 * 1024
#: Seconds that a new gateway may take for the handshake, and the last one for open answers.
_HANDSHAKE_S = 60.0
_LAST_ANSWERS_S = 10.0
_STDOUT = 1


class AttachedClient:
    """One client of the background gateway, over this process's stdin and stdout.

    Args:
        attachment: the connection to the gateway.
        attach: function that makes a new connection; it raises ShortlistError.
    """

    def __init__(self, attachment: Attachment, attach: Callable[[], Attachment]) -> None:
        self._attach = attach
        self._lock = threading.Lock()
        self._output_lock = threading.Lock()
        #: Open requests: the JSON of the id, to the connection and the id.
        self._open: dict[str, tuple[_Connection, Any]] = {}
        #: Messages that a new gateway must get first, by what they set; the handshake is first.
        self._introduction: dict[str, dict[str, Any]] = {}
        self._connection: _Connection | None = None
        self._connection = self._opened(attachment)

    def run(self) -> None:
        """Pass messages on until stdin ends."""
        input_stream = sys.stdin.buffer
        while line := input_stream.readline():
            if line.strip():
                self._pass_to_gateway(repaired_json(line.rstrip(b"\n")) + b"\n")
        with self._lock:
            connection = self._connection
        if connection is not None:
            connection.finish()

    def _opened(self, attachment: Attachment) -> _Connection:
        return _Connection(attachment.connection, self._pass_to_client, self._lost)

    def _pass_to_gateway(self, line: bytes) -> None:
        message = _parsed(line)
        if len(line) > MOST_BYTES:
            reason = f"the message is longer than {MOST_BYTES:,} bytes"
            self._answer_error(message.get("id"), _REQUEST_TOO_LONG, reason)
        elif "method" in message and message.get("id") is not None:
            if message["method"] == "initialize":
                self._introduction.clear()
            if self._send_request(line, message["id"]):
                self._remember(message)
        else:
            self._send_other(line, message)
            self._remember(message)

    def _send_request(self, line: bytes, request_id: Any) -> bool:
        """Send a request, if needed to a new gateway. Returns whether it was sent."""
        key, reason = _key(request_id), _ENDED
        for _ in range(_ATTEMPTS):
            try:
                connection = self._connected()
            except (OSError, ShortlistError) as error:
                reason = f"the background gateway cannot be reached: {error}"
                continue
            with self._lock:
                self._open[key] = connection, request_id
            try:
                connection.send(line)
            except OSError:
                # The line did not arrive as a whole. So it can be sent to the next gateway.
                with self._lock:
                    is_open = self._open.pop(key, None) is not None
                self._lost(connection)
                if not is_open:
                    return False
                continue
            return True
        self._answer_error(request_id, _GATEWAY_ENDED, reason)
        return False

    def _send_other(self, line: bytes, message: dict[str, Any]) -> None:
        """Send a notification or an answer. After the end of its gateway it has no meaning."""
        if message.get("method") == "notifications/cancelled":
            with self._lock:
                self._open.pop(_key((message.get("params") or {}).get("requestId")), None)
        if (connection := self._connection) is None:
            return
        if "method" not in message:
            connection.forget_question(message.get("id"))
        try:
            connection.send(line)
        except OSError:
            self._lost(connection)

    def _remember(self, message: dict[str, Any]) -> None:
        """Keep a message that sets something for the whole connection."""
        method = message.get("method")
        if method in ("initialize", "notifications/initialized", "logging/setLevel"):
            self._introduction[method] = message
        elif method in ("resources/subscribe", "resources/unsubscribe"):
            uri = f"resource {(message.get('params') or {}).get('uri')}"
            if method == "resources/subscribe":
                self._introduction[uri] = message
            else:
                self._introduction.pop(uri, None)

    def _connected(self) -> _Connection:
        """The connection to the gateway, made anew if the gateway is gone.

        Raises:
            ShortlistError: the gateway cannot be reached.
            OSError: it ended during the handshake.
        """
        if (present := self._connection) is not None:
            return present
        connection = self._opened(self._attach())
        for message in list(self._introduction.values()):
            connection.introduce(message)
        self._connection = connection
        return connection

    def _pass_to_client(self, line: bytes) -> None:
        message = _parsed(line)
        if "method" not in message:
            with self._lock:
                self._open.pop(_key(message.get("id")), None)
        self._write(line)

    def _lost(self, connection: _Connection) -> None:
        """Answer the open requests of a connection that ended."""
        with self._lock:
            if self._connection is connection:
                self._connection = None
            keys = [key for key, (used, _) in self._open.items() if used is connection]
            request_ids = [self._open.pop(key)[1] for key in keys]
        for request_id in request_ids:
            self._answer_error(request_id, _GATEWAY_ENDED, _ENDED)
        for question_id in connection.take_questions():
            params = {"requestId": question_id, "reason": "the gateway ended"}
            self._write_message({"method": "notifications/cancelled", "params": params})

    def _answer_error(self, request_id: Any, code: int, reason: str) -> None:
        self._write_message({"id": request_id, "error": {"code": code, "message": reason}})

    def _write_message(self, message: dict[str, Any]) -> None:
        self._write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def _write(self, line: bytes) -> None:
        with self._output_lock:
            rest = memoryview(line)
            try:
                while rest:
                    rest = rest[os.write(_STDOUT, rest) :]
            except BrokenPipeError:
                # The client is gone. The thread that reads stdin cannot be interrupted.
                os._exit(0)


class _Connection:
    """A connection to the gateway, with a thread that reads from it.

    Args:
        connection: the socket.
        receive: called with each line.
        lost: called once when the connection has ended.
    """

    def __init__(
        self,
        connection: socket.socket,
        receive: Callable[[bytes], None],
        lost: Callable[[_Connection], None],
    ) -> None:
        self.is_lost = False
        self._socket = connection
        self._receive = receive
        self._lost = lost
        self._questions: dict[str, Any] = {}
        #: Ids of the messages that introduced the client, whose answers it must not get.
        self._introductions: dict[str, threading.Event] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, line: bytes) -> None:
        """Send a line.

        Raises:
            OSError: the connection has ended.
        """
        if self.is_lost:
            raise ConnectionResetError
        self._socket.sendall(line)

    def introduce(self, message: dict[str, Any]) -> None:
        """Send a message of an earlier connection, and wait for its answer.

        Raises:
            OSError: the connection has ended.
        """
        answered = threading.Event()
        if "id" in message:
            message = {**message, "id": f"shortlist-{len(self._introductions)}"}
            self._introductions[message["id"]] = answered
        self.send(json.dumps(message).encode() + b"\n")
        if "id" in message and not answered.wait(_HANDSHAKE_S):
            raise TimeoutError

    def finish(self) -> None:
        """Send no more, and wait for the last answers."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            return
        self._reader.join(_LAST_ANSWERS_S)

    def forget_question(self, question_id: Any) -> None:
        """The client answered a request of the gateway."""
        self._questions.pop(_key(question_id), None)

    def take_questions(self) -> list[Any]:
        """Ids of the gateway's requests to the client. They are forgotten."""
        question_ids = list(self._questions.values())
        self._questions.clear()
        return question_ids

    def _read(self) -> None:
        with suppress(OSError), self._socket.makefile("rb") as lines:
            while (line := lines.readline()).endswith(b"\n"):
                if not self._is_own(line):
                    self._receive(line)
        self.is_lost = True
        for answered in self._introductions.values():
            answered.set()
        self._lost(self)
        self._socket.close()

    def _is_own(self, line: bytes) -> bool:
        """Whether a line answers a message that introduced the client."""
        message = _parsed(line)
        if "method" in message:
            if "id" in message:
                self._questions[_key(message["id"])] = message["id"]
            return False
        answered = self._introductions.get(str(message.get("id")))
        if answered is not None:
            answered.set()
        return answered is not None


def _parsed(line: bytes) -> dict[str, Any]:
    """The message in a line; empty if it is none, so that the other end can refuse it."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _key(request_id: Any) -> str:
    """The JSON of an id: 1 and "1" are two ids."""
    return json.dumps(request_id)
