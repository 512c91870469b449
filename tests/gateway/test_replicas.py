"""Replicas of a gateway on one database: processes of `shortlist serve`, reached over HTTP."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any

import anyio
import httpx2
import mcp.types as types
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from shortlist import Catalog, Engine, Tool
from shortlist.gateway.upstream.first_use import FirstUsePins
from shortlist.retrieval.postgres.database import Database, single_connection
from shortlist.retrieval.postgres.stored_texts import StoredTexts
from shortlist.trust import Pins, Trust, change_pins

from .fake_servers import text_of
from .real.gateway_process import Served, Setup, over_http
from .talking import http_client
from .test_tasks import TakesTasks, asked, created

pytest.importorskip("psycopg", reason="PostgreSQL: psycopg is not installed")
pytestmark = pytest.mark.anyio
SERVER = str(Path(__file__).parent / "scripted_server.py")
TASKS_SERVER = str(Path(__file__).parent / "tasks_server.py")
PROTOCOL = "2026-07-28"
CLIENTS = 20
LONG = "".join(f"line {number}\n" for number in range(8_000))
RULES = [
    {"tools": "desk/send_letter", "needs": {"after": "desk/open_folder"}},
    {"tools": "desk/close_desk", "needs": {"not": {"after": "desk/close_desk"}}},
    {"tools": "desk/burn_letter", "approval": True},
]


def tool(name: str, description: str) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": {"type": "object"}}


TOOLS = [
    tool("open_folder", "Open a folder of letters"),
    tool("send_letter", "Send a letter to a person"),
    tool("close_desk", "Close the desk for today"),
    tool("write_report", "Write the yearly report"),
    tool("burn_letter", "Burn a letter"),
]


def answered(text: str) -> dict[str, Any]:
    return {"result": {"content": [{"type": "text", "text": text}]}}


class Replicas:
    """Starts replicas, each with files of its own, over one database."""

    def __init__(self, folder: Path, dsn: str, stack: ExitStack) -> None:
        self.folder = folder
        self.script = folder / "desk.json"
        self.write_tools(TOOLS)
        self._dsn = dsn
        self._stack = stack

    def write_tools(self, tools: list[dict[str, Any]]) -> None:
        """The tools of the server from its next start on."""
        answers = {name["name"]: answered(f"{name['name']} done") for name in tools}
        answers["write_report"] = answered(LONG)
        self.script.write_text(json.dumps({"tools": tools, "answers": answers}))

    def start(
        self,
        name: str,
        *,
        is_killed: bool = False,
        servers: Mapping[str, Any] = MappingProxyType({}),
        **settings: Any,
    ) -> Served:
        """A replica that has nothing but the configuration."""
        entry = {"command": sys.executable, "args": [SERVER, str(self.script)]}
        index = {"backend": "postgres", "dsn": "${REPLICAS_DSN}", "tenant": "desk"}
        own = {
            "engine": {"tiers": ["lexical"], "index": index},
            "pass_through": 0,
            "result_tokens": 100,
            "profiles": {
                "ada": {"token": "ada-token", "rules": RULES},
                "bob": {"token": "bob-token", "rules": RULES},
            },
            **settings,
        }
        setup = Setup.write(self.folder / name, {"desk": entry, **servers}, own)
        os.environ["REPLICAS_DSN"] = self._dsn
        served = self._stack.enter_context(over_http(setup, is_killed=is_killed))
        served.settle(60)
        return served

    def pins(self, name: str) -> Path:
        """The folder of pins of a replica."""
        [path] = (self.folder / name / "s").rglob("pins/*.json")
        return path


@pytest.fixture
def replicas(tmp_path: Path, postgres_dsn: str) -> Iterator[Replicas]:
    with ExitStack() as stack:
        yield Replicas(tmp_path, postgres_dsn, stack)


async def _never_asked(context: Any, params: Any) -> types.ElicitResult:
    raise AssertionError("questions are in answers")


Step = Callable[[Client], Awaitable[Any]]


class Conversation:
    """A client of the stateless protocol, whose requests go to the replicas in turn.

    A request whose replica is gone is sent to the other one, as a load balancer does.
    """

    def __init__(self, addresses: list[str], conversation: str, token: str = "ada-token") -> None:
        self._addresses = addresses
        self._headers = {"Authorization": f"Bearer {token}"}
        if conversation:
            self._headers["Mcp-Session-Id"] = conversation
        self.requests = self.moved = 0

    async def _do(self, step: Step) -> Any:
        self.requests += 1
        for attempt in range(len(self._addresses)):
            place = (self.requests + attempt) % len(self._addresses)
            try:
                async with (
                    httpx2.AsyncClient(headers=self._headers, timeout=60) as http,
                    Client(
                        streamable_http_client(self._addresses[place], http_client=http),
                        mode=PROTOCOL,
                        elicitation_callback=_never_asked,
                    ) as client,
                ):
                    return await step(client)
            except* (MCPError, httpx2.TransportError, anyio.ClosedResourceError) as group:
                if attempt + 1 == len(self._addresses):
                    raise group.exceptions[0] from group
                self.moved += 1
        raise AssertionError

    async def call(self, name: str, /, **arguments: Any) -> types.CallToolResult:
        return await self._do(lambda client: client.call_tool(name, arguments))

    async def answered(self, call: dict[str, Any], **more: Any) -> Any:
        """The result of one request of `call_tool`, which may be a question."""
        return await self._do(
            lambda client: client.session.call_tool(
                "call_tool", call, allow_input_required=True, **more
            )
        )

    async def run(self, tool_id: str) -> str:
        return text_of(await self.call("call_tool", name=tool_id, arguments={}))

    async def tools(self) -> str:
        listed = await self._do(lambda client: client.list_tools())
        return json.dumps([tool.model_dump(mode="json") for tool in listed.tools])


@pytest.mark.long
async def test_each_client_has_one_conversation_also_when_a_replica_is_killed(
    replicas: Replicas,
) -> None:
    first, second = replicas.start("first", is_killed=True), replicas.start("second")
    conversations = [
        Conversation([first.address, second.address], f"conversation-{number}")
        for number in range(CLIENTS)
    ]

    async def talk(talking: Conversation) -> None:
        shown = await talking.tools()
        found = text_of(await talking.call("search_tools", query="send a letter"))
        # Not before a folder is open, and the search says so by leaving it out.
        assert "desk/send_letter" not in found
        assert "denied" in await talking.run("desk/send_letter")
        assert await talking.run("desk/open_folder") == "open_folder done"
        for _ in range(3):
            found = text_of(await talking.call("search_tools", query="send a letter"))
            assert "desk/send_letter" in found
            assert await talking.run("desk/send_letter") == "send_letter done"
        assert await talking.tools() == shown
        report = await talking.run("desk/write_report")
        name = re.search(r'the first ([\d,]+) are above.*"id": "(\w+)"', report)
        assert name is not None
        rest = ""
        while "[end of the result]" not in rest:
            part = text_of(await talking.call("read_result", id=name[2]))
            rest += re.sub(r"\n\[[\d,]+ characters left\]$", "", part)
        shown_chars = int(name[1].replace(",", ""))
        assert rest.removesuffix("\n[end of the result]") == LONG[shown_chars:]
        moved = talking.moved
        closed = await talking.run("desk/close_desk")
        # Nobody knows whether a call succeeded whose replica was killed.
        assert closed == "close_desk done" or talking.moved > moved
        for _ in range(2):
            assert "denied" in await talking.run("desk/close_desk")

    with anyio.fail_after(240):
        async with anyio.create_task_group() as group:
            for talking in conversations:
                group.start_soon(talk, talking)
            while sum(talking.requests for talking in conversations) < 8 * CLIENTS:
                await anyio.sleep(0.01)
            os.kill(first.pid, signal.SIGKILL)
    assert sum(talking.moved for talking in conversations) >= CLIENTS


async def test_a_conversation_and_its_results_belong_to_the_token(replicas: Replicas) -> None:
    addresses = [replicas.start(name).address for name in ("first", "second")]
    ada = Conversation(addresses, "conversation")
    bob = Conversation(addresses, "conversation", "bob-token")
    assert await ada.run("desk/open_folder") == "open_folder done"
    assert await ada.run("desk/send_letter") == "send_letter done"
    assert "denied" in await bob.run("desk/send_letter")
    report = await ada.run("desk/write_report")
    name = re.search(r'"id": "(\w+)"', report)
    assert name is not None
    stranger = await bob.call("read_result", id=name[1])
    assert stranger.is_error
    assert "no result" in text_of(stranger)
    assert "line" in text_of(await ada.call("read_result", id=name[1]))
    # Without a conversation, the results are those of the token.
    alone, other = Conversation(addresses, ""), Conversation(addresses, "", "bob-token")
    name = re.search(r'"id": "(\w+)"', await alone.run("desk/write_report"))
    assert name is not None
    assert "line" in text_of(await alone.call("read_result", id=name[1]))
    assert (await other.call("read_result", id=name[1])).is_error
    # The user answers at another replica than the one that asked, and once.
    for talking, stranger_too in ((ada, bob), (alone, other)):
        given = {"name": "desk/burn_letter", "arguments": {"name": "secret"}}
        asked = await talking.answered(given)
        accepted = {key: types.ElicitResult(action="accept") for key in asked.input_requests}
        answer = {"input_responses": accepted, "request_state": asked.request_state}
        assert "not a state of this call" in text_of(await stranger_too.answered(given, **answer))
        assert text_of(await talking.answered(given, **answer)) == "burn_letter done"
        for _ in range(2):
            assert "used before" in text_of(await talking.answered(given, **answer))
    # Another token of the same profile: the conversation of the old one is not continued.
    changed = {"ada": {"token": "new-token", "rules": RULES}}
    third = replicas.start("third", profiles=changed)
    assert "denied" in await Conversation([third.address], "conversation", "new-token").run(
        "desk/send_letter"
    )
    with single_connection(replicas._dsn) as connection:
        stored = str(connection.execute("SELECT * FROM shortlist.texts").fetchall())
    assert "ada-token" not in stored
    assert name[1] not in stored


async def test_each_replica_knows_a_task_also_when_the_one_that_made_it_is_killed(
    replicas: Replicas, tmp_path: Path
) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    servers = {"jobs": {"command": sys.executable, "args": [TASKS_SERVER, str(jobs)]}}
    first = replicas.start("first", is_killed=True, servers=servers, timeouts={"jobs/*": 0.5})
    second = replicas.start("second", servers=servers)
    takes_tasks: dict[str, Any] = {"mode": PROTOCOL, "extensions": [TakesTasks()]}
    call = {"name": "jobs/build", "arguments": {"target": "docs"}}
    async with http_client(first.address, "ada-token", **takes_tasks) as ada:
        done, cancelled = [(await created(ada, call)).task_id for _ in range(2)]
        assert (await asked(ada, "tasks/get", done)).status == "working"
    # A client without tasks waits until the time limit.
    waiting = await Conversation([first.address], "").call("call_tool", **call)
    running = re.search(r'read_result \{"id": "([\w-]+)"\}', text_of(waiting))
    assert running is not None, text_of(waiting)
    os.kill(first.pid, signal.SIGKILL)
    async with (
        http_client(second.address, "ada-token", **takes_tasks) as ada,
        http_client(second.address, "bob-token", **takes_tasks) as bob,
    ):
        assert (await asked(ada, "tasks/get", done)).status == "working"
        await asked(ada, "tasks/cancel", cancelled)
        assert (await asked(ada, "tasks/get", cancelled)).status == "cancelled"
        (jobs / "done").touch()
        final = await asked(ada, "tasks/get", done)
        assert final.status == "completed"
        assert text_of(final.result) == "built docs"
        with pytest.raises(MCPError, match="no task"):
            await asked(bob, "tasks/get", done)
    result = await Conversation([second.address], "").call("read_result", id=running[1])
    assert text_of(result) == "built docs"


@pytest.mark.long
async def test_a_replica_without_files_has_the_pins_of_the_others(replicas: Replicas) -> None:
    first = replicas.start("first")
    assert await Conversation([first.address], "a").run("desk/close_desk") == "close_desk done"
    changed = tool("close_desk", "Close the desk and sell it")
    replicas.write_tools([*TOOLS[:2], changed, TOOLS[3], tool("lock_door", "Lock the door")])
    # The list of the last start would be used as long as nobody calls the server.
    second = replicas.start("second")
    addresses = [second.address, first.address]
    assert await Conversation(addresses[:1], "b").run("desk/open_folder") == "open_folder done"
    deadline = time.monotonic() + 60
    for place, address in enumerate(addresses):
        talking = Conversation([address], f"c{place}")
        while "lock_door" not in text_of(await talking.call("search_tools", query="lock door")):
            assert time.monotonic() < deadline
            await anyio.sleep(0.1)
        assert "quarantined" in await talking.run("desk/close_desk")
    # The file of the second replica has the pin that the first one wrote.
    approved = replicas.pins("second")
    [file] = approved.iterdir()
    assert "Close the desk for today" in file.read_text(encoding="utf-8")
    new = Tool("close_desk", "desk", "Close the desk and sell it", {"type": "object"})
    change_pins(approved, lambda pins: pins.approve([new]))
    for place, address in enumerate(addresses):
        assert await Conversation([address], f"d{place}").run("desk/close_desk") == (
            "close_desk done"
        )
    assert Pins.read(replicas.pins("first")).approves(new)


async def test_a_gateway_shows_the_tools_of_its_own_servers(
    replicas: Replicas, postgres_dsn: str
) -> None:
    index = {"backend": "postgres", "dsn": postgres_dsn, "tenant": "desk"}
    others = [Tool("send_letter", "elsewhere", "Send a letter to a person")]
    with Engine.from_tools(others, tiers=["lexical"], index=index) as engine:
        talking = Conversation([replicas.start("first").address], "a")
        found = text_of(await talking.call("search_tools", query="open the folder, send a letter"))
        assert "desk/open_folder" in found
        assert "elsewhere" not in found
        unknown = await talking.run("elsewhere/send_letter")
        assert "elsewhere/send_letter" in unknown
        assert "done" not in unknown
        engine.close()
        with Engine.connect(tiers=["lexical"], index=index) as both:
            assert set(both.catalog.servers) == {"desk", "elsewhere"}


def test_replicas_share_pins_and_a_damaged_text_waits(postgres_dsn: str, tmp_path: Path) -> None:
    texts = StoredTexts(Database(postgres_dsn, "desk"))
    send, read = Tool("send", "mail", "Send."), Tool("read", "files", "Read.")
    for server, pins in Pins().pin([read]).approve([send]).by_server().items():
        texts.change("pins", server, lambda _, pins=pins: pins.to_text())
    replicas = [FirstUsePins(tmp_path / name, texts) for name in ("one", "two")]
    assert set(texts.read_all("pins")) == {"mail", "files"}
    replicas[0].pin([Tool("list", "mail", "List."), Tool("send", "mail", "Changed.")])
    assert replicas[1].has_changed()
    replicas[1].pin(())
    for replica in replicas:
        pins = Pins.read(replica.path)
        assert pins.approves(send)
        assert {tool_id: pins.age(tool_id) for tool_id in pins} == {
            "files/read": 1,
            "mail/list": 3,
            "mail/send": 2,
        }
    # A damaged text waits for approval; the other server's pins stay.
    texts.change("pins", "mail", lambda _: "{")
    fresh = FirstUsePins(tmp_path / "three", texts)
    fresh.pin([send, read])
    assert set(Trust(pins=fresh.path).flags(Catalog([send, read]))) == {send.id}


def test_texts_end_and_belong_to_one_tenant(postgres_dsn: str) -> None:
    texts = StoredTexts(Database(postgres_dsn, "first"))
    texts.change("pins", "", lambda _: "one")
    assert texts.read("pins", "") == "one"
    assert StoredTexts(Database(postgres_dsn, "second")).read("pins", "") is None
    stamp = texts.stamp("pins")
    texts.change("pins", "", lambda text: f"{text} two")
    assert texts.stamp("pins") != stamp
    with pytest.raises(ZeroDivisionError):
        texts.change("pins", "", lambda _: str(1 / 0))
    assert texts.read("pins", "") == "one two"
    texts.change("session", "a", lambda _: "short", kept_s=0.2)
    assert texts.read("session", "a") == "short"
    time.sleep(0.3)
    assert texts.read("session", "a") is None
    seen: list[str | None] = []
    texts.change("session", "a", lambda text: (seen.append(text), "new")[1], kept_s=60)
    assert seen == [None]
    texts.change("session", "a", lambda _: None)
    assert texts.stamp("session") == ""
