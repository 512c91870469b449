"""Finds the client whose call caused a question or a log message of a server.

Over stdin/stdout, a message of a server does not name the call that it belongs to. So each
connection records the calls that can be its cause. A call that timed out or was cancelled stays a
possible cause until the server answers it, because the server may still work on it. Over streamable
HTTP, most messages arrive on the response stream of their call, which names the cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass

import mcp.types as types
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params

from .caller import Caller
from .connection_errors import names_end

_LOG_MESSAGE, _CANCEL = "notifications/message", "notifications/cancelled"
#: Code of the error by which some servers confirm that a call was cancelled.
_CANCELLED = -32800


@dataclass(eq=False, slots=True)
class ClientCall:
    """A client's call at a server.

    Attributes:
        client_id: id of the client's session.
        caller: the client's request; None after the call was abandoned: it timed out or was
            cancelled.
    """

    client_id: str
    caller: Caller | None


@dataclass(frozen=True, slots=True)
class Cause:
    """The possible cause of a server's message.

    Attributes:
        client_ids: ids of the clients whose calls can be the cause.
        caller: an open request of the only such client; None if there is no such request, or if
            there are several clients.
    """

    client_ids: frozenset[str] = frozenset()
    caller: Caller | None = None

    @property
    def refusal(self) -> str:
        """Why no client can be asked; empty if `caller` can be asked."""
        if self.caller is not None:
            return ""
        if not self.client_ids:
            return "no client's request is in work, so nobody can be asked"
        if len(self.client_ids) == 1:
            return "the request that can have caused the question was cancelled or timed out"
        return (
            "requests of several clients can have caused the question, and the server does not say "
            "which one; call again when the server has fewer calls"
        )


#: The call whose request is being sent.
_CALL: ContextVar[ClientCall | None] = ContextVar("shortlist_call", default=None)
#: The cause of the message that is being handled.
_CAUSE: ContextVar[Cause] = ContextVar("shortlist_cause")


@contextmanager
def calling(caller: Caller) -> Iterator[None]:
    """Requests that are sent in the block are calls of a client.

    A call that has no answer at the end of the block is abandoned.

    Args:
        caller: the client's request.
    """
    call = ClientCall(caller.client.id, caller)
    token = _CALL.set(call)
    try:
        yield
    finally:
        _CALL.reset(token)
        call.caller = None


def cause_of_message() -> Cause:
    """The cause of the server's message that is being handled, as of its arrival."""
    return _CAUSE.get(Cause())


class QuestionCauses:
    """The calls of one connection that can cause questions."""

    def __init__(self) -> None:
        #: Calls without an answer, oldest first, by the id of their request.
        self._calls: dict[types.RequestId, ClientCall] = {}

    def sent(self, message: types.JSONRPCMessage) -> None:
        """Record a request that is sent as a call, or the cancellation of one."""
        if isinstance(message, types.JSONRPCRequest):
            call = _CALL.get()
            if call is not None:
                self._calls[message.id] = call
        elif isinstance(message, types.JSONRPCNotification) and message.method == _CANCEL:
            request_id = cancelled_request_id_from_params(message.params)
            if request_id is not None and request_id in self._calls:
                self._calls[request_id].caller = None

    def received(self, message: types.JSONRPCMessage, context: Context | None) -> Context | None:
        """Record an answer. Returns the context in which the message must be handled.

        The cause is decided here, in the order of the messages. The answer to the call may arrive
        before its question is handled.

        Args:
            message: a message of the server.
            context: the context that the transport gives: that of the request whose response stream
                had the message. None if it gives no context.
        """
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            if message.id is not None and _is_answer(message):
                self._calls.pop(coerce_request_id(message.id), None)
            return context
        if isinstance(message, types.JSONRPCNotification) and message.method != _LOG_MESSAGE:
            return context
        stream = None if context is None else context.get(_CALL)
        handling = copy_context() if context is None else context
        handling.run(_CAUSE.set, self.cause_of_question(stream))
        return handling

    def cause_of_question(self, named: ClientCall | None = None) -> Cause:
        """The possible cause of a question that arrives now.

        Args:
            named: the call on whose response stream the question arrives; None if there is none.
        """
        calls = list(self._calls.values())
        if named is not None and named in calls:
            calls = [named]
        client_ids = frozenset(call.client_id for call in calls)
        callers = [call.caller for call in calls if call.caller is not None]
        return Cause(client_ids, callers[0] if callers and len(client_ids) == 1 else None)

    def must_reconnect(self, client_id: str) -> bool:
        """Whether a client's call needs a new connection, so that its questions can reach it.

        This is the case if all unanswered calls were abandoned, some of them by other clients.

        Args:
            client_id: id of the client's session.
        """
        calls = self._calls.values()
        return all(call.caller is None for call in calls) and any(
            call.client_id != client_id for call in calls
        )


def _is_answer(message: types.JSONRPCResponse | types.JSONRPCError) -> bool:
    """Whether the server has ended its work on the request.

    An error can also say only that the call was cancelled, or come from the transport, because the
    response stream ended.
    """
    if isinstance(message, types.JSONRPCResponse):
        return True
    return message.error.code != _CANCELLED and not names_end(message.error.message)
