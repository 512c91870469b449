"""Real clients, all used alike: SDK 2.x in this process, SDK 1.x and the Inspector in their own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import anyio
import mcp.types as types
from anyio.streams.text import TextReceiveStream
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from .packages import npm, pypi

SDK_1 = "mcp==1.30.0"
#: The Inspector's command line needs this Node at least.
NODE = "node@22.23.3"
INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"

Result = dict[str, Any]


class Caller(Protocol):
    """A client that is connected."""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Result:
        """The result of a tool, as it came over the wire."""
        ...

    async def tools(self) -> list[Result]:
        """The listed tools, all pages."""
        ...


class Sdk2:
    """A client on the SDK that this package uses."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Result:
        # Not `call_tool`, which raises where a server breaks its own output schema.
        params = types.CallToolRequestParams(name=name, arguments=dict(arguments))
        request = types.CallToolRequest(params=params)
        result = await self._client.session.send_request(request, types.CallToolResult)
        return result.model_dump(by_alias=True, exclude_none=True, mode="json")

    async def tools(self) -> list[Result]:
        found: list[Result] = []
        cursor = None
        while True:
            page = await self._client.list_tools(cursor=cursor)
            found += [
                one.model_dump(by_alias=True, exclude_none=True, mode="json") for one in page.tools
            ]
            cursor = page.next_cursor
            if not cursor:
                return found


class Sdk1:
    """A client on SDK 1.x, a process of its own."""

    def __init__(self, process: anyio.abc.Process) -> None:
        assert process.stdin
        assert process.stdout
        self._in, self._out, self._rest = process.stdin, TextReceiveStream(process.stdout), ""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Result:
        return await self._ask({"name": name, "arguments": dict(arguments)})

    async def tools(self) -> list[Result]:
        return (await self._ask({}))["tools"]

    async def _ask(self, asked: Mapping[str, Any]) -> Result:
        await self._in.send(json.dumps(asked).encode() + b"\n")
        while "\n" not in self._rest:
            self._rest += await self._out.receive()
        line, _, self._rest = self._rest.partition("\n")
        return json.loads(line)


class Inspector:
    """The Inspector's command line, a process for each request.

    Args:
        target: an address, or a command and its arguments.
        environment: of the command.
        install: whether it is installed where it is missing.

    Raises:
        NotInstalledError: it is missing.
    """

    def __init__(
        self, target: Sequence[str], environment: Mapping[str, str], *, install: bool = True
    ) -> None:
        node = npm(NODE, install=install) / "node"
        program = npm(INSPECTOR, install=install) / "mcp-inspector"
        self._start = [str(node), str(program), "--cli", *target]
        self._environment = dict(environment)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Result:
        words = ["--method", "tools/call", "--tool-name", name]
        for key, value in arguments.items():
            words += ["--tool-arg", f"{key}={json.dumps(value)}"]
        return await self._run(words)

    async def tools(self) -> list[Result]:
        return (await self._run(["--method", "tools/list"]))["tools"]

    async def _run(self, words: list[str]) -> Result:
        done = await anyio.run_process(
            [*self._start, *words], check=False, env=self._environment, stderr=subprocess.PIPE
        )
        try:
            return json.loads(done.stdout)
        except ValueError:
            said = (done.stdout + done.stderr).decode(errors="replace")
            raise AssertionError(f"the Inspector printed no result: {said[-2000:]}") from None


@asynccontextmanager
async def sdk2(
    target: str | Sequence[str], environment: Mapping[str, str], cwd: Path | None = None
) -> AsyncIterator[Sdk2]:
    """A client of a server at an address, or of one that a command starts."""
    if isinstance(target, str):
        transport = streamable_http_client(target)
        async with Client(transport) as client:
            yield Sdk2(client)
        return
    parameters = StdioServerParameters(
        command=target[0], args=list(target[1:]), env=dict(environment), cwd=cwd
    )
    with Path(os.devnull).open("w") as nothing:
        async with Client(stdio_client(parameters, errlog=nothing)) as client:
            yield Sdk2(client)


@asynccontextmanager
async def sdk1(
    target: str | Sequence[str], environment: Mapping[str, str], *, install: bool = True
) -> AsyncIterator[Sdk1]:
    """The same with SDK 1.x.

    Raises:
        NotInstalledError: it is missing.
    """
    python = str(pypi(SDK_1, install=install) / "python")
    words = [target] if isinstance(target, str) else list(target)
    program = str(Path(__file__).with_name("sdk1_client.py"))
    async with await anyio.open_process(
        [python, program, *words], env=dict(environment), stderr=None
    ) as process:
        yield Sdk1(process)
        assert process.stdin
        await process.stdin.aclose()
        with anyio.move_on_after(20):
            await process.wait()
