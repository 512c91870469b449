"""Servers over stdio, streamable HTTP and SSE, of both eras of the protocol."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial

import anyio
import pytest
from mcp import Client
from mcp_types.version import LATEST_MODERN_VERSION

from shortlist.errors import ConfigError
from shortlist.gateway.connections.server_spec import ServerSpec
from shortlist.gateway.http_server import check_can_listen
from shortlist.gateway.upstream import server_connection as upstream
from shortlist.gateway.upstream.server_connection import UpstreamError
from shortlist.tests.gateway.fleets import HERE, call, running, text_of, until
from shortlist.tests.gateway.warm_python import warm

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


@contextmanager
def listening(script, *args):
    """A server that listens on a free port, as a process that can be killed and started again."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = Server([sys.executable, *warm(str(HERE / script), *args, str(port))], port)
    server.start()
    try:
        yield server
    finally:
        server.kill()


class Server:
    def __init__(self, command, port):
        self.command = command
        self.port = port

    def start(self):
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(self.command, stdout=quiet, stderr=quiet)
        self._wait_until_listening(True)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self._wait_until_listening(False)

    def _wait_until_listening(self, wanted):
        for _ in range(3_000):
            with socket.socket() as probe:
                if (probe.connect_ex(("127.0.0.1", self.port)) == 0) is wanted:
                    return
            time.sleep(0.01)
        raise AssertionError(f"the server listens: {not wanted}")


def reached(server, transport="http", path="mcp"):
    url = f"http://127.0.0.1:{server.port}/{path}"
    return ServerSpec(name="one", transport=transport, url=url, start_timeout_s=10)


async def test_modern_stdio_tells_of_changes(tmp_path):
    args = warm(str(HERE / "changing_server.py"), "stdio")
    spec = ServerSpec(name="one", transport="stdio", command=sys.executable, args=args)
    async with running(tmp_path, spec) as fleet:
        await _calls_and_changes(fleet)


async def test_modern_http_tells_of_changes_and_restarts(tmp_path):
    with listening("changing_server.py", "streamable-http") as server:
        async with running(tmp_path, reached(server)) as fleet:
            await _calls_and_changes(fleet)
            assert len(text_of(await call(fleet, "one/large_text", size=3_000_000))) == 3_000_000
            with pytest.raises(UpstreamError):
                await call(fleet, "one/large_text", size=50_000_000)
            assert text_of(await call(fleet, "one/say_word", word="still")) == "still"
            await _comes_back(fleet, server)


@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_sdk_servers_in_the_older_era_tell_of_changes(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(upstream, "Client", partial(Client, mode="legacy"))
    if kind == "stdio":
        args = warm(str(HERE / "changing_server.py"), "stdio")
        spec = ServerSpec(name="one", transport="stdio", command=sys.executable, args=args)
        async with running(tmp_path, spec) as fleet:
            await _calls_and_changes(fleet, "2025-11-25")
        return
    with listening("changing_server.py", "streamable-http") as server:
        async with running(tmp_path, reached(server)) as fleet:
            await _calls_and_changes(fleet, "2025-11-25")


async def test_sse(tmp_path):
    with listening("changing_server.py", "sse") as server:
        async with running(tmp_path, reached(server, "sse", "sse")) as fleet:
            assert text_of(await call(fleet, "one/say_word", word="hello")) == "hello"
            await _comes_back(fleet, server)


async def test_legacy_http_whose_sessions_end_with_it(tmp_path):
    with listening("legacy_http_server.py") as server:
        async with running(tmp_path, reached(server)) as fleet:
            assert fleet.upstreams["one"]._client.protocol_version == "2025-06-18"
            assert text_of(await call(fleet, "one/say_word", word="hello")) == "hello"
            with pytest.raises(UpstreamError, match="more than"):
                await call(fleet, "one/large_text", size=50_000_000)
            await _comes_back(fleet, server)
            # Started again between two calls: its old session is gone, and nothing is called twice.
            server.kill()
            server.start()
            with pytest.raises(UpstreamError, match="starts again"):
                await call(fleet, "one/say_word", word="lost")
            assert text_of(await call(fleet, "one/say_word", word="back")) == "back"


async def _calls_and_changes(fleet, version=LATEST_MODERN_VERSION):
    assert fleet.upstreams["one"]._client.protocol_version == version
    assert text_of(await call(fleet, "one/say_word", word="hello")) == "hello"
    await anyio.sleep(0.3)
    await call(fleet, "one/grow", name="say_tree")
    await until(lambda: "one/say_tree" in fleet.engine.catalog)
    assert text_of(await call(fleet, "one/say_tree")) == "say_tree"


async def _comes_back(fleet, server):
    server.kill()
    with pytest.raises(UpstreamError), anyio.fail_after(20):
        await call(fleet, "one/large_text", size=1)
    server.start()
    with anyio.fail_after(20):
        while True:
            try:
                assert text_of(await call(fleet, "one/say_word", word="again")) == "again"
                break
            except UpstreamError:
                await anyio.sleep(0.2)


def test_an_address_that_is_taken_or_not_of_this_machine_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(
            ConfigError, match=rf"127.0.0.1:{port}: cannot listen there: .*in use; "
        ):
            check_can_listen("127.0.0.1", port)
    check_can_listen("127.0.0.1", port)
    check_can_listen("127.0.0.1", 0)
    with pytest.raises(ConfigError, match=r"192\.0\.2\.1:8765: cannot listen there"):
        check_can_listen("192.0.2.1", 8765)
