"""A server's question reaches the client that caused it, or nobody, and no call waits for that."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import anyio
import mcp.types as types
import pytest

from shortlist.gateway.profiles.profile import Profile
from shortlist.gateway.server import Gateway
from shortlist.gateway.upstream.server_messages import QuestionCauses, sent_as_call_of

from .fake_servers import FakeServer, found_by, gateway_of, tool
from .talking import (
    Heard,
    call,
    http_client,
    made_gateway,
    over_http,
    set_level,
    talking,
    talking_over_http,
    text_of,
)

pytestmark = pytest.mark.anyio
TRANSPORTS = pytest.mark.parametrize("transport", ["stdio", "http"])
ENDS = pytest.mark.parametrize("end", ["times out", "is cancelled"])


@pytest.fixture
def anyio_backend():
    return "asyncio"


@dataclass
class Office:
    """Two clients of a gateway over HTTP, before one server of the older protocol."""

    made: Gateway
    notes: Path
    clients: dict = field(default_factory=dict)
    heard: dict = field(default_factory=dict)

    async def call(self, who: str, name: str, progress=None, **more) -> str:
        return text_of(await call(self.clients[who], f"one/{name}", progress, who=who, **more))

    async def begin(self, group, who: str, name: str, **arguments: str) -> None:
        """Start a call. Returns when the server works on it."""
        started = anyio.Event()

        async def progress(*_) -> None:
            started.set()

        group.start_soon(partial(self.call, who, name, progress, **arguments))
        with anyio.fail_after(60):
            await started.wait()

    async def abandon(self, who: str, end: str, kind: str = "elicitation") -> None:
        """A call without an answer, whose server asks a question once it is cancelled."""
        async with anyio.create_task_group() as group:
            await self.begin(group, who, "ask_once_cancelled", kind=kind)
            if end == "is cancelled":
                group.cancel_scope.cancel()
        await self.noted("refused: ")

    async def noted(self, line: str) -> str:
        """The first line of the server's notes with this text."""
        with anyio.fail_after(60):
            while True:
                lines = self.notes.read_text().splitlines()
                if line_found := next((one for one in lines if line in one), ""):
                    return line_found
                await anyio.sleep(0.02)

    @property
    def connections(self) -> int:
        return self.notes.read_text().count("connected")


@asynccontextmanager
async def office(tmp_path, transport, end="is cancelled"):
    notes = tmp_path / "notes"
    limit = 1.0 if end == "times out" else 60.0
    async with server_over(transport, f"notes={notes}") as spec:
        made = made_gateway(tmp_path, [spec], timeouts={"one/ask_once_cancelled": limit})
        heard = {name: Heard(name) for name in ("ann", "bob")}
        options = {name: one.callbacks(mode="legacy") for name, one in heard.items()}
        async with (
            over_http(made) as url,
            http_client(url, **options["ann"]) as ann,
            http_client(url, **options["bob"]) as bob,
        ):
            for client in (ann, bob):
                await set_level(client, "info")
            yield Office(made, notes, {"ann": ann, "bob": bob}, heard)


@asynccontextmanager
async def server_over(transport, *words):
    if transport == "stdio":
        yield talking("one", "older", *words)
    else:
        async with talking_over_http("one", "older", *words) as spec:
            yield spec


@pytest.mark.parametrize(
    ("transport", "end", "kind"),
    [
        ("stdio", "times out", "elicitation"),
        ("http", "is cancelled", "elicitation"),
        ("stdio", "is cancelled", "sampling"),
        ("http", "times out", "sampling"),
        ("stdio", "times out", "roots"),
        ("http", "is cancelled", "roots"),
    ],
)
async def test_a_late_question_of_an_abandoned_call_reaches_no_other_client(
    tmp_path, transport, end, kind
):
    async with office(tmp_path, transport, end) as there, anyio.create_task_group() as group:
        await there.begin(group, "bob", "hold")
        await there.abandon("ann", end, kind)
        assert "requests of several clients" in await there.noted("refused: the gateway cannot ask")
        assert (there.heard["ann"].logs, there.heard["bob"].logs) == ([], [])
        # Bob's call still runs, so it was not interrupted by a new connection.
        assert await there.call("bob", "release") == "released"
        assert (there.heard["ann"].questions, there.heard["bob"].questions) == ([], [])
        assert there.heard["ann"].folder_requests == there.heard["bob"].folder_requests == 0
        assert there.connections == 1


@TRANSPORTS
@ENDS
async def test_after_an_abandoned_call_another_client_gets_a_new_connection(
    tmp_path, transport, end
):
    async with office(tmp_path, transport, end) as there:
        await there.abandon("ann", end)
        assert "cancelled or timed out" in await there.noted("refused: the gateway cannot ask")
        with anyio.fail_after(60):
            while there.heard["ann"].logs != ["late ann"]:
                await anyio.sleep(0.05)
        assert there.heard["bob"].logs == []
        # All possible causes are calls of the same client, so its question has a cause.
        assert await there.call("ann", "ask_user") == "accept answer of ann"
        assert there.connections == 1
        async with anyio.create_task_group() as group:
            group.start_soon(there.call, "bob", "show_meta")
            assert await there.call("bob", "ask_user") == "accept answer of bob"
        assert there.connections == 2
        assert await there.call("ann", "ask_user") == "accept answer of ann"
        assert there.connections == 2
        asked = {name: one.questions for name, one in there.heard.items()}
        assert asked == {
            "ann": ["[one] Question for ann"] * 2,
            "bob": ["[one] Question for bob"],
        }
        assert there.made.fleet.problems() == {"one": []}


@TRANSPORTS
async def test_no_call_waits_for_another_clients_call(tmp_path, transport):
    async with office(tmp_path, transport) as there, anyio.create_task_group() as group:
        await there.begin(group, "bob", "hold")
        # Bob's call ends only after Ann's calls, which are the first ones of their tools.
        with anyio.fail_after(60):
            await there.begin(group, "ann", "hold")
            assert await there.call("ann", "show_meta")
            answer = await there.call("ann", "say_everything", rounds=2)
        ann, bob = there.heard["ann"], there.heard["bob"]
        if transport == "http":
            assert answer == "answer of ann"
            assert ann.logs == ["ann 0", "ann 1"]
        else:
            assert "the gateway cannot ask: requests of several clients" in answer
            assert (ann.logs, ann.questions) == ([], [])
        assert (bob.logs, bob.questions) == ([], [])
        assert await there.call("bob", "release") == "released"
        # Only calls of one client are left.
        assert await there.call("ann", "ask_user") == "accept answer of ann"
        assert await there.call("ann", "release") == "released"


async def test_a_new_connection_keeps_subscriptions(tmp_path):
    async with office(tmp_path, "stdio") as there:
        bob = there.clients["bob"]
        await bob.session.send_request(
            types.SubscribeRequest(
                params=types.SubscribeRequestParams(uri="shortlist://one/memo://note/1")
            ),
            types.EmptyResult,
        )
        await there.abandon("ann", "is cancelled")
        with anyio.fail_after(60):
            while await there.call("bob", "who_follows") != "['memo://note/1']":
                await anyio.sleep(0.1)
        assert there.connections == 2
        assert there.made.fleet.problems() == {"one": []}


async def test_a_late_vote_is_not_cancelled(tmp_path):
    class Slow(FakeServer):
        async def _call(self, context, params):
            await searched.wait()
            answered.set()
            return await super()._call(context, params)

    searched, answered = anyio.Event(), anyio.Event()
    voting = Slow("one", [tool("echo"), tool("_tool_gating")])
    profile = Profile(pass_through=0.0, vote_servers=("one",))
    async with gateway_of(tmp_path, voting, profile=profile) as (client, _):
        assert await found_by(client, "echo") == ["one/echo"]
        searched.set()
        with anyio.fail_after(30):
            await answered.wait()


def sent(causes, number, client_id):
    """A call, with its request and the block in which the client waits."""
    caller = SimpleNamespace(client=SimpleNamespace(id=client_id))
    block = sent_as_call_of(caller)
    block.__enter__()
    causes.record_sent(types.JSONRPCRequest(jsonrpc="2.0", id=number, method="tools/call"))
    return caller, block


def answered(causes, number):
    causes.record_received(types.JSONRPCResponse(jsonrpc="2.0", id=number, result={}), None)


def test_a_call_is_a_possible_cause_until_it_is_answered():
    causes = QuestionCauses()
    assert causes.cause_of_question().client_ids == frozenset()
    ann, ann_waits = sent(causes, 1, "ann")
    assert causes.cause_of_question().caller is ann
    _, ann_waits_again = sent(causes, 2, "ann")
    assert causes.cause_of_question().caller is ann
    _, bob_waits = sent(causes, 3, "bob")
    assert causes.cause_of_question().caller is None
    assert not causes.must_reconnect("ann")
    for block in (bob_waits, ann_waits_again, ann_waits):
        block.__exit__(None, None, None)
    assert causes.cause_of_question().client_ids == {"ann", "bob"}
    assert causes.must_reconnect("ann")
    # Some servers answer a cancelled call, and some with the id as text.
    answered(causes, "3")
    assert not causes.must_reconnect("ann")
    assert causes.must_reconnect("bob")
    assert causes.cause_of_question().caller is None
    answered(causes, 1)
    answered(causes, 2)
    assert causes.cause_of_question().client_ids == frozenset()
    assert not causes.must_reconnect("bob")


def test_abandoned_calls_stay_possible_causes_and_take_no_more_memory():
    causes = QuestionCauses()
    for number in range(5_000):
        _, waits = sent(causes, number, "ann")
        waits.__exit__(None, None, None)
    assert len(causes._calls) <= 1_000
    assert causes.cause_of_question().client_ids == {"ann"}
    assert not causes.must_reconnect("ann")
    assert causes.must_reconnect("bob")
    _, bob_waits = sent(causes, 5_000, "bob")
    # The question may be that of an abandoned call, whatever the server still answers.
    for number in range(5_000):
        answered(causes, number)
    assert causes.cause_of_question().client_ids == {"ann", "bob"}
    assert causes.cause_of_question().caller is None
    assert not causes.must_reconnect("bob")
    bob_waits.__exit__(None, None, None)
    assert causes.must_reconnect("bob")


def test_a_refused_call_is_no_possible_cause_any_more():
    causes = QuestionCauses()
    _, ann_waits = sent(causes, 1, "ann")
    _, bob_waits = sent(causes, 2, "bob")
    error = types.ErrorData(code=types.INVALID_PARAMS, message="no such tool")
    causes.record_received(types.JSONRPCError(jsonrpc="2.0", id=1, error=error), None)
    assert causes.cause_of_question().client_ids == {"bob"}
    for block in (bob_waits, ann_waits):
        block.__exit__(None, None, None)
    assert causes.must_reconnect("ann")
    assert not causes.must_reconnect("bob")
