"""Tasks of a server on the TypeScript SDK, and clients on it, through the gateway.

SDK 2.4 has no tasks of 2026-07-28: a server writes the answers itself, and a client cannot take a
task for a result. SDK 1.32 has tasks of 2025-11-25 alone.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from mcp import Client

from ..fake_servers import text_of
from ..talking import http_client
from ..test_tasks import TakesTasks, asked, created
from .gateway_process import Setup, over_http
from .packages import NotInstalledError, npm

pytestmark = [pytest.mark.long, pytest.mark.anyio]

PACKAGES = (
    "@modelcontextprotocol/client@2.4.0",
    "@modelcontextprotocol/server@2.4.0",
    "@modelcontextprotocol/sdk@1.32.2",
)
FOLDER = Path(__file__).parent


async def test_tasks_of_a_typescript_server_pass_through(tmp_path: Path) -> None:
    try:
        packages = str(npm(*PACKAGES).parents[1])
    except NotInstalledError as problem:
        pytest.skip(str(problem))
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    server = {"command": "node", "args": [str(FOLDER / "tasks_server.mjs"), packages, str(jobs)]}
    setup = Setup.write(tmp_path / "gateway", {"jobs": server}, {"pass_through": 0})
    with over_http(setup) as served:
        served.settle(60)
        call = {"name": "jobs/build", "arguments": {"target": "docs"}}
        async with http_client(served.address, extensions=[TakesTasks()]) as client:
            done, cancelled = [(await created(client, call)).task_id for _ in range(2)]
            assert (await asked(client, "tasks/get", done)).status == "working"
            await asked(client, "tasks/cancel", cancelled)
            assert (await asked(client, "tasks/get", cancelled)).status == "cancelled"
            (jobs / "done").touch()
            assert text_of((await asked(client, "tasks/get", done)).result) == "built docs"
        async with Client(served.address) as client:
            assert text_of(await client.call_tool("call_tool", call)) == "built docs"
        program = [str(FOLDER / "tasks_client.mjs"), packages, served.address, done]
        outcomes = json.loads(subprocess.check_output(["node", *program], timeout=120))
    assert outcomes["v1"] == outcomes["v2"] == "built docs"
    assert outcomes["v2_task"]["code"] == "UNSUPPORTED_RESULT_TYPE"
    assert outcomes["v2_state"]["status"] == "completed"
    assert text_of_json(outcomes["v2_state"]["result"]) == "built docs"


def text_of_json(result: dict[str, list[dict[str, str]]]) -> str:
    return "".join(part["text"] for part in result["content"])
