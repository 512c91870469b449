"""A request is checked again directly before it is sent, after every wait.

Each test changes a definition or a permission while a call waits. `test_black_box.py` does the same
with processes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp.types as types
import pytest
from mcp import Client, MCPError
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

from shortlist.gateway.profiles.gateway_settings import ProfileSettings
from shortlist.gateway.profiles.profile import Profile
from shortlist.gateway.upstream.first_use import FirstUsePins

from .fake_servers import DESTROY, READ, FakeServer, gateway_of, relisted, text_of, tool

pytestmark = pytest.mark.anyio
OLD = tool("send_note", "Send a note to the team.", hints=READ)
NEW = tool("send_note", "Send a note to everybody.", hints=READ)
APP = {"ui": {"visibility": ["app"]}}
CALL = {"name": "notes/send_note", "arguments": {"text": "hello"}}
FORM = types.ElicitRequestFormParams(
    message="Sure?", requested_schema={"type": "object", "properties": {}}
)


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def after_a_restart(tmp_path, server, tools, request, *, mode="auto", **settings) -> Any:
    """The result of a request to a gateway whose server has other tools since the last run."""
    async with gateway_of(tmp_path, server, **settings) as (_, gateway):
        await gateway.fleet.upstreams[server.name].connect()
    server.tools = tools
    async with gateway_of(tmp_path, server, **settings) as (_, gateway):
        assert gateway.fleet.upstreams[server.name].state.value == "known"
        async with Client(gateway.server, mode=mode) as client:
            return await request(client)


async def test_a_definition_that_changed_with_the_start_is_shown_before_it_is_called(tmp_path):
    """Without pins, every definition is permitted, but the model must see it first."""
    server = FakeServer("notes", [OLD])
    answers = []

    async def call_until_it_runs(client: Client) -> None:
        for _ in range(2):
            result = await client.call_tool("call_tool", CALL)
            answers.append(result if result.is_error else text_of(result))

    await after_a_restart(tmp_path, server, [NEW], call_until_it_runs)
    refused, answer = answers
    assert '"status": "promoted"' in text_of(refused)
    assert "Send a note to everybody." in text_of(refused)
    assert answer == "send_note ran"
    assert len(server.calls) == 1


async def test_a_removed_tool_is_not_called(tmp_path):
    server = FakeServer("notes", [OLD])
    result = await after_a_restart(
        tmp_path, server, [], lambda client: client.call_tool("call_tool", CALL)
    )
    assert '"status": "unknown"' in text_of(result)
    assert server.calls == []


async def test_a_changed_tool_for_user_interfaces_is_not_called(tmp_path):
    server = FakeServer("notes", [tool("send_note", "Send a note.", meta=APP)])
    changed = tool("send_note", "Send all notes.", meta=APP)
    result = await after_a_restart(
        tmp_path,
        server,
        [changed],
        lambda client: client.call_tool("notes__send_note", {"text": "hello"}),
        pins=FirstUsePins(tmp_path / "pins.json"),
    )
    assert result.is_error
    assert server.calls == []


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_call_is_not_repeated_with_the_answer_if_the_definition_changed(tmp_path, mode):
    class Asking(FakeServer):
        async def _call(self, context, params):
            await super()._call(context, params)
            if params.input_responses:
                return types.CallToolResult(content=[types.TextContent(type="text", text="sent")])
            question = types.ElicitRequest(params=FORM)
            return types.InputRequiredResult(input_requests={"mine": question})

    server, questions = Asking("notes", [OLD]), []

    async def change_and_accept(_context, params):
        questions.append(params.message)
        await relisted(gateway, server, NEW)
        return types.ElicitResult(action="accept", content={})

    pins = FirstUsePins(tmp_path / "pins.json")
    async with gateway_of(tmp_path, server, pins=pins) as (_, gateway):
        options = {"mode": mode, "elicitation_callback": change_and_accept}
        async with Client(gateway.server, **options) as client:
            result = await client.call_tool("call_tool", CALL)
    assert questions == ["[notes] Sure?"]
    assert "its definition changed since it was accepted" in text_of(result)
    assert len(server.calls) == 1


async def test_a_profile_that_changed_during_the_start_decides(tmp_path):
    class SlowList(FakeServer):
        async def _list(self, context, params):
            listing.set()
            await started.wait()
            return await super()._list(context, params)

    async with gateway_of(tmp_path, FakeServer("notes", [OLD])) as (_, gateway):
        await gateway.fleet.upstreams["notes"].connect()
    listing, started = anyio.Event(), anyio.Event()
    slow_server, results = SlowList("notes", [OLD]), []
    async with gateway_of(tmp_path, slow_server) as (client, gateway):

        async def call() -> None:
            results.append(await client.call_tool("call_tool", CALL))

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await listing.wait()
            gateway.sessions.replace_profiles(Profile(servers=("other",), pass_through=0.0), {})
            started.set()
    assert results[0].is_error
    assert slow_server.calls == []


class Library(FakeServer):
    """A server with a resource and a prompt besides its tool."""

    def __init__(self) -> None:
        super().__init__("notes", [OLD])
        self.prompts = [types.Prompt(name="review", description="Review a note.")]
        self.reached: list[str] = []
        self.server = Server(
            "notes",
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_list_resources=self._list_resources,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )
        self.server.add_request_handler(
            "subscriptions/listen", types.SubscriptionsListenRequestParams, self._listen
        )
        self._streams = ListenHandler(InMemorySubscriptionBus())
        self.server.add_request_handler(
            "completion/complete", types.CompleteRequestParams, self._complete
        )

    async def _list_resources(self, context, params):
        resource = types.Resource(uri="memo://note", name="note")
        return types.ListResourcesResult(resources=[resource])

    async def _read_resource(self, context, params):
        self.reached.append(params.uri)
        contents = [types.TextResourceContents(uri=params.uri, text="the note")]
        return types.ReadResourceResult(contents=contents)

    async def _listen(self, context, params):
        # The gateway itself listens for changes of the lists.
        self.reached += params.notifications.resource_subscriptions or ()
        return await self._streams(context, params)

    async def _list_prompts(self, context, params):
        return types.ListPromptsResult(prompts=self.prompts)

    async def _get_prompt(self, context, params):
        self.reached.append(params.name)
        return types.GetPromptResult(messages=[])

    async def _complete(self, context, params):
        self.reached.append(params.ref.name)
        return types.CompleteResult(completion=types.Completion(values=[]))


def subscribe(client: Client) -> Awaitable[Any]:
    params = types.SubscribeRequestParams(uri="shortlist://notes/memo://note")
    return client.session.send_request(types.SubscribeRequest(params=params), types.EmptyResult)


REFERENCE = types.PromptReference(name="notes__review")
OFFERS: dict[str, Callable[[Client], Awaitable[Any]]] = {
    "subscription": subscribe,
    "resource": lambda client: client.read_resource("shortlist://notes/memo://note"),
    "prompt": lambda client: client.get_prompt("notes__review"),
    "completion": lambda client: client.complete(REFERENCE, {"name": "subject", "value": ""}),
}
KINDS = pytest.mark.parametrize("kind", list(OFFERS))


@KINDS
async def test_the_rest_of_a_server_is_not_reached_if_its_last_tool_was_quarantined(tmp_path, kind):
    server, pins = Library(), FirstUsePins(tmp_path / "pins.json")

    async def request(client: Client) -> None:
        with pytest.raises(MCPError, match=r"no (resource|prompt)"):
            await OFFERS[kind](client)

    await after_a_restart(tmp_path, server, [NEW], request, mode="legacy", pins=pins)
    assert server.reached == []


@KINDS
async def test_the_rest_of_an_unchanged_server_is_reached_after_a_restart(tmp_path, kind):
    server, pins = Library(), FirstUsePins(tmp_path / "pins.json")
    await after_a_restart(tmp_path, server, [OLD], OFFERS[kind], mode="legacy", pins=pins)
    assert len(server.reached) == 1


@pytest.mark.parametrize("kind", ["prompt", "completion"])
async def test_a_prompt_that_changed_with_the_start_gets_no_arguments(tmp_path, kind):
    server = Library()

    async def request(client: Client) -> None:
        server.prompts = [types.Prompt(name="review", description="Send all notes.")]
        with pytest.raises(MCPError, match="has changed"):
            await OFFERS[kind](client)
        assert server.reached == []
        await OFFERS[kind](client)

    await after_a_restart(tmp_path, server, [OLD], request)
    assert len(server.reached) == 1


async def test_a_rule_on_annotations_holds_for_the_definition_that_is_called(tmp_path):
    rule = {"annotations": {"destructiveHint": True}, "needs": {"scope": "admin"}}
    profile = Profile(pass_through=0.0, rules=ProfileSettings(rules=[rule]).gate())
    server = FakeServer("notes", [OLD])
    destroys = tool("send_note", "Send a note to the team.", hints=DESTROY)
    result = await after_a_restart(
        tmp_path,
        server,
        [destroys],
        lambda client: client.call_tool("call_tool", CALL),
        profile=profile,
    )
    assert '"status": "denied"' in text_of(result)
    assert server.calls == []
