"""Tasks of servers for the gateway's clients: created, asked for, answered and cancelled."""

from __future__ import annotations

import json
from typing import Any

import mcp.types as types
from mcp import MCPError

from ...errors import RequestError
from ..profiles.client_sessions import ClientCaller
from ..profiles.long_results import ResultSource
from ..relay.client_requests import RequestHandlers
from ..relay.resources import result_for_client
from ..relay.tasks import ServerTask, TaskIds, TaskRequests, takes_tasks
from ..upstream.fleet import Fleet
from ..upstream.server_tasks import (
    TASKS_EXTENSION,
    CreatedTask,
    Task,
    TaskParams,
    UpdateTaskParams,
)

#: Code of the error for a client that does not declare tasks.
_MISSING_CAPABILITY = -32021


class Tasks:
    """Answers `tasks/get`, `tasks/update` and `tasks/cancel`, and reads results of tasks.

    A task is permitted as long as its tool is, as a stored result.

    Args:
        fleet: the servers.
        handlers: gets the handlers.
        ids: makes and reads the clients' ids of tasks.
    """

    def __init__(self, fleet: Fleet, handlers: RequestHandlers, ids: TaskIds) -> None:
        self._fleet = fleet
        self._ids = ids
        handlers.server.extensions[TASKS_EXTENSION] = {}
        handlers.add("tasks/get", TaskParams, self._get)
        handlers.add("tasks/update", UpdateTaskParams, self._update)
        handlers.add("tasks/cancel", TaskParams, self._cancel)

    def is_id(self, text: str) -> bool:
        """Whether a text has the form of a client's id of a task."""
        return self._ids.is_id(text)

    async def created(
        self, caller: ClientCaller, task: ServerTask, created: CreatedTask
    ) -> dict[str, Any]:
        """The answer to a call whose client takes the task."""
        task_id = self._ids.id_of(task, caller.client.profile.name)
        state = Task.model_validate(created.model_dump())
        shown = await self._shown(caller, self._requests(caller, task_id), state, task_id)
        return {**shown, "resultType": created.result_type}

    def running(self, caller: ClientCaller, task: ServerTask) -> types.CallToolResult:
        """The answer to a call whose time limit ended before its task."""
        given = json.dumps({"id": self._ids.id_of(task, caller.client.profile.name)})
        text = (
            f"{task.tool_id} was called and still works. Do not call it again: later, "
            f"read_result {given} has its result."
        )
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    async def read(self, caller: ClientCaller, task_id: str) -> types.CallToolResult:
        """The result of a task, for `read_result`. It waits as long as a call may take.

        Raises:
            TaskRunsError: the task still runs.
            UpstreamError: the task has no result.
            RequestError: there is no such task for this client.
        """
        requests = self._requests(caller, task_id)
        return await self._result_for_client(caller, requests, await requests.result())

    async def _result_for_client(
        self, caller: ClientCaller, requests: TaskRequests, result: types.CallToolResult
    ) -> types.CallToolResult:
        client, task = caller.client, requests.task
        return await client.run_step(
            lambda: result_for_client(self._fleet, client, task.server, task.tool_id, result)
        )

    def _requests(self, caller: ClientCaller, task_id: str) -> TaskRequests:
        """The requests about a task that the client may have.

        Raises:
            RequestError: there is no such task for this client.
        """
        client = caller.client
        task = self._ids.read(task_id, client.profile.name)
        source = ResultSource(
            tool_ids=(task.tool_id,), profile_fingerprint=client.profile.fingerprint
        )

        def check() -> None:
            if not client.may_read(source):
                raise RequestError(f"no task {task_id!r:.40}; its tool may not be used now")

        check()
        return TaskRequests(self._fleet, caller, task, check)

    def _requests_of_client(self, caller: ClientCaller, task_id: str) -> TaskRequests:
        """The same for a client that has to declare tasks."""
        if not takes_tasks(caller):
            missing: dict[str, Any] = {
                "requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}
            }
            raise MCPError(_MISSING_CAPABILITY, "Missing required client capability", missing)
        return self._requests(caller, task_id)

    async def _get(self, caller: ClientCaller, params: TaskParams) -> dict[str, Any]:
        requests = self._requests_of_client(caller, params.task_id)
        return await self._shown(caller, requests, await requests.get(), params.task_id)

    async def _update(self, caller: ClientCaller, params: UpdateTaskParams) -> types.EmptyResult:
        await self._requests_of_client(caller, params.task_id).update(params.input_responses)
        return types.EmptyResult()

    async def _cancel(self, caller: ClientCaller, params: TaskParams) -> types.EmptyResult:
        await self._requests_of_client(caller, params.task_id).cancel()
        return types.EmptyResult()

    async def _shown(
        self, caller: ClientCaller, requests: TaskRequests, state: Task, task_id: str
    ) -> dict[str, Any]:
        """The state of a task as the client gets it, with its result."""
        shown = requests.state_for_client(state, task_id)
        if state.result is not None:
            shown.result = await self._result_for_client(caller, requests, state.result)
        row = shown.model_dump(by_alias=True, mode="json", exclude_none=True)
        return {**row, "ttlMs": shown.ttl_ms}
