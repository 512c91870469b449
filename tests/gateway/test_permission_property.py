"""No denied tool is reachable or shown, whatever a client asks and however its profile changes.

What is permitted is computed here a second time, by rules so simple that they can be read.
`SHORTLIST_EXAMPLES=5000` runs more examples.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import Client

from shortlist.codemode import ToolNames
from shortlist.gateway.profiles.gateway_settings import GatewaySettings
from shortlist.gateway.profiles.profile import PROFILE_WITHOUT_TOOLS, Profile, direct_name
from shortlist.gateway.server import Gateway
from shortlist.gateway.socket_server import SocketServer
from shortlist.view import View

from .attached import attached_streams
from .fake_servers import DESTROY, READ, WRITE, FakeServer, fleet_of, tool

EXAMPLES = int(os.environ.get("SHORTLIST_EXAMPLES", "100"))
UI = {"ui": {"resourceUri": "ui://x/y"}}
APP = {"ui": {"resourceUri": "ui://x/y", "visibility": ["app"]}}
#: Server and tool; names collide over servers, and `al__pha__x` means two of them.
NAMES = (
    ("alpha", "read_notes", READ, None),
    ("alpha", "write_notes", WRITE, None),
    ("alpha", "delete_notes", DESTROY, None),
    ("alpha", "search", READ, None),
    ("beta", "search", READ, None),
    ("beta", "delete_notes", DESTROY, None),
    ("beta", "send report", None, None),
    ("beta", "show_board", READ, UI),
    ("beta", "refresh_board", READ, APP),
    ("al", "pha__x", READ, None),
    ("al__pha", "x", WRITE, None),
    ("al__pha", "call_tool", None, None),
    ("vo/ter", "a/b", READ, None),
)


@dataclass(frozen=True)
class Known:
    """A tool of the fake servers; its marks stand in its definition and results only."""

    number: int
    server: str
    name: str
    hints: dict[str, bool] | None
    meta: dict[str, Any] | None

    @property
    def id(self) -> str:
        return f"{self.server}/{self.name}"

    @property
    def mark(self) -> str:
        return f"qmark{chr(97 + self.number)}q"

    @property
    def result(self) -> str:
        return f"zresult{chr(97 + self.number)}z"

    @property
    def names(self) -> tuple[str, ...]:
        return (self.id, f"{self.server}__{self.name}", self.name, direct_name(self.id))


TOOLS = tuple(Known(number, *given) for number, given in enumerate(NAMES))
SERVERS = tuple(dict.fromkeys(one.server for one in TOOLS))
VOTES: dict[str, list[str]] = {}


def answer(server: str, name: str) -> str:
    if name == "_tool_gating":
        rows = [{"tool": one, "action": "exclude"} for one in VOTES.get(server, [])]
        return json.dumps({"votes": rows})
    (one,) = (one for one in TOOLS if (one.server, one.name) == (server, name))
    return f"{one.result} " * 500


def fake(server: str) -> FakeServer:
    listed = [
        tool(
            one.name,
            f"Notes and boards: {one.mark} search read write.",
            hints=one.hints,
            meta=one.meta,
            input_schema={"type": "object", "properties": {f"p{one.mark}": {"type": "string"}}},
        )
        for one in TOOLS
        if one.server == server
    ]
    voting = [tool("_tool_gating")] if server == "alpha" else []
    return FakeServer(server, [*listed, *voting], answer=lambda name, _: answer(server, name))


SERVER_GLOBS = st.sampled_from(["*", "alpha", "al*", "beta", "vo/ter", "none", "al__pha"])
TOOL_GLOBS = st.sampled_from(
    ["*", "*/read_*", "alpha/*", "*/search", "beta/s*", "al__pha/x", "*/delete_notes", "vo/*"]
)
RULES = st.builds(
    lambda tools, needs: {"tools": tools, "needs": needs},
    TOOL_GLOBS,
    st.sampled_from(
        [
            {"scope": "s"},
            {"scope": "t"},
            {"after": "alpha/read_notes"},
            {"after": "*/search"},
            {"not": {"after": "beta/search"}},
        ]
    ),
)
PROFILES = st.fixed_dictionaries(
    {
        "servers": st.lists(SERVER_GLOBS, min_size=1, max_size=2),
        "tools": st.lists(TOOL_GLOBS, min_size=1, max_size=3),
        "scopes": st.lists(st.sampled_from(["s", "t"]), max_size=2),
        "rules": st.lists(RULES, max_size=2),
        "votes": st.booleans(),
    }
)
SHOWING = st.fixed_dictionaries(
    {
        "pinned": st.lists(st.sampled_from(["alpha/*", "beta/search", "*/x"]), max_size=2),
        "split_call_tool": st.sampled_from([None, False, True]),
        "pass_through": st.sampled_from([0.0, 0.0, 0.9]),
        "result_tokens": st.just(100),
        "code": st.booleans(),
    }
)
ONE = st.sampled_from(TOOLS)
CALLS = st.sampled_from(["call_tool", "call_tool", "read_tool", ""])


@st.composite
def names(draw: st.DrawFn) -> str:
    """A name as a client may write it: right in one of its forms, or nearly right."""
    name = draw(st.sampled_from(draw(ONE).names))
    if draw(st.integers(0, 4)) == 0:
        at = draw(st.integers(0, len(name) - 1))
        name = name[:at] + draw(st.sampled_from(["", "x", "/", "__"])) + name[at + 1 :]
    return name or "x"


QUERIES = st.one_of(
    st.sampled_from(["search notes", "read write boards", "delete notes", "send the report", "x"]),
    st.builds(lambda one: one.mark, ONE),
    names(),
)
STEPS = st.one_of(
    st.tuples(
        st.just("search"), QUERIES, st.sampled_from(["name", "summary", "signature", "full"])
    ),
    st.tuples(st.just("search in"), QUERIES, st.sampled_from([*SERVERS, "none"])),
    st.tuples(st.just("details"), st.lists(names(), min_size=1, max_size=3)),
    st.tuples(st.just("call"), names(), CALLS),
    st.tuples(st.just("call"), st.builds(lambda one: one.id, ONE), st.just("call_tool")),
    st.tuples(st.just("script"), st.lists(ONE, min_size=1, max_size=5)),
    st.tuples(st.just("list")),
    st.tuples(st.just("servers")),
    st.tuples(st.just("read"), st.integers(0, 5)),
    st.tuples(st.just("profile"), PROFILES, SHOWING),
    st.tuples(st.just("hold"), st.lists(ONE, max_size=2)),
    st.tuples(st.just("story"), ONE, PROFILES, SHOWING),
    st.tuples(st.just("vote"), st.lists(st.sampled_from(["search", "read_notes"]), max_size=2)),
)


@dataclass
class World:
    """What the client may do, kept beside the gateway by simple rules."""

    given: dict[str, Any]
    called: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    excluded: set[str] = field(default_factory=set)

    def allows(self, one: Known, *, app: bool = False) -> bool:
        """What no call and no vote changes."""
        return (
            any(fnmatchcase(one.server, glob) for glob in self.given["servers"])
            and any(fnmatchcase(one.id, glob) for glob in self.given["tools"])
            and one.id not in self.held
            and (app or one.meta is not APP)
        )

    def permits(self, one: Known, *, app: bool = False) -> bool:
        return (
            self.allows(one, app=app)
            and one.id not in self.excluded
            and all(
                self.holds(rule["needs"])
                for rule in self.given["rules"]
                if fnmatchcase(one.id, rule["tools"])
            )
        )

    def needs_scope(self, one: Known) -> bool:
        return any(
            not self.holds(rule["needs"])
            for rule in self.given["rules"]
            if fnmatchcase(one.id, rule["tools"]) and "scope" in rule["needs"]
        )

    def holds(self, needs: dict[str, Any]) -> bool:
        match needs:
            case {"scope": scope}:
                return scope in self.given["scopes"]
            case {"after": glob}:
                return any(fnmatchcase(one, glob) for one in self.called)
            case {"not": {"after": glob}}:
                return not any(fnmatchcase(one, glob) for one in self.called)
        raise AssertionError(needs)


def profile_of(given: dict[str, Any], showing: dict[str, Any]) -> Profile:
    made = GatewaySettings.make({"profiles": {"one": given}, **showing})
    return Profile.of(made, "one", made.profile("one"))


class CheckedClient:
    """A client of a gateway, which checks every answer."""

    def __init__(
        self,
        client: Client,
        gateway: Gateway,
        servers: dict[str, FakeServer],
        given,
        profiles: dict[str, Profile] | None = None,
        name: str = "",
    ):
        self.client, self.gateway, self.servers = client, gateway, servers
        #: The profiles of all attached clients, and this client's name in them.
        self.profiles, self.name = profiles, name
        self.world = World(given[0])
        self.profile = profile_of(*given)
        self.stored: list[tuple[str, Known, Profile]] = []

    async def step(self, step: tuple[Any, ...]) -> None:
        for server in self.servers.values():
            server.calls.clear()
        match step:
            case ("search", query, detail):
                await self.search({"query": query, "detail": detail, "k": 20})
            case ("search in", query, server):
                await self.search({"query": query, "server": server})
            case ("details", asked):
                answer = await self.asks("get_tool_details", {"names": asked})
                for name, row in zip(asked, answer.structured_content["tools"], strict=True):
                    for one in TOOLS:
                        if one.id == name:
                            assert self.world.permits(one) == ("error" not in row), (name, row)
            case ("call", name, through):
                await self.call(name, through)
            case ("script", tools):
                await self.script(tools)
            case ("list",):
                listed = await self.client.list_tools(cache_mode="refresh")
                self.check(json.dumps([one.model_dump(mode="json") for one in listed.tools]), "")
            case ("servers",):
                answer = await self.asks("list_servers", {})
                told = {one["name"] for one in answer.structured_content["servers"]}
                assert told == self.servers_permitted()
            case ("read", at) if self.stored:
                await self.read(*self.stored[at % len(self.stored)])
            case ("profile", *given):
                self.change(*given)
            case ("story", one, *given):
                await self.story(one, *given)
            case ("hold", tools):
                self.world.held = {one.id for one in tools}
                self.gateway.fleet.engine.quarantine(dict.fromkeys(self.world.held, "by a test"))
            case ("vote", excluded):
                VOTES["alpha"] = excluded

    def change(self, given: dict[str, Any], showing: dict[str, Any]) -> None:
        self.world.given, self.profile = given, profile_of(given, showing)
        if self.profiles is None:
            self.gateway.sessions.replace_profiles(self.profile, {})
        else:
            self.profiles[self.name] = self.profile
            self.gateway.sessions.replace_profiles(PROFILE_WITHOUT_TOOLS, self.profiles)

    def view(self) -> View:
        """What the gateway permits this client."""
        sessions = self.gateway.sessions
        if self.profiles is None:
            return sessions.session_of(None).view()
        (session,) = (one for one in sessions.all() if one.profile is self.profile)
        return session.view()

    def servers_permitted(self) -> set[str]:
        return {one.server for one in TOOLS if self.world.permits(one)}

    async def story(self, one: Known, *given: dict[str, Any]) -> None:
        """A call, another profile, and everything that the call left behind."""
        before = self.profile
        await self.call(one.names[3], "")
        self.change(*given)
        if self.stored:
            await self.read(*self.stored[-1])
        listed = (await self.client.list_tools(cache_mode="refresh")).tools
        if listed and listed[0].name == "search_tools" and self.profile != before:
            known = re.findall(r"^Servers: (.+)$", listed[0].description, re.MULTILINE)
            assert {name for line in known for name in line.split(", ")} == self.servers_permitted()
        await self.step(("list",))
        for name in one.names:
            await self.step(("call", name, "call_tool"))
            await self.step(("call", name, ""))

    async def search(self, arguments: dict[str, Any]) -> None:
        given = self.world.given
        asked = given["votes"] and any(fnmatchcase("alpha", glob) for glob in given["servers"])
        self.world.excluded = {f"alpha/{one}" for one in VOTES.get("alpha", [])} if asked else set()
        answer = await self.asks("search_tools", arguments)
        if not answer.is_error:
            assert set(answer.structured_content) - {"parts"} == {"tools", "notes"}

    async def call(self, name: str, through: str) -> None:
        before = replace(self.world, called=set(self.world.called))
        if through:
            answer = await self.asks(through, {"name": name, "arguments": {}}, name)
        else:
            answer = await self.asks(name, {}, name)
        calls = [
            next(one for one in TOOLS if (one.server, one.name) == (server.name, called))
            for server in self.servers.values()
            for called, _ in server.calls
            if called != "_tool_gating"
        ]
        assert len(calls) <= 1
        for one in calls:
            assert before.permits(one, app=not through), (name, through)
            if one.meta is not APP:
                self.world.called.add(one.id)
            text = "".join(part.text for part in answer.content)
            if "read_result" in text:
                stored = text.split('{"id": "')[1].split('"')[0]
                self.stored.append((stored, one, self.profile))
        if not calls and not through and name not in ("call_tool",):
            assert answer.is_error or name in ("search_tools",)
        for one in TOOLS:
            if one.id == name and not through and before.permits(one, app=True):
                assert calls == [one], (name, answer)

    async def script(self, tools: list[Known]) -> None:
        """One script that tries the tools in order, by names that no check of types sees.

        Nobody can be asked here, and so nothing that destroys is called.
        """
        view = self.view()
        visible = [tool for tool in view.catalog if view.exists(tool.id)]
        visible_names = ToolNames(visible)
        names = {tool.id: visible_names.function_of(tool.id) for tool in visible}
        all_names = ToolNames(view.catalog)
        # A hidden tool has no name. Another tool may have the name that it would have.
        tools = [
            one
            for one in tools
            if one.id in names or all_names.function_of(one.id) not in names.values()
        ]
        lines = "try:\n    await eval('{}.{}()')\nexcept Exception as error:\n    print(error)\n"
        code = "".join(
            lines.format(*names.get(one.id, all_names.function_of(one.id))) for one in tools
        )
        expected: dict[str, list[str]] = {name: [] for name in self.servers}
        for one in tools:
            if self.profile.has_run_code and one.hints is not DESTROY and self.world.permits(one):
                expected[one.server].append(one.name)
                self.world.called.add(one.id)
        await self.asks("run_code", {"code": code}, " ".join(one.id for one in tools))
        assert expected == {s.name: [n for n, _ in s.calls] for s in self.servers.values()}

    async def read(self, name: str, one: Known, profile: Profile) -> None:
        answer = await self.asks("read_result", {"id": name, "range": [0, 100]}, one.result)
        world = self.world
        same = (
            profile == self.profile and world.allows(one, app=True) and not world.needs_scope(one)
        )
        if not answer.is_error:
            assert world.permits(one, app=True) or same
        else:
            assert not world.permits(one, app=True)
            assert one.result not in answer.model_dump_json()

    async def asks(self, name: str, arguments: dict[str, Any], said: str = "") -> Any:
        answer = await self.client.call_tool(name, arguments)
        self.check(answer.model_dump_json(by_alias=True), json.dumps([arguments, said]))
        return answer

    def check(self, answer: str, asked: str) -> None:
        """No mark, id or name of a denied tool is in an answer, unless the client wrote it."""
        ids = [one.id for one in TOOLS if self.world.permits(one) or one.id in asked]
        for one in TOOLS:
            if self.world.permits(one):
                continue
            told = [one.mark, *one.names[:2], one.names[3]]
            for text in told:
                escaped = json.dumps(text)[1:-1]
                if text in asked or escaped in asked or any(text in other for other in ids):
                    continue
                assert text not in answer, (one.id, text, answer[:2_000])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BlockingPortal, Any, Any]]:
    servers = {name: fake(name) for name in SERVERS}
    folder = tmp_path_factory.mktemp("fleet")
    with start_blocking_portal() as portal:
        manager = fleet_of(folder, *servers.values())
        with portal.wrap_async_context_manager(manager) as fleet:
            yield portal, fleet, servers


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(first=st.tuples(PROFILES, SHOWING), steps=st.lists(STEPS, min_size=1, max_size=14))
def test_no_denied_tool_is_reachable_or_shown(world, first, steps) -> None:
    portal, fleet, servers = world

    async def example() -> None:
        VOTES.clear()
        fleet.engine.quarantine({})
        gateway = Gateway(fleet, profile_of(*first))
        async with Client(gateway.server) as client:
            checked = CheckedClient(client, gateway, servers, first)
            for step in steps:
                await checked.step(step)
        await gateway.aclose()

    portal.call(example)


@settings(
    max_examples=max(EXAMPLES // 4, 1),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    first=st.lists(st.tuples(PROFILES, SHOWING), min_size=2, max_size=2),
    steps=st.lists(st.tuples(st.booleans(), STEPS), min_size=1, max_size=14),
)
def test_no_denied_tool_is_reachable_or_shown_by_attached_clients(world, first, steps) -> None:
    """Two clients at once, each with its own profile and its own calls."""
    portal, fleet, servers = world

    async def example() -> None:
        VOTES.clear()
        fleet.engine.quarantine({})
        names = ("left", "right")
        profiles = {name: profile_of(*given) for name, given in zip(names, first, strict=True)}
        gateway = Gateway(fleet, PROFILE_WITHOUT_TOOLS, profiles)
        server = SocketServer(gateway, lambda name: name)
        async with (
            Client(attached_streams(server, "left")) as left,
            Client(attached_streams(server, "right")) as right,
        ):
            clients = [
                CheckedClient(client, gateway, servers, given, profiles, name)
                for client, given, name in zip((left, right), first, names, strict=True)
            ]
            for client in clients:
                client.profile = profiles[client.name]
                # The first request makes the session.
                await client.step(("list",))
            for is_right, step in steps:
                if step[0] == "hold":
                    # A quarantine counts for all clients.
                    for client in clients:
                        client.world.held = {one.id for one in step[1]}
                await clients[is_right].step(step)
        await gateway.aclose()

    portal.call(example)
