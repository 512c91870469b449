"""The messages between the gateway and one server: calls, and the questions and logs they cause.

Which client's call caused a question or a log message, and how it reaches that client.

Over stdin/stdout, a message of a server does not name the call that it belongs to. So each
connection records the calls that can be its cause. A call that timed out or was cancelled stays a
possible cause until the server answers it, because the server may still work on it. Over streamable
HTTP, most messages arrive on the response stream of their call, which names the cause.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from types import UnionType
from typing import Any, Self

import anyio
import mcp.types as types
from mcp import Client, MCPError
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp.shared.message import SessionMessage
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from ..connections.connection_errors import error_in_one_line, is_end_message
from ..connections.transport import WrappedStream
from .call import LOG_LEVELS, Answer, Call, Caller, ClientAnswer, TimeLimit
from .safe_texts import safe_message
from .server_lists import ToolPages
from .shown_questions import ServerQuestion, shown_question

#: Most messages of a server that are handled at once, and most if a further one is a question.
_MAX_HANDLED_MESSAGES, _MAX_HANDLED_IF_QUESTION = 1_000, 100
_LOG_METHOD, _CANCEL_METHOD = "notifications/message", "notifications/cancelled"
#: Most refused questions of a connection that are warnings in the log. A server can ask endlessly.
_MAX_WARNED_REFUSALS = 20
#: Code of the error by which some servers confirm that a call was cancelled.
_CANCELLED_CODE = -32800
#: Most calls without an answer that a connection records one by one. A server need not answer a
#: cancelled call, so there may be any number.
_MAX_UNANSWERED_CALLS = 1_000


@dataclass(eq=False, slots=True)
class SentCall:
    """A client's call at a server.

    Attributes:
        client_id: id of the client's session.
        caller: the client's request; None after the call was abandoned: it timed out or was
            cancelled.
    """

    client_id: str
    caller: Caller | None


@dataclass(frozen=True, slots=True)
class MessageCause:
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
_CALL_BEING_SENT: ContextVar[SentCall | None] = ContextVar("shortlist_call", default=None)
#: The cause of the message that is being handled.
_CAUSE_OF_MESSAGE: ContextVar[MessageCause] = ContextVar("shortlist_cause")


@contextmanager
def sent_as_call_of(caller: Caller) -> Iterator[None]:
    """Requests that are sent in the block are calls of a client.

    A call that has no answer at the end of the block is abandoned.

    Args:
        caller: the client's request.
    """
    call = SentCall(caller.client.id, caller)
    token = _CALL_BEING_SENT.set(call)
    try:
        yield
    finally:
        _CALL_BEING_SENT.reset(token)
        call.caller = None


def cause_of_message() -> MessageCause:
    """The cause of the server's message that is being handled, as of its arrival."""
    return _CAUSE_OF_MESSAGE.get(MessageCause())


class QuestionCauses:
    """The calls of one connection that can cause questions."""

    def __init__(self) -> None:
        #: Calls without an answer, oldest first, by the id of their request.
        self._calls: dict[types.RequestId, SentCall] = {}
        #: Clients of abandoned calls that are no longer in `_calls`: two of them at most, which
        #: are enough to know that a question fits several clients.
        self._forgotten_client_ids: set[str] = set()

    def record_sent(self, message: types.JSONRPCMessage) -> None:
        """Record a request that is sent as a call, or the cancellation of one."""
        if isinstance(message, types.JSONRPCRequest):
            call = _CALL_BEING_SENT.get()
            if call is not None:
                if len(self._calls) >= _MAX_UNANSWERED_CALLS:
                    self._forget_abandoned_calls()
                self._calls[message.id] = call
        elif isinstance(message, types.JSONRPCNotification) and message.method == _CANCEL_METHOD:
            request_id = cancelled_request_id_from_params(message.params)
            if request_id is not None and request_id in self._calls:
                self._calls[request_id].caller = None

    def record_received(
        self, message: types.JSONRPCMessage, context: Context | None
    ) -> Context | None:
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
        if isinstance(message, types.JSONRPCNotification) and message.method != _LOG_METHOD:
            return context
        stream_call = None if context is None else context.get(_CALL_BEING_SENT)
        handling_context = copy_context() if context is None else context
        handling_context.run(_CAUSE_OF_MESSAGE.set, self.cause_of_question(stream_call))
        return handling_context

    def cause_of_question(self, named_call: SentCall | None = None) -> MessageCause:
        """The possible cause of a question that arrives now.

        Args:
            named_call: the call on whose response stream the question arrives, if any.
        """
        calls = list(self._calls.values())
        client_ids = frozenset(call.client_id for call in calls) | self._forgotten_client_ids
        if named_call is not None and named_call in calls:
            calls, client_ids = [named_call], frozenset([named_call.client_id])
        callers = [call.caller for call in calls if call.caller is not None]
        return MessageCause(client_ids, callers[0] if callers and len(client_ids) == 1 else None)

    def must_reconnect(self, client_id: str) -> bool:
        """Whether a client's call needs a new connection, so that its questions can reach it.

        This is the case if all unanswered calls were abandoned, some of them by other clients.

        Args:
            client_id: id of the client's session.
        """
        calls = self._calls.values()
        client_ids = self._forgotten_client_ids.union(call.client_id for call in calls)
        return all(call.caller is None for call in calls) and bool(client_ids - {client_id})

    def _forget_abandoned_calls(self) -> None:
        """Keep only the clients of abandoned calls. Their answers change nothing any more."""
        for request_id, call in list(self._calls.items()):
            if call.caller is None:
                del self._calls[request_id]
                if len(self._forgotten_client_ids) < 2:
                    self._forgotten_client_ids.add(call.client_id)


def _is_answer(message: types.JSONRPCResponse | types.JSONRPCError) -> bool:
    """Whether the server has ended its work on the request.

    An error can also say only that the call was cancelled, or come from the transport, because the
    response stream ended.
    """
    if isinstance(message, types.JSONRPCResponse):
        return True
    return message.error.code != _CANCELLED_CODE and not is_end_message(message.error.message)


_LOG = logging.getLogger("shortlist.gateway")


@dataclass(eq=False, slots=True)
class MessageHandlers:
    """Receives server messages that belong to no request.

    Attributes:
        on_log: called with a server's name, a log message, and the id of the only client that may
            get it; None for all clients.
        on_resource_update: called with a server's name and the address of a changed resource.
        only_client: the only client, if it can be asked at any time; None otherwise.
    """

    on_log: (
        Callable[[str, types.LoggingMessageNotificationParams, str | None], Awaitable[None]] | None
    ) = None
    on_resource_update: Callable[[str, str], Awaitable[None]] | None = None
    only_client: Caller | None = None


class ServerMessages:
    """Sends the clients' calls to one server, and passes its questions and log messages on.

    Args:
        server: name of the server.
        handlers: receive messages that belong to no request of a client.
    """

    def __init__(self, server: str, handlers: MessageHandlers) -> None:
        self._handlers = handlers
        self._server = server
        self._requested_level_rank: int | None = None
        self._handled_count = 0
        self._refusal_count = 0

    def callbacks(self) -> dict[str, Any]:
        """Arguments of the `Client` that talks to the server."""
        self._requested_level_rank = None
        self._refusal_count = 0
        return {
            "elicitation_callback": lambda _, params: self._answer(
                types.ElicitRequest(params=params), types.ElicitResult
            ),
            "sampling_callback": lambda _, params: self._answer(
                types.CreateMessageRequest(params=params),
                types.CreateMessageResult | types.CreateMessageResultWithTools,
            ),
            "list_roots_callback": lambda _: self._answer(
                types.ListRootsRequest(), types.ListRootsResult
            ),
            "logging_callback": self._pass_log_on,
        }

    async def send_call(
        self,
        client: Client,
        time_limit: TimeLimit,
        call: Call[Answer],
        answers: types.InputResponses | None,
        state: str | None,
    ) -> Answer | types.InputRequiredResult:
        """Send a call. The server's messages during the call reach the client.

        All requests of clients are sent here, so the last check of their permission is here too.

        Args:
            client: the connection.
            time_limit: time limit of the call.
            call: the call.
            answers: the client's answers to the questions in the server's last result.
            state: the server's state from that result.
        """
        caller = call.caller
        caller.time_limit = time_limit
        await self.lower_level(client, caller.requested_log_level)

        async def pass_progress_on(
            progress: float, total: float | None, message: str | None
        ) -> None:
            time_limit.extend()
            safe = None if message is None else safe_message(self._server, message)
            await caller.progress(progress, total, safe)

        # There must be no wait between this check and the sending.
        call.check_before_sending()
        request = call.request(answers, state)
        call.was_sent = True
        with sent_as_call_of(caller):
            answer: Answer | types.InputRequiredResult = await client.session.send_request(
                request, call.answer_type, progress_callback=pass_progress_on
            )
        await caller.wait_until_sent()
        return answer

    async def lower_level(self, client: Client, level: types.LoggingLevel | None) -> None:
        """Ask the server for log messages from a level on, if it does not send them already.

        A server of the newer protocol gets the level with each request instead.

        Args:
            client: the connection.
            level: least severe level; None changes nothing.
        """
        if level is None or client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return
        level_rank = LOG_LEVELS.index(level)
        if self._requested_level_rank is not None and self._requested_level_rank <= level_rank:
            return
        if client.server_capabilities.logging is None:
            return
        self._requested_level_rank = level_rank
        request = types.SetLevelRequest(params=types.SetLevelRequestParams(level=level))
        try:
            await client.session.send_request(request, types.EmptyResult)
        except MCPError as error:
            _LOG.warning("server %r: logging/setLevel: %s", self._server, error_in_one_line(error))

    async def resource_updated(self, uri: str) -> None:
        """Handle a server's message that a resource has changed."""
        if self._handlers.on_resource_update is not None:
            async with self._place_for_message(_MAX_HANDLED_MESSAGES) as has_place:
                if has_place:
                    await self._handlers.on_resource_update(self._server, uri)

    @asynccontextmanager
    async def _place_for_message(self, max_handled: int) -> AsyncIterator[bool]:
        """A place for the server's message while it is handled.

        A server may send faster than a client reads or a person answers.

        Args:
            max_handled: most messages that are handled at once.

        Yields:
            Whether there is a place.
        """
        if self._handled_count >= max_handled:
            yield False
            return
        self._handled_count += 1
        try:
            yield True
        finally:
            self._handled_count -= 1

    async def _answer(
        self, question: ServerQuestion, answer_type: type | UnionType
    ) -> ClientAnswer | types.ErrorData:
        """The client's answer, or an error if it answered another question."""
        answer = await self._ask(question)
        if isinstance(answer, (types.ErrorData, answer_type)):
            return answer
        return types.ErrorData(
            code=types.INTERNAL_ERROR,
            message=f"the client answered another question ({type(answer).__name__})",
        )

    async def _ask(self, question: ServerQuestion) -> ClientAnswer | types.ErrorData:
        """Ask the client that caused the question, if it is certain which one did."""
        cause = cause_of_message()
        caller = cause.caller or self._only_client(cause)
        if caller is None:
            self._refusal_count += 1
            level = (
                logging.WARNING if self._refusal_count <= _MAX_WARNED_REFUSALS else logging.DEBUG
            )
            _LOG.log(level, "server %r: refused a question: %s", self._server, cause.refusal)
            message = f"the gateway cannot ask: {cause.refusal}"
            return types.ErrorData(code=types.INVALID_REQUEST, message=message)
        async with self._place_for_message(_MAX_HANDLED_IF_QUESTION) as has_place:
            if has_place:
                return await caller.ask(shown_question(question, self._server))
        message = "the gateway cannot ask: too many messages of the server wait"
        return types.ErrorData(code=types.INVALID_REQUEST, message=message)

    def _only_client(self, cause: MessageCause) -> Caller | None:
        """The only client of the gateway, unless other clients can be the cause."""
        client = self._handlers.only_client
        return client if client is not None and cause.client_ids <= {client.client.id} else None

    async def _pass_log_on(self, params: types.LoggingMessageNotificationParams) -> None:
        cause = cause_of_message()
        params = types.LoggingMessageNotificationParams(
            level=params.level,
            logger=None if params.logger is None else safe_message(self._server, params.logger),
            data=safe_message(self._server, params.data),
        )
        if cause.caller is not None:
            await cause.caller.log(params)
        elif len(cause.client_ids) > 1:
            _LOG.info("server %r: dropped a log message that fits several clients", self._server)
        elif self._handlers.on_log is not None:
            async with self._place_for_message(_MAX_HANDLED_MESSAGES) as has_place:
                if has_place:
                    client_id = next(iter(cause.client_ids), None)
                    await self._handlers.on_log(self._server, params, client_id)


@asynccontextmanager
async def watched_streams(
    transport: AbstractAsyncContextManager[Any],
    pages: ToolPages,
    causes: QuestionCauses,
    on_end: Callable[[], None],
) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of a transport. All messages pass `pages` and `causes`.

    Args:
        transport: the transport to a server.
        pages: removes malformed tools.
        causes: records the calls.
        on_end: called when the connection has ended.
    """
    async with transport as (read, write):
        yield _Reader(read, pages, causes, on_end), _Writer(write, pages, causes)


class _WatchedStream(WrappedStream):
    """A stream of one connection, with what watches its messages."""

    def __init__(self, stream: Any, pages: ToolPages, causes: QuestionCauses) -> None:
        super().__init__(stream)
        self._pages = pages
        self._causes = causes


class _Writer(_WatchedStream):
    """Receives the messages of the MCP session for the server."""

    async def send(self, item: SessionMessage) -> None:
        self._pages.record_request(item.message)
        self._causes.record_sent(item.message)
        await self._stream.send(item)


class _Reader(_WatchedStream):
    """Gives the messages of the server to the MCP session.

    Attributes:
        last_context: the context in which the session handles the last message; None for any.
    """

    def __init__(
        self, stream: Any, pages: ToolPages, causes: QuestionCauses, on_end: Callable[[], None]
    ) -> None:
        super().__init__(stream, pages, causes)
        self._on_end = on_end
        self.last_context: Context | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return self._record(await self._stream.__anext__())
        except (StopAsyncIteration, anyio.ClosedResourceError):
            self._on_end()
            raise

    def _record(self, item: Any) -> Any:
        # Only the transports over HTTP have it.
        self.last_context = getattr(self._stream, "last_context", None)
        if isinstance(item, SessionMessage):
            self._pages.filter_response(item.message)
            self.last_context = self._causes.record_received(item.message, self.last_context)
        return item
