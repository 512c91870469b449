"""Fleets over servers of their own, for tests."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import anyio
import mcp.types as types
from pydantic import TypeAdapter

from shortlist.gateway.connections.server_log import log_opener
from shortlist.gateway.connections.server_process import RunningProcesses
from shortlist.gateway.connections.server_spec import ServerSpec
from shortlist.gateway.upstream.call import Call, Caller
from shortlist.gateway.upstream.fleet import Fleet
from shortlist.gateway.upstream.start_cache import ListingCache

HERE = Path(__file__).parent


def rough(folder: Path, name: str, mode: str = "plain", **changed) -> ServerSpec:
    """A server that notes what happens to it in `folder/name`."""
    notes = folder / name
    notes.mkdir(parents=True, exist_ok=True)
    args = (str(HERE / "rough_server.py"), mode, str(notes))
    return ServerSpec(
        name=name, **{"transport": "stdio", "command": sys.executable, "args": args, **changed}
    )


def noted(folder: Path, name: str, what: str) -> int:
    """How often something happened to a server."""
    path = folder / name / what
    return len(path.read_text()) if path.exists() else 0


def fleet_of(folder: Path, *specs: ServerSpec, **settings) -> Fleet:
    """A fleet whose files are all in one folder."""
    return Fleet(
        specs,
        **{
            "engine_settings": {"tiers": ["lexical"]},
            "listing_cache": ListingCache(folder / "manifests"),
            "open_log": log_opener(folder / "logs"),
            "processes": RunningProcesses(folder / "running"),
            **settings,
        },
    )


@asynccontextmanager
async def running(folder: Path, *specs: ServerSpec, **settings):
    """A fleet that runs, its servers' tools known."""
    fleet = fleet_of(folder, *specs, **settings)
    async with anyio.create_task_group() as group:
        await group.start(fleet.run)
        await until(lambda: not fleet.unlisted_servers)
        yield fleet
        group.cancel_scope.cancel()


async def until(true, seconds: float = 120.0) -> None:
    """Wait for something to come true."""
    with anyio.fail_after(seconds):
        while not true():
            await anyio.sleep(0.02)


class BareCall(Call[types.CallToolResult]):
    """A call of a tool by nobody in particular, which is always permitted."""

    answer_type = TypeAdapter(types.CallToolResult | types.InputRequiredResult)

    def __init__(self, server: str, name: str, arguments) -> None:
        self.sent: list[types.ServerNotification] = []
        session = SimpleNamespace(
            report_progress=_ignored, send_notification=self._keep, client_capabilities=None
        )
        context = SimpleNamespace(
            protocol_version="2025-06-18", session=session, request_id=1, meta=None
        )
        client = SimpleNamespace(id="nobody", log_level=None, profile=None)
        super().__init__(Caller(context, client), server)
        self.params = {"name": name, "arguments": arguments}

    async def _keep(self, notification: types.ServerNotification, **_: object) -> None:
        self.sent.append(notification)

    def check_before_sending(self) -> None:
        """It is permitted."""

    def request(self, answers, state):
        return types.CallToolRequest(params=types.CallToolRequestParams(**self.params))


async def _ignored(*_) -> None:
    """Progress that nobody waits for."""


async def call(fleet: Fleet, tool_id: str, **arguments):
    """The result of a call."""
    tool = fleet.engine.catalog.get(tool_id)
    name = fleet.listed_tools.name_at_server(tool)
    bare = BareCall(tool.server, name, arguments)
    bare.timeout_s = fleet.timeout_for(tool_id)
    bare.reads_only = (tool.annotations or {}).get("readOnlyHint") is True
    return await fleet.start_by_call(tool) or await fleet.send(bare)


def text_of(result) -> str:
    return "".join(part.text for part in result.content)
