"""Tasks of servers for the gateway's clients: created, asked for, answered and cancelled."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import mcp.types as types
from mcp import MCPError
from mcp.server.lowlevel import Server

from ...errors import RequestError
from ..profiles.client_sessions import ClientSession
from ..profiles.long_results import ResultSource
from ..relay.forwarding import with_safe_errors
from ..relay.tasks import ServerTask, TaskIds, TaskRequests, takes_tasks
from ..upstream.call import Caller, RequestContext
from ..upstream.fleet import Fleet
from ..upstream.server_tasks import (
    TASKS_EXTENSION,
    CreatedTask,
    Task,
    TaskParams,
    UpdateTaskParams,
)
from .tool_calls import result_for_client

#: Code of the error for a client that does not declare tasks.
_MISSING_CAPABILITY = -32021


class Tasks:
    """Answers `tasks/get`, `tasks/update` and `tasks/cancel`, and reads results of tasks.

    A task is permitted as long as its tool is, as a stored result.

    Args:
        fleet: the servers.
        client_of: returns the session of a request.
        ids: makes and reads the clients' ids of tasks.
        server: the gateway's MCP server; the handlers are added to it.
    """

    def __init__(
        self,
        fleet: Fleet,
        client_of: Callable[[RequestContext], ClientSession],
        ids: TaskIds,
        server: Server[Any],
    ) -> None:
        self._fleet = fleet
        self._client_of = client_of
        self._ids = ids
        server.extensions[TASKS_EXTENSION] = {}
        server.add_request_handler("tasks/get", TaskParams, with_safe_errors(self._get))
        server.add_request_handler("tasks/update", UpdateTaskParams, with_safe_errors(self._update))
        server.add_request_handler("tasks/cancel", TaskParams, with_safe_errors(self._cancel))

    def is_id(self, text: str) -> bool:
        """Whether a text has the form of a client's id of a task."""
        return self._ids.is_id(text)

    async def created(
        self, context: RequestContext, client: ClientSession, task: ServerTask, created: CreatedTask
    ) -> dict[str, Any]:
        """The answer to a call whose client takes the task."""
        task_id = self._ids.id_of(task, client.profile.name)
        state = Task.model_validate(created.model_dump())
        return await self._shown(client, self._requests(context, client, task_id), state, task_id)

    def running(self, client: ClientSession, task: ServerTask) -> types.CallToolResult:
        """The answer to a call whose time limit ended before its task."""
        given = json.dumps({"id": self._ids.id_of(task, client.profile.name)})
        text = (
            f"{task.tool_id} was called and still works. Do not call it again: later, "
            f"read_result {given} has its result."
        )
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    async def read(
        self, context: RequestContext, client: ClientSession, task_id: str
    ) -> types.CallToolResult:
        """The result of a task, for `read_result`. It waits as long as a call may take.

        Raises:
            TaskRunsError: the task still runs.
            UpstreamError: the task has no result.
            RequestError: there is no such task for this client.
        """
        requests = self._requests(context, client, task_id)
        result = await requests.result()
        return await client.run_step(
            lambda: result_for_client(
                self._fleet, client, requests.task.server, requests.task.tool_id, result
            )
        )

    def _requests(
        self, context: RequestContext, client: ClientSession, task_id: str
    ) -> TaskRequests:
        """The requests about a task that the client may have.

        Raises:
            RequestError: there is no such task for this client.
        """
        task = self._ids.read(task_id, client.profile.name)
        source = ResultSource(
            tool_ids=(task.tool_id,), profile_fingerprint=client.profile.fingerprint
        )

        def check() -> None:
            if not client.may_read(source):
                raise RequestError(f"no task {task_id!r:.40}; its tool may not be used now")

        check()
        return TaskRequests(self._fleet, Caller(context, client), task, check)

    def _requests_of_client(self, context: RequestContext, task_id: str) -> TaskRequests:
        """The same for a client that has to declare tasks."""
        client = self._client_of(context)
        if not takes_tasks(Caller(context, client)):
            missing: dict[str, Any] = {
                "requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}
            }
            raise MCPError(_MISSING_CAPABILITY, "Missing required client capability", missing)
        return self._requests(context, client, task_id)

    async def _get(self, context: RequestContext, params: TaskParams) -> dict[str, Any]:
        requests = self._requests_of_client(context, params.task_id)
        client = self._client_of(context)
        return await self._shown(client, requests, await requests.get(), params.task_id)

    async def _update(self, context: RequestContext, params: UpdateTaskParams) -> types.EmptyResult:
        await self._requests_of_client(context, params.task_id).update(params.input_responses)
        return types.EmptyResult()

    async def _cancel(self, context: RequestContext, params: TaskParams) -> types.EmptyResult:
        await self._requests_of_client(context, params.task_id).cancel()
        return types.EmptyResult()

    async def _shown(
        self, client: ClientSession, requests: TaskRequests, state: Task, task_id: str
    ) -> dict[str, Any]:
        """The state of a task as the client gets it, with its result."""
        shown = requests.state_for_client(state, task_id)
        if (result := state.result) is not None:
            task = requests.task
            shown.result = await client.run_step(
                lambda: result_for_client(self._fleet, client, task.server, task.tool_id, result)
            )
        row = shown.model_dump(by_alias=True, mode="json", exclude_none=True)
        return {**row, "ttlMs": shown.ttl_ms}
