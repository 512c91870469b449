"""A real MCP server for tests whose tool makes tasks (extension of 2026-07-28).

Usage: `tasks_server.py FOLDER`. The tasks are files in the folder, so that they survive a restart.
A task is completed once the file `done` is there.
"""

from __future__ import annotations

import sys
from pathlib import Path
from secrets import token_hex
from typing import Any

import mcp.types as types
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer
from pydantic import Field

FOLDER = Path(sys.argv[1])
TASKS = "io.modelcontextprotocol/tasks"


class TaskParams(types.RequestParams):
    task_id: str = Field(alias="taskId")


def state(task_id: str, status: str) -> dict[str, Any]:
    time = "2026-07-28T00:00:00Z"
    times = {"createdAt": time, "lastUpdatedAt": time, "ttlMs": 60_000, "pollIntervalMs": 50}
    return {"taskId": task_id, "status": status, **times}


class Tasks(Extension):
    """Makes a task of each call, if the client takes tasks."""

    identifier = TASKS

    def methods(self):
        return [
            MethodBinding("tasks/get", TaskParams, self.get),
            MethodBinding("tasks/cancel", TaskParams, self.cancel),
        ]

    async def intercept_tool_call(self, params, ctx, call_next):
        if TASKS not in (ctx.session.client_capabilities.extensions or {}):
            return await call_next(ctx)
        task_id = token_hex(8)
        (FOLDER / task_id).write_text(str(params.arguments["target"]))
        return {"resultType": "task", **state(task_id, "working")}

    async def get(self, context, params):
        path = FOLDER / params.task_id
        if (FOLDER / f"{params.task_id}.cancelled").exists():
            return state(params.task_id, "cancelled")
        if not (FOLDER / "done").exists():
            return state(params.task_id, "working")
        text = {"type": "text", "text": f"built {path.read_text()}"}
        return {**state(params.task_id, "completed"), "result": {"content": [text]}}

    async def cancel(self, context, params):
        (FOLDER / f"{params.task_id}.cancelled").touch()
        return {}


def main() -> None:
    server = MCPServer("jobs", extensions=[Tasks()])

    @server.tool()
    def build(target: str) -> str:
        """Builds a target of the project"""
        return f"built {target} at once"

    server.run()


if __name__ == "__main__":
    main()
