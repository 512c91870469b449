"""One MCP server behind the gateway: started on first need, restarted, stopped when idle."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from enum import StrEnum
from time import monotonic
from typing import IO, Any, TypeVar

import anyio
import mcp.types as types
from mcp import Client, MCPError
from pydantic import TypeAdapter

from .caller import Caller
from .listing import Listing, read_listing
from .patience import Patience
from .server_requests import Front, ServerRequests
from .server_spec import ServerSpec
from .transport import Transport, open_transport

_LOG = logging.getLogger("shortlist.gateway")
#: Seconds to wait before a restart after the first failure in a row, and at most.
_BACK_OFF, _MOST_BACK_OFF = 0.5, 60.0
#: Failures in a row after which calls are refused at once until the next try.
_TRIPPED = 3
#: Seconds without a change before a list that changed is read again.
_SETTLED = 0.2


_LIST_CHANGED = (
    types.ToolListChangedNotification,
    types.ResourceListChangedNotification,
    types.PromptListChangedNotification,
)
_CALLED: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)
Answer = TypeVar("Answer")


class UpstreamError(Exception):
    """A server could not answer; the message is for models and people."""


class State(StrEnum):
    """Where a server is in its life."""

    CONFIGURED = "configured"
    """Never started here: its tools are not known yet."""
    KNOWN = "known"
    """Its tools are known from an earlier start; it is not running."""
    STARTED = "started"
    FAILED = "failed"


Changed = Callable[[str, Listing], Awaitable[None]]


class Upstream:
    """A server and the one connection to it. `run` must run as long as calls are made.

    Args:
        spec: how it is reached.
        open_log: opens the file that takes what its process writes to stderr.
        changed: awaited with the server's name and what it lists, at each start and each change.
        transport: opens the connection.
        idle_s: seconds without a call after which it is stopped; None for never.
        front: takes what the server says that belongs to no request.
    """

    def __init__(
        self,
        spec: ServerSpec,
        open_log: Callable[[str], IO[str]],
        changed: Changed,
        *,
        transport: Transport = open_transport,
        idle_s: float | None = None,
        front: Front | None = None,
    ) -> None:
        self.spec = spec
        self.state = State.CONFIGURED
        self.problem: str | None = None
        self.started_ms: float | None = None
        self.requests = ServerRequests(spec.name, front or Front())
        self._open_log = open_log
        self._changed = changed
        self._transport = transport
        self._idle = idle_s
        self._client: Client | None = None
        self._wanted = anyio.Event()
        self._changed_state = anyio.Condition()
        self._lost = anyio.Event()
        self._relist = anyio.Event()
        self._failures = 0
        self._failed_starts = 0
        self._retry_at = 0.0
        self._used = monotonic()
        self._calls = 0

    async def run(self) -> None:
        """Start the server whenever it is wanted, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted = anyio.Event()
            self._lost, self._relist = anyio.Event(), anyio.Event()
            try:
                await self._serve()
            except Exception as error:  # noqa: BLE001 - whatever a server or its transport raises
                self._fail(error)
            self._client = None
            await self._tell()
            if (wait := self._retry_at - monotonic()) > 0:
                await anyio.sleep(wait)

    async def ready(self) -> Client:
        """The connection; starts the server if it is not running.

        Raises:
            UpstreamError: it does not start, not in time, or failed several times just now.
        """
        if self._failures >= _TRIPPED and monotonic() < self._retry_at:
            raise self._unavailable()
        failed_before = self._failed_starts
        with anyio.move_on_after(self.spec.start_timeout_s):
            async with self._changed_state:
                while not self._is_connected and self._failed_starts == failed_before:
                    self._wanted.set()
                    await self._changed_state.wait()
        if self._client is None or not self._is_connected:
            raise self._unavailable()
        return self._client

    @property
    def _is_connected(self) -> bool:
        return self._client is not None and not self._lost.is_set()

    def _unavailable(self) -> UpstreamError:
        why = self.problem or f"it did not start within {self.spec.start_timeout_s:g} s"
        return UpstreamError(f"server {self.spec.name!r} is not available: {why}")

    def _fail(self, error: Exception) -> None:
        """Note a failure, and when to try again."""
        if self._client is None:
            self._failed_starts += 1
        self._failures += 1
        wait = min(_BACK_OFF * 2 ** (self._failures - 1), _MOST_BACK_OFF)
        self._retry_at = monotonic() + wait
        self.state, self.problem = State.FAILED, _told(error)
        _LOG.warning("server %r: %s", self.spec.name, self.problem)

    async def _tell(self) -> None:
        async with self._changed_state:
            self._changed_state.notify_all()

    def start(self) -> None:
        """Ask for a start without waiting for it."""
        if self._client is None:
            self._wanted.set()

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        meta: Any = None,
        caller: Caller | None = None,
        answers: types.InputResponses | None = None,
        state: str | None = None,
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Call a tool once; a call is never repeated.

        Args:
            tool: its name at the server.
            arguments: of the call.
            meta: of the call.
            caller: whose call it is, for what the server says meanwhile; None for nobody's.
            answers: to what the server asked in its last result.
            state: that the server gave with it.

        Raises:
            UpstreamError: the server is gone, does not answer in time, or refuses.
        """
        params = types.CallToolRequestParams(
            name=tool,
            arguments=arguments,
            input_responses=answers,
            request_state=state,
            _meta=meta,
        )
        # Not `Client.call_tool`, which raises where a server breaks its own output schema.
        request = types.CallToolRequest(params=params)
        return await self.request(self.requests.sending(request, _CALLED, caller, key=tool))

    async def request(
        self,
        send: Callable[[Client, Patience], Awaitable[Answer]],
        timeout_s: float | None = None,
    ) -> Answer:
        """Send one request over the connection, under the limits of calls.

        Args:
            send: gets the connection and the limit of time.
            timeout_s: seconds without a sign of progress; the server's own limit when absent.

        Raises:
            UpstreamError: the server is gone, does not answer in time, or refuses.
        """
        seconds = timeout_s or self.spec.timeout_s
        client = await self.ready()
        self._calls += 1
        try:
            with Patience(seconds) as patience:
                answer = await send(client, patience)
        except TimeoutError as error:
            message = f"server {self.spec.name!r} did not answer within {seconds:g} s"
            raise UpstreamError(message) from error
        except MCPError as error:
            if _is_closed(error):
                self._lost.set()
                message = f"server {self.spec.name!r} died during the call; it restarts on the next"
                raise UpstreamError(message) from error
            raise UpstreamError(f"server {self.spec.name!r}: {error}") from error
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            self._lost.set()
            raise UpstreamError(f"server {self.spec.name!r} is gone; try again") from error
        else:
            self._failures = 0
            return answer
        finally:
            self._calls -= 1
            self._used = monotonic()

    async def lower_log_level(self, level: types.LoggingLevel) -> None:
        """Have the server, if it runs, send log messages from a level on."""
        if self._client is not None and self._is_connected:
            await self.requests.lower_level(self._client, level)

    async def _serve(self) -> None:
        start = monotonic()
        with (
            self._open_log(self.spec.name) as errors,
            anyio.fail_after(self.spec.start_timeout_s) as limit,
        ):
            transport = self._transport(self.spec, errors)
            async with Client(
                transport, message_handler=self._heard, **self.requests.callbacks()
            ) as client:
                await self._publish(client)
                limit.deadline = float("inf")
                self.started_ms = (monotonic() - start) * 1e3
                self.state, self.problem, self._client = State.STARTED, None, client
                await self._tell()
                await self._attend(client)
        self.state = State.KNOWN

    async def _attend(self, client: Client) -> None:
        """Read the list again when it changes; return when the server is lost or idle."""
        while True:
            with anyio.move_on_after(self._patience()):
                async with anyio.create_task_group() as group:
                    group.start_soon(_cancel_after, self._lost, group.cancel_scope)
                    group.start_soon(_cancel_after, self._relist, group.cancel_scope)
            if self._lost.is_set():
                raise UpstreamError("the connection was closed")
            if self._relist.is_set():
                await anyio.sleep(_SETTLED)
                self._relist = anyio.Event()
                await self._publish(client)
            elif self._idle is not None and not self._calls and self._patience() <= 0.01:
                return

    def _patience(self) -> float:
        """Seconds until the server counts as idle."""
        if self._idle is None:
            return float("inf")
        return max(0.01, self._used + self._idle - monotonic())

    async def _publish(self, client: Client) -> None:
        await self._changed(self.spec.name, await read_listing(client))

    async def _heard(self, message: object) -> None:
        if isinstance(message, _LIST_CHANGED):
            self._relist.set()
        elif isinstance(message, types.ResourceUpdatedNotification):
            await self.requests.resource_updated(message.params.uri)


async def _cancel_after(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def _is_closed(error: MCPError) -> bool:
    return "closed" in str(error).lower()


def _told(error: BaseException) -> str:
    """What went wrong, in one line."""
    if isinstance(error, BaseExceptionGroup):
        return _told(error.exceptions[0])
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    text = str(error).strip().splitlines()
    return (text[0] if text else type(error).__name__)[:300]
