"""Tasks of servers: the answer to a call may be a task, whose result comes later.

The extension `io.modelcontextprotocol/tasks` of the protocol 2026-07-28. The SDK has the types of
2025-11-25 only, which are others.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import mcp.types as types
from pydantic import Field, SerializeAsAny, TypeAdapter

#: Key of the extension in the capabilities of a server and a client.
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
#: Most characters of a server's id of a task.
_MAX_ID_CHARS = 512
#: A time of a task. No model reads it, but a client may show it.
_Time = Annotated[str, Field(max_length=64, pattern=r"^[0-9TZtz:.+ -]*$")]
#: Milliseconds, at most some thousand years: a number that a float can have.
_Milliseconds = Annotated[int, Field(ge=-(10**14), le=10**14)]


class TaskFields(types.Result):
    """What every state of a task has."""

    task_id: str = Field(min_length=1, max_length=_MAX_ID_CHARS)
    status: types.TaskStatus
    status_message: str | None = None
    created_at: _Time
    last_updated_at: _Time
    ttl_ms: _Milliseconds | None = None
    poll_interval_ms: _Milliseconds | None = None


class Task(TaskFields):
    """The state of a task, with its result once it has one."""

    result: types.CallToolResult | None = None
    error: types.ErrorData | None = None
    input_requests: types.InputRequests | None = None
    result_type: str = "complete"


class CreatedTask(TaskFields):
    """A task in place of the result of a call."""

    result_type: Literal["task"]


#: The answer of a server to a call of a tool.
TOOL_ANSWER: TypeAdapter[Any] = TypeAdapter(
    CreatedTask | types.CallToolResult | types.InputRequiredResult
)


class TaskParams(types.RequestParams):
    """Parameters of a request about a task."""

    task_id: str


class UpdateTaskParams(TaskParams):
    """Answers to the questions of a task."""

    input_responses: types.InputResponses


class TaskRequest(types.Request[TaskParams, str]):
    """A request about a task: `tasks/get`, `tasks/update` or `tasks/cancel`."""

    method: str
    params: SerializeAsAny[TaskParams]
    name_param = "taskId"
