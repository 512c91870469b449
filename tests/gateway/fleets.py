"""Fleets over servers of their own, for tests."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from shortlist.gateway.connections.server_log import log_opener
from shortlist.gateway.connections.server_process import RunningProcesses
from shortlist.gateway.connections.server_spec import ServerSpec
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


async def call(fleet: Fleet, tool_id: str, **arguments):
    """The result of a call."""
    return await fleet.call(fleet.engine.catalog.get(tool_id), arguments)


def text_of(result) -> str:
    return "".join(part.text for part in result.content)
