"""One MCP server behind the gateway: started when needed, restarted, stopped when idle."""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from enum import StrEnum
from time import monotonic

import anyio
import mcp.types as types
from mcp import Client, MCPError
from mcp.client.extension import advertise
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from ...catalog.text_cleaning import written_out
from ..connections.connection_errors import (
    PROBLEM_SENTENCES,
    ConsentNeeded,
    error_in_one_line,
    is_connection_end,
    is_flood,
    problem_code,
    slow_start,
    wants_login,
)
from ..connections.masking import redacted
from ..connections.server_log import ServerLog
from ..connections.server_spec import ServerSpec
from ..connections.transport import Transport
from .call import Answer, Call, Caller, TimeLimit
from .server_lists import (
    LIST_CHANGE_NOTIFICATIONS,
    Listing,
    RereadingSchedule,
    ToolPages,
    read_listing,
)
from .server_messages import MessageHandlers, QuestionCauses, ServerMessages, watched_streams
from .server_tasks import TASKS_EXTENSION
from .shown_questions import with_server_name_in_urls
from .skills import SKILLS_EXTENSION

_LOG = logging.getLogger("shortlist.gateway")
#: Seconds before a restart: after the first failure, and at most.
_FIRST_RESTART_WAIT_S, _MAX_RESTART_WAIT_S = 0.5, 60.0
#: After this many failures in a row, calls are refused at once until the next try.
_FAILURE_LIMIT = 3
#: A flood counts as so many failures: the server rests for as long as possible.
_FLOOD_FAILURE_COUNT = 8
#: Seconds in which a server must answer after a call to it has timed out.
_RETRY_LIMIT_S = 2.0
#: Seconds that the operator waits until a server has stopped.
_STOP_LIMIT_S = 20.0
#: Number of stored stdout lines that are not messages.
_MAX_STRAY_LINES = 20


class UpstreamError(Exception):
    """A server could not answer; the message is for models and people."""


class ConnectionLostError(UpstreamError):
    """The connection ended before the answer came."""


def _advice(call: Call[Answer] | None) -> str:
    """What a model can do about a call that got no answer."""
    if call is None or not call.may_have_had_effect:
        return "try again, or use another tool"
    return "it is not known whether the call had an effect: check that before you call again"


#: Most characters of a server's error message. The rest is left out.
_MAX_ERROR_CHARS = 4_000
#: Most characters of the JSON form of a server's error data. Longer data is left out.
_MAX_ERROR_DATA_CHARS = 20_000


class ServerError(UpstreamError):
    """A server answered with an error. A client may see all of it.

    Args:
        server: name of the server.
        error: the server's error.

    Attributes:
        code: the server's code.
        data: the server's data. Questions in it begin with the server's name.
    """

    def __init__(self, server: str, error: types.ErrorData) -> None:
        message = written_out(error.message[:_MAX_ERROR_CHARS])
        if len(error.message) > _MAX_ERROR_CHARS:
            message += f" [the first {_MAX_ERROR_CHARS:,} of {len(error.message):,} characters]"
        super().__init__(f"server {server!r}: {message}")
        self.code = error.code
        data = error.data
        if error.code == types.URL_ELICITATION_REQUIRED:
            data = with_server_name_in_urls(data, server)
        self.data = data if len(json.dumps(data, default=str)) <= _MAX_ERROR_DATA_CHARS else None


class ServerState(StrEnum):
    """State of a server."""

    CONFIGURED = "configured"
    """Never started here: its tools are not known yet."""
    KNOWN = "known"
    """Its tools are known from an earlier start; it is not running."""
    STARTED = "started"
    FAILED = "failed"
    AWAITING_CONSENT = "awaiting consent"
    """It wants a person to log in: `shortlist auth login`."""


class Upstream:
    """A server and its connection. `run` must run as long as there are calls.

    Args:
        spec: how to start or reach it.
        open_log: opens the log for the stderr of its process.
        on_listing: called with this server and its lists, at each start and each change.
        transport: function that opens the connection.
        idle_stop_s: the server is stopped after this many seconds without a call; None for never.
        on_state: called with the server after each start, stop or failure.
        handlers: receive messages of the server that belong to no request.

    Attributes:
        state: its present state.
        last_start_ms: milliseconds from its last start to its whole list; None before the first.
        problem: what is wrong, for operators; None if nothing is.
        problem_code: key of `PROBLEM_SENTENCES`, if there is a problem and no login is required.
        stray_lines: the last stdout lines that are not messages.
        stray_line_count: number of all such lines.
        messages: sends requests of clients, and receives messages and questions of the server.
    """

    def __init__(
        self,
        spec: ServerSpec,
        open_log: Callable[[str], ServerLog],
        on_listing: Callable[[Upstream, Listing], Awaitable[None]],
        *,
        transport: Transport,
        idle_stop_s: float | None = None,
        on_state: Callable[[Upstream], None] | None = None,
        handlers: MessageHandlers | None = None,
    ) -> None:
        self.spec = spec
        self.state = ServerState.CONFIGURED
        self.problem: str | None = None
        self.problem_code = ""
        self.last_start_ms: float | None = None
        self.stray_lines: deque[str] = deque(maxlen=_MAX_STRAY_LINES)
        self.stray_line_count = 0
        self.messages = ServerMessages(spec.name, handlers or MessageHandlers())
        self._open_log = open_log
        self._on_listing = on_listing
        self._transport = transport
        self._idle_stop_s = idle_stop_s
        self._on_state = on_state
        self._client: Client | None = None
        self._causes = QuestionCauses()
        self._start_requested = anyio.Event()
        self._state_condition = anyio.Condition()
        self._wakeup = anyio.Event()
        self._is_lost = False
        self._schedule = RereadingSchedule(lambda: self._wakeup.set())
        self._failures = 0
        self._timeouts = 0
        #: Operation whose last call timed out, to the limit of that call in seconds.
        self._unanswered: dict[str, float] = {}
        self._failed_starts = 0
        self._retry_at = 0.0
        self._rest_ended = anyio.Event()
        self._probe_lock = anyio.Lock()
        self._last_use = monotonic()
        #: Running requests, and how many of them last as long as the server does.
        self._request_count = self._lasting_count = 0
        self._is_removed = False
        self._requests_ended = anyio.Event()
        self._scope: anyio.CancelScope | None = None

    async def run(self) -> None:
        """Start the server whenever it is needed, until cancelled or removed."""
        with anyio.CancelScope() as self._scope:
            while not self._is_removed:
                await self._start_requested.wait()
                self._start_requested = anyio.Event()
                self._is_lost = False
                try:
                    await self._serve()
                except Exception as error:  # noqa: BLE001 - whatever a server or its transport raises
                    self._record_failure(error)
                self._client = None
                await self._report_state()
                if (wait_s := self._retry_at - monotonic()) > 0:
                    self._rest_ended = anyio.Event()
                    with anyio.move_on_after(wait_s):
                        await self._rest_ended.wait()

    async def remove(self) -> None:
        """Stop the server after its running calls. Later calls are refused."""
        self._is_removed = True
        if self._request_count:
            await self._requests_ended.wait()
        if self._scope is not None:
            self._scope.cancel()

    async def connect(self) -> Client:
        """The connection; starts the server if it is not running.

        Raises:
            UpstreamError: it does not start in time, or failed several times in a row.
        """
        if self._is_removed:
            raise UpstreamError(f"server {self.spec.name!r} was removed from the configuration")
        if self._is_paused:
            raise self._unavailable_error()
        failed_before = self._failed_starts
        with anyio.move_on_after(self.spec.start_timeout_s):
            async with self._state_condition:
                # A connection that ended after several failures is not opened again for a while.
                while not (
                    self._is_connected or self._is_paused or self._failed_starts != failed_before
                ):
                    self._start_requested.set()
                    await self._state_condition.wait()
        if self._client is None or not self._is_connected:
            raise self._unavailable_error()
        return self._client

    def start(self) -> None:
        """Ask for a start without waiting for it."""
        if self._client is None:
            self._start_requested.set()

    async def start_now(self) -> None:
        """Start the server for the operator, at once even if it failed and would rest.

        Raises:
            UpstreamError: it does not start in time.
        """
        self._failures, self._retry_at = 0, 0.0
        self._rest_ended.set()
        await self.connect()

    async def stop_now(self) -> None:
        """Stop the server for the operator. Running calls end; the next call starts it again."""
        self._client, self._timeouts = None, 0
        self._wakeup.set()
        with anyio.move_on_after(_STOP_LIMIT_S):
            async with self._state_condition:
                while self._client is None and self.state is ServerState.STARTED:
                    await self._state_condition.wait()

    async def send(
        self,
        call: Call[Answer],
        answers: types.InputResponses | None = None,
        state: str | None = None,
    ) -> Answer | types.InputRequiredResult:
        """Send a client's call. If the connection is lost, a call that only reads is sent again.

        Args:
            call: the call.
            answers: the client's answers to the questions in the server's last result.
            state: the server's state from that result.

        Raises:
            ConnectionLostError: the connection ended before the answer came.
            UpstreamError: the server does not start or answer in time, refuses, or gives an invalid
                answer.
            ShortlistError: the call may not be sent any more.
        """
        try:
            return await self._send_once(call, answers, state)
        except ConnectionLostError:
            if not call.reads_only:
                raise
        return await self._send_once(call, answers, state)

    async def _send_once(
        self, call: Call[Answer], answers: types.InputResponses | None, state: str | None
    ) -> Answer | types.InputRequiredResult:
        async with self._place_for_call():
            client = await self._connection_for(call.caller)
            limit_s = self._usual_limit_of(call)
            if self._unanswered:
                limit_s = await self._limit_after_timeout(client, call, limit_s)
            with self._answering(client, limit_s, call) as time_limit:
                return await self.messages.send_call(client, time_limit, call, answers, state)

    def _usual_limit_of(self, call: Call[Answer]) -> float:
        """The time limit of a call in seconds."""
        return call.timeout_s or self.spec.timeout_s

    async def _limit_after_timeout(
        self, client: Client, call: Call[Answer], limit_s: float
    ) -> float:
        """The time limit of a call after another one has timed out.

        The same operation has a short limit once. For any other operation, the server must give a
        sign of life first.

        Args:
            client: the connection.
            call: the call.
            limit_s: its usual limit in seconds.

        Raises:
            UpstreamError: the call should not be sent now.
        """
        name = self.spec.name
        earlier_limit_s = self._unanswered.pop(call.operation, None)
        if earlier_limit_s is None:
            if self._timeouts:
                await self._require_sign_of_life(client, max(self._unanswered.values()))
            return limit_s
        if call.reads_only:
            return min(limit_s, _RETRY_LIMIT_S)
        raise UpstreamError(
            f"server {name!r} did not answer the last call of this tool within "
            f"{earlier_limit_s:g} s, and it is not known whether that call had an effect; this "
            "call was not sent: check the effect first, then call again, or use another tool"
        )

    async def _require_sign_of_life(self, client: Client, earlier_limit_s: float) -> None:
        """Raise UpstreamError unless the server answers a ping.

        Args:
            client: the connection.
            earlier_limit_s: time limit of the call that timed out, in seconds.
        """
        with (
            anyio.move_on_after(_RETRY_LIMIT_S) as wait,
            # An error is a sign of life too. If the connection has ended, the call says so.
            suppress(MCPError, anyio.ClosedResourceError, anyio.BrokenResourceError),
        ):
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                # This protocol has no ping.
                await client.session.send_discover(client.protocol_version)
            else:
                await client.session.send_ping()
        if not wait.cancelled_caught:
            return
        if self._request_count == self._lasting_count:
            # A restart interrupts no other call.
            self._count_timeout()
        raise UpstreamError(
            f"server {self.spec.name!r} hangs: it did not answer the last call within "
            f"{earlier_limit_s:g} s, nor a ping within {_RETRY_LIMIT_S:g} s; this call was not "
            "sent: use another tool, or wait a minute and try again"
        )

    async def follow(self, follow_changes: Callable[[Client, TimeLimit], Awaitable[None]]) -> None:
        """Run a request of the gateway that lasts as long as the server does, beside its calls.

        Args:
            follow_changes: called with the connection and the time limit of the request.

        Raises:
            ConnectionLostError, UpstreamError: as `send`.
        """
        client = await self.connect()
        self._lasting_count += 1
        try:
            with self._answering(client, self.spec.timeout_s) as time_limit:
                await follow_changes(client, time_limit)
        finally:
            self._lasting_count -= 1

    @asynccontextmanager
    async def _place_for_call(self) -> AsyncIterator[None]:
        """A call at a server that failed several times: one at a time tries it.

        Raises:
            UpstreamError: another call tried it for too long.
        """
        if not self._failed_repeatedly:
            yield
            return
        with anyio.move_on_after(self.spec.start_timeout_s) as wait:
            await self._probe_lock.acquire()
        if wait.cancelled_caught:
            raise UpstreamError(
                f"server {self.spec.name!r} is not available: it failed several times, and another "
                "call tries it now"
            )
        try:
            if self._failed_repeatedly:
                yield
                return
        finally:
            self._probe_lock.release()
        yield

    @contextmanager
    def _answering(
        self, client: Client, limit_s: float, call: Call[Answer] | None = None
    ) -> Iterator[TimeLimit]:
        """The server answers a request in the block, within the time limit.

        Args:
            client: the connection.
            limit_s: seconds without a sign of progress.
            call: the call of a client; None for a request of the gateway.

        Raises:
            ConnectionLostError, UpstreamError: as `send`.
        """
        name = self.spec.name
        self._request_count += 1
        try:
            with TimeLimit(limit_s) as time_limit:
                yield time_limit
        except TimeoutError as error:
            reason = f"server {name!r} did not answer within {limit_s:g} s"
            usual_limit_s = limit_s if call is None else self._usual_limit_of(call)
            if limit_s < usual_limit_s:
                # It says little about the server.
                reason += f", the limit after a time-out; the next call has {usual_limit_s:g} s"
            else:
                self._count_timeout()
                if call is not None and limit_s > _RETRY_LIMIT_S:
                    self._unanswered[call.operation] = limit_s
            raise UpstreamError(f"{reason}; {_advice(call)}") from error
        except ValidationError as error:
            raise UpstreamError(f"server {name!r} gave an answer that is not valid MCP") from error
        except (MCPError, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            is_current = self._client is client and not self._is_lost
            if isinstance(error, MCPError) and is_current and not is_connection_end(error):
                raise ServerError(name, error.error) from error
            if self._client is client:
                self._mark_lost()
            reason = f"server {name!r} ended during the call; it starts again with the next one"
            raise ConnectionLostError(f"{reason}; {_advice(call)}") from error
        else:
            self._failures = self._timeouts = 0
        finally:
            self._request_count -= 1
            self._last_use = monotonic()
            if self._is_removed and not self._request_count:
                self._requests_ended.set()

    async def _connection_for(self, caller: Caller) -> Client:
        """The connection for a client's request.

        It is replaced first if only abandoned calls of other clients are left on it. Nobody could
        tell their questions from those of this request. No running call is interrupted, and
        subscriptions are renewed.
        """
        while True:
            client = await self.connect()
            is_idle = self._request_count == self._lasting_count
            if not (is_idle and self._causes.must_reconnect(caller.client.id)):
                return client
            _LOG.info("server %r: connects again after abandoned calls", self.spec.name)
            self._client = None
            self._wakeup.set()

    async def lower_log_level(self, level: types.LoggingLevel) -> None:
        """Ask the server, if it runs, for log messages from a level on."""
        if self._client is not None and self._is_connected:
            await self.messages.lower_level(self._client, level)

    @property
    def problem_sentence(self) -> str | None:
        """What is wrong, for models: a fixed sentence with a code; None if nothing is."""
        if self.problem is None:
            return None
        if self.state is ServerState.AWAITING_CONSENT:
            return self.problem
        sentence = PROBLEM_SENTENCES[self.problem_code]
        start = "; a call starts it again" if self.starts_with_next_call else ""
        return (
            f"{self.problem_code}: {sentence}{start}; the operator sees why with shortlist doctor"
        )

    @property
    def starts_with_next_call(self) -> bool:
        """Whether it ended by itself, and a call starts it again."""
        was_started = self.last_start_ms is not None
        return self.state is ServerState.FAILED and was_started and not self._is_paused

    @property
    def hangs(self) -> bool:
        """Whether the last call timed out, and the server has not answered since."""
        return self._timeouts > 0

    @property
    def _is_connected(self) -> bool:
        return self._client is not None and not self._is_lost

    @property
    def _failed_repeatedly(self) -> bool:
        return self._failures >= _FAILURE_LIMIT

    @property
    def _is_paused(self) -> bool:
        """Whether it failed several times, and is not tried again yet."""
        return self._failed_repeatedly and monotonic() < self._retry_at

    def _unavailable_error(self) -> UpstreamError:
        reason = self.problem_sentence
        if reason is None:
            reason = f"it did not start within {self.spec.start_timeout_s:g} s"
        wait_s = self._retry_at - monotonic()
        if self.state is ServerState.AWAITING_CONSENT:
            advice = "use another tool until the operator has done that"
        elif self._failed_repeatedly and wait_s > 1:
            advice = f"it is tried again in {wait_s:.0f} s: wait, or use another tool"
        else:
            advice = "the next call tries it again; if that fails too, use another tool"
        return UpstreamError(f"server {self.spec.name!r} is not available: {reason}; {advice}")

    def _count_timeout(self) -> None:
        """Restart the server after several calls in a row without an answer."""
        self._timeouts += 1
        if self._timeouts >= _FAILURE_LIMIT:
            self._timeouts = 0
            self._mark_lost()

    def _record_failure(self, error: Exception) -> None:
        """Record a failure and the time of the next try."""
        if self._client is None:
            self._failed_starts += 1
        self._failures += 1
        if is_flood(error):
            # A flood costs the other servers time, so the next one must not come soon.
            self._failures = max(self._failures, _FLOOD_FAILURE_COUNT)
        wait_s = min(_FIRST_RESTART_WAIT_S * 2 ** (self._failures - 1), _MAX_RESTART_WAIT_S)
        self._retry_at = monotonic() + wait_s
        self.state, self.problem = ServerState.FAILED, redacted(error_in_one_line(error), self.spec)
        self.problem_code = problem_code(error)
        if wants_login(error):
            self.state, self.problem = (
                ServerState.AWAITING_CONSENT,
                str(ConsentNeeded(self.spec.name)),
            )
        name = self.spec.name
        logs = f"; what it wrote: shortlist logs {name}" if self.spec.transport == "stdio" else ""
        _LOG.warning("server %r: %s%s", name, self.problem, logs)

    async def _report_state(self) -> None:
        if self._on_state is not None:
            self._on_state(self)
        async with self._state_condition:
            self._state_condition.notify_all()

    async def _serve(self) -> None:
        start_time = monotonic()
        self._schedule = RereadingSchedule(lambda: self._wakeup.set())
        pages = ToolPages(pages_name_problems=self.spec.transport == "openapi")
        causes = QuestionCauses()
        with (
            self._open_log(self.spec.name) as log,
            self._start_limit() as start_limit,
        ):
            transport = self._transport(self.spec, log, self._record_stray_line)
            streams = watched_streams(transport, pages, causes, on_end=self._mark_lost)
            async with (
                Client(
                    streams,
                    message_handler=self._handle_message,
                    extensions=[advertise(SKILLS_EXTENSION), advertise(TASKS_EXTENSION)],
                    **self.messages.callbacks(),
                ) as client,
                anyio.create_task_group() as group,
            ):
                listing = await self._publish(client, pages)
                start_limit.deadline = float("inf")
                self.last_start_ms = (monotonic() - start_time) * 1e3
                self.state, self.problem = ServerState.STARTED, None
                self._client, self._causes = client, causes
                self._unanswered = {}
                self._last_use = monotonic()
                await self._report_state()
                group.start_soon(self._schedule.listen, client)
                await self._follow_changes(client, pages, listing)
                group.cancel_scope.cancel()
        self.state = ServerState.KNOWN

    @contextmanager
    def _start_limit(self) -> Iterator[anyio.CancelScope]:
        """Ends the block after `start_timeout_s`, unless its deadline is moved.

        Raises:
            TimeoutError: the time is over; the message names the setting.
        """
        with anyio.move_on_after(self.spec.start_timeout_s) as limit:
            yield limit
        if limit.cancelled_caught:
            raise TimeoutError(slow_start(self.spec.start_timeout_s))

    async def _follow_changes(self, client: Client, pages: ToolPages, listing: Listing) -> None:
        """Read the lists again when they change, until the server is idle or must connect again.

        Raises:
            UpstreamError: the connection was lost.
        """
        while True:
            reread_at = self._schedule.next_reading_at(client, listing.valid_s)
            with anyio.move_on_after(max(0.01, min(reread_at, self._idle_at()) - monotonic())):
                await self._wakeup.wait()
            self._wakeup = anyio.Event()
            now = monotonic()
            if self._is_lost:
                raise UpstreamError("the connection ended")
            if self._client is not client:
                return
            if now >= reread_at:
                self._schedule.note_begin()
                listing = await self._read_again(client, pages, listing)
                self._schedule.note_end()
            elif now >= self._idle_at():
                self._client = None
                return

    def _idle_at(self) -> float:
        """When the server is stopped if no call comes until then."""
        if self._idle_stop_s is None:
            return float("inf")
        return (monotonic() if self._request_count else self._last_use) + self._idle_stop_s

    async def _read_again(self, client: Client, pages: ToolPages, last: Listing) -> Listing:
        """The present lists, or the last ones if they cannot be read."""
        try:
            listing = await self._publish(client, pages)
        except (MCPError, TimeoutError, ValidationError) as error:
            self.problem = f"its list changed and cannot be read: {error_in_one_line(error)}"
            self.problem_code = "list_unreadable"
            return last
        self.problem = None
        return listing

    async def _publish(self, client: Client, pages: ToolPages) -> Listing:
        with anyio.fail_after(self.spec.start_timeout_s):
            listing = await read_listing(client, pages)
        await self._on_listing(self, listing)
        return listing

    async def _handle_message(self, message: object) -> None:
        if isinstance(message, LIST_CHANGE_NOTIFICATIONS):
            self._schedule.note_change()
        elif isinstance(message, types.ResourceUpdatedNotification):
            await self.messages.resource_updated(message.params.uri)

    def _mark_lost(self) -> None:
        self._is_lost = True
        self._wakeup.set()

    def _record_stray_line(self, line: str) -> None:
        self.stray_lines.append(line)
        self.stray_line_count += 1
