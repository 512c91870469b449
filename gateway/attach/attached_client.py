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
from ...untrusted import MAX_MESSAGE_BYTES, MAX_MESSAGE_VALUES
from ...untrusted.json_bytes import has_many_values, repaired_json
from .running_gateway import Attachment

#: JSON-RPC error code of a request whose gateway is gone, from the range for servers.
_GATEWAY_ENDED_CODE = -32_000
_GATEWAY_ENDED_TEXT = "the background gateway ended during this request; send it again"
_TOO_LONG_CODE = -32_600
#: Most times that a request is sent, if the gateway ends while it is sent.
_SEND_ATTEMPTS = 2
#: Seconds that a new gateway may take for the handshake, and seconds to wait for open answers after
#: the client has ended.
_HANDSHAKE_TIMEOUT_S = 60.0
_LAST_ANSWERS_TIMEOUT_S = 10.0
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
        #: JSON of the id of each open request, to its connection: 1 and "1" are two ids.
        self._open_requests: dict[str, _Connection] = {}
        #: Messages that a new gateway must get first: method or resource to the message. The
        #: handshake is first.
        self._replayed_messages: dict[str, dict[str, Any]] = {}
        self._connection: _Connection | None = None
        self._connection = self._open_connection(attachment)

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

    def _open_connection(self, attachment: Attachment) -> _Connection:
        return _Connection(attachment.connection, self._pass_to_client, self._end_connection)

    def _pass_to_gateway(self, line: bytes) -> None:
        message = _parse_message(line)
        reason = ""
        if len(line) > MAX_MESSAGE_BYTES:
            reason = f"the message is longer than {MAX_MESSAGE_BYTES:,} bytes"
        elif has_many_values(line):
            reason = f"the message has more than {MAX_MESSAGE_VALUES:,} values"
        if reason:
            self._answer_error(message.get("id"), _TOO_LONG_CODE, reason)
        elif "method" in message and message.get("id") is not None:
            if message["method"] == "initialize":
                self._replayed_messages.clear()
            if self._send_request(line, message["id"]):
                self._remember_for_replay(message)
        else:
            self._send_other(line, message)
            self._remember_for_replay(message)

    def _send_request(self, line: bytes, request_id: Any) -> bool:
        """Send a request, if needed to a new gateway. Returns whether it was sent."""
        key, reason = json.dumps(request_id), _GATEWAY_ENDED_TEXT
        for _ in range(_SEND_ATTEMPTS):
            try:
                connection = self._connected()
            except (OSError, ShortlistError) as error:
                reason = f"the background gateway cannot be reached: {error}"
                continue
            with self._lock:
                self._open_requests[key] = connection
            try:
                connection.send(line)
            except OSError:
                # The line did not arrive as a whole. So it can be sent to the next gateway.
                with self._lock:
                    is_open = self._open_requests.pop(key, None) is not None
                self._end_connection(connection)
                if not is_open:
                    return False
                continue
            return True
        self._answer_error(request_id, _GATEWAY_ENDED_CODE, reason)
        return False

    def _send_other(self, line: bytes, message: dict[str, Any]) -> None:
        """Send a notification or an answer. After the end of its gateway it has no meaning."""
        if message.get("method") == "notifications/cancelled":
            with self._lock:
                request_id = (message.get("params") or {}).get("requestId")
                self._open_requests.pop(json.dumps(request_id), None)
        if (connection := self._connection) is None:
            return
        if "method" not in message:
            connection.open_questions.discard(json.dumps(message.get("id")))
        try:
            connection.send(line)
        except OSError:
            self._end_connection(connection)

    def _remember_for_replay(self, message: dict[str, Any]) -> None:
        """Keep a message that sets something for the whole connection."""
        method = message.get("method")
        if method in ("initialize", "notifications/initialized", "logging/setLevel"):
            self._replayed_messages[method] = message
        elif method in ("resources/subscribe", "resources/unsubscribe"):
            uri = f"resource {(message.get('params') or {}).get('uri')}"
            if method == "resources/subscribe":
                self._replayed_messages[uri] = message
            else:
                self._replayed_messages.pop(uri, None)

    def _connected(self) -> _Connection:
        """The connection to the gateway, made anew if the gateway is gone.

        Raises:
            ShortlistError: the gateway cannot be reached.
            OSError: it ended during the handshake.
        """
        if (present := self._connection) is not None:
            return present
        connection = self._open_connection(self._attach())
        for message in list(self._replayed_messages.values()):
            connection.replay(message)
        self._connection = connection
        return connection

    def _pass_to_client(self, line: bytes) -> None:
        message = _parse_message(line)
        if "method" not in message:
            with self._lock:
                self._open_requests.pop(json.dumps(message.get("id")), None)
        self._write(line)

    def _end_connection(self, connection: _Connection) -> None:
        """Answer the open requests of a connection that ended."""
        with self._lock:
            if self._connection is connection:
                self._connection = None
            keys = [key for key, used in self._open_requests.items() if used is connection]
            for key in keys:
                del self._open_requests[key]
        for key in keys:
            self._answer_error(json.loads(key), _GATEWAY_ENDED_CODE, _GATEWAY_ENDED_TEXT)
        questions, connection.open_questions = connection.open_questions, set()
        for question in questions:
            params = {"requestId": json.loads(question), "reason": "the gateway ended"}
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
        on_line: called with each line for the client.
        on_end: called once when the connection has ended.
    """

    def __init__(
        self,
        connection: socket.socket,
        on_line: Callable[[bytes], None],
        on_end: Callable[[_Connection], None],
    ) -> None:
        self.is_lost = False
        self._socket = connection
        self._on_line = on_line
        self._on_end = on_end
        #: JSON of the ids of the gateway's requests that the client has not answered.
        self.open_questions: set[str] = set()
        #: Ids of the replayed messages, whose answers the client must not get; set when answered.
        self._answers_awaited: dict[str, threading.Event] = {}
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

    def replay(self, message: dict[str, Any]) -> None:
        """Send a message of an earlier connection, and wait for its answer.

        Raises:
            OSError: the connection has ended.
        """
        answered = threading.Event()
        if "id" in message:
            message = {**message, "id": f"shortlist-{len(self._answers_awaited)}"}
            self._answers_awaited[message["id"]] = answered
        self.send(json.dumps(message).encode() + b"\n")
        if "id" in message and not answered.wait(_HANDSHAKE_TIMEOUT_S):
            raise TimeoutError

    def finish(self) -> None:
        """Send no more, and wait for the last answers."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            return
        self._reader.join(_LAST_ANSWERS_TIMEOUT_S)

    def _read(self) -> None:
        with suppress(OSError), self._socket.makefile("rb") as lines:
            while (line := lines.readline()).endswith(b"\n"):
                if not self._is_answer_to_replayed(line):
                    self._on_line(line)
        self.is_lost = True
        for answered in self._answers_awaited.values():
            answered.set()
        self._on_end(self)
        self._socket.close()

    def _is_answer_to_replayed(self, line: bytes) -> bool:
        """Whether a line answers a replayed message. Records the gateway's requests."""
        message = _parse_message(line)
        if "method" in message:
            if "id" in message:
                self.open_questions.add(json.dumps(message["id"]))
            return False
        answered = self._answers_awaited.get(str(message.get("id")))
        if answered is not None:
            answered.set()
        return answered is not None


def _parse_message(line: bytes) -> dict[str, Any]:
    """The message in a line; empty if it is none, so that the other end can refuse it."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}
