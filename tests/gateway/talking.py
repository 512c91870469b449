"""A gateway before servers that log, ask and offer resources, and clients of both eras."""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from socket import socket

import anyio
import httpx2
import mcp.types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from shortlist.gateway.connections.server_log import log_opener
from shortlist.gateway.connections.server_process import RunningProcesses
from shortlist.gateway.connections.server_spec import ServerSpec
from shortlist.gateway.http_server import serve_http
from shortlist.gateway.profiles.profile import Profile
from shortlist.gateway.server import Gateway
from shortlist.gateway.upstream.fleet import Fleet
from shortlist.gateway.upstream.start_cache import ListingCache

from .warm_python import warm

SERVER = str(Path(__file__).parent / "talking_server.py")
SCRIPTED_SERVER = str(Path(__file__).parent / "scripted_server.py")


def talking(name: str, era: str = "older", *words: str, **changed) -> ServerSpec:
    """A talking server; `era` is `older` or `newer`, `words` are its further arguments."""
    args = warm(SERVER, name, era, *words)
    given = {"transport": "stdio", "command": sys.executable, "args": args}
    return ServerSpec(name=name, **{**given, **changed})


def scripted(folder: Path, name: str, **script) -> ServerSpec:
    """A server that answers with the given texts; see `scripted_server.py`."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps(script), encoding="utf-8")
    args = [SCRIPTED_SERVER, str(path)]
    return ServerSpec(name=name, transport="stdio", command=sys.executable, args=args)


@asynccontextmanager
async def talking_over_http(name: str, era: str, *words: str):
    """A talking server that serves HTTP, as a process of its own."""
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, *warm(SERVER, name, era, *words, "http", str(port))]
    async with await anyio.open_process(command, stdout=None, stderr=None) as process:
        with anyio.fail_after(60):
            while True:
                try:
                    await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
                    break
                except OSError:
                    await anyio.sleep(0.1)
        yield ServerSpec(name=name, transport="http", url=f"http://127.0.0.1:{port}/mcp")
        process.terminate()


def made_gateway(tmp_path, specs, profile=None, profiles=None, **settings) -> Gateway:
    fleet = Fleet(
        specs,
        engine_settings={"tiers": ["lexical"]},
        listing_cache=ListingCache(tmp_path / "manifests"),
        open_log=log_opener(tmp_path / "logs"),
        processes=RunningProcesses(tmp_path / "running"),
        **settings,
    )
    return Gateway(fleet, profile or Profile(pass_through=0.0), profiles)


async def all_known(made) -> None:
    with anyio.fail_after(60):
        while made.fleet.unlisted_servers:
            await anyio.sleep(0.05)


@asynccontextmanager
async def running(made):
    """The servers behind, known."""
    async with anyio.create_task_group() as group:
        await group.start(made.fleet.run)
        await all_known(made)
        yield made
        group.cancel_scope.cancel()


@asynccontextmanager
async def both(made):
    """A client of the newer protocol and one of the older, of the same session."""
    async with Client(made.server) as newer, Client(made.server, mode="legacy") as older:
        yield newer, older


@asynccontextmanager
async def over_http(made, tokens=None):
    """The address of a gateway that serves HTTP."""
    ports = []
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: serve_http(made, "127.0.0.1", 0, tokens, on_start=ports.append))
        with anyio.fail_after(60):
            while not ports or made.fleet.unlisted_servers:
                await anyio.sleep(0.05)
        yield f"http://127.0.0.1:{ports[0]}/mcp"
        group.cancel_scope.cancel()


class Heard:
    """What a client was sent, and how it answers questions."""

    def __init__(self, name: str = "me", thinks_s: float = 0.02) -> None:
        self.name = name
        self.thinks_s = thinks_s
        self.logs: list[object] = []
        self.questions: list[str] = []
        self.folder_requests = 0
        self.progress: list[object] = []
        self.others: list[object] = []

    async def log(self, params) -> None:
        self.logs.append(params.data)

    async def elicit(self, context, params):
        self.questions.append(params.message)
        await anyio.sleep(self.thinks_s)
        return types.ElicitResult(action="accept", content={"answer": f"answer of {self.name}"})

    async def sample(self, context, params):
        self.questions.append(params.messages[0].content.text)
        content = types.TextContent(type="text", text=f"model of {self.name}")
        return types.CreateMessageResult(role="assistant", content=content, model="none")

    async def roots(self, context):
        self.folder_requests += 1
        return types.ListRootsResult(roots=[types.Root(uri=f"file:///home/{self.name}")])

    async def on_progress(self, progress, total, message) -> None:
        self.progress.append((progress, total, message))

    async def other(self, message) -> None:
        self.others.append(message)

    def callbacks(self, **changed):
        given = {
            "logging_callback": self.log,
            "elicitation_callback": self.elicit,
            "sampling_callback": self.sample,
            "list_roots_callback": self.roots,
            "message_handler": self.other,
        }
        return {**given, **changed}


@asynccontextmanager
async def http_client(url, token=None, **options):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), **options) as client,
    ):
        yield client


async def call(client, name, progress=None, **arguments):
    given = {"name": name, "arguments": arguments}
    return await client.call_tool("call_tool", given, progress_callback=progress)


def text_of(result) -> str:
    return "".join(part.text for part in result.content)


async def set_level(client, level):
    params = types.SetLevelRequestParams(level=level)
    await client.session.send_request(types.SetLevelRequest(params=params), types.EmptyResult)
