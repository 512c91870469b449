"""What the model has read is append-only, whatever happens to the catalog and the permissions."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shortlist import Engine, Session, State, Tool
from shortlist.gating import Gate, Rule, requires_scope
from shortlist.loaders.providers import PROVIDERS
from shortlist.tests.providers.anthropic_rules import check_messages_request
from shortlist.tests.providers.definition_rules import Rules
from shortlist.tests.providers.openai_rules import check_chat_request, check_responses_request

Json = dict[str, Any]
SERVERS = ("mail", "files", "music")
VERBS = ("list", "read", "create", "delete", "share", "search")
WAYS = [(name, way) for name, provider in PROVIDERS.items() for way in provider.ways]
GATE = Gate([Rule(requires_scope("delete"), tools="*/delete_*")])


def made(server: str, verb: str, version: int) -> Tool:
    """A tool whose arguments name its version, so that each text about it can be recognised."""
    argument = f"{server}{verb}v{version}"
    schema = {"properties": {argument: {"type": "string"}}, "required": [argument]}
    return Tool(f"{verb}_item", server, f"{verb} an item of {server}, edition {version}", schema)


@dataclass
class World:
    """A conversation with everything that may change around it."""

    name: str
    way: str
    pool_tokens: int
    pass_through: float
    versions: dict[tuple[str, str], int] = field(default_factory=dict)
    quarantined: set[str] = field(default_factory=set)
    messages: list[Json] = field(default_factory=list)
    before: Json | None = None
    calls: int = 0

    def __post_init__(self) -> None:
        self.versions = {(server, verb): 1 for server in SERVERS for verb in VERBS}
        self.engine = Engine.from_tools(self.tools(), gate=GATE, tiers=["lexical"])
        self.session: Session = self.engine.session(
            self.name, tools=self.way, pool_tokens=self.pool_tokens, pass_through=self.pass_through
        )

    def tools(self, server: str | None = None) -> list[Tool]:
        return [
            made(owner, verb, version)
            for (owner, verb), version in self.versions.items()
            if server in (None, owner)
        ]

    def change(self, kind: str, server: str, verb: str) -> None:
        if kind == "definition":
            self.versions[server, verb] = self.versions.get((server, verb), 0) + 1
            self.engine.replace_server(server, self.tools(server))
        elif kind == "removal" and len(self.tools(server)) > 1:
            self.versions.pop((server, verb), None)
            self.engine.replace_server(server, self.tools(server))
        elif kind == "scope":
            scopes = set() if self.session.state.scopes else {"delete"}
            self.session.state = State(scopes=scopes)
        elif kind == "allowed":
            limit = None if self.session.allowed else [f"{one}/*" for one in SERVERS[:2]]
            self.session.allowed = limit
        elif kind == "quarantine":
            self.quarantined ^= {f"{server}/{verb}_item"}
            self.engine.quarantine(dict.fromkeys(self.quarantined, "under review"))
        elif kind == "resume":
            saved = json.loads(json.dumps([self.session.save(), self.messages]))
            state = State(scopes=self.session.state.scopes)
            self.session = self.engine.resume(saved[0], state=state)
            self.messages = saved[1]

    def step(self, kind: str, server: str, verb: str) -> None:
        """One step of the loop, and what must hold after it."""
        text = f"{verb} an item of {server}"
        quarantined_before = set(self.quarantined)
        self.calls += 1
        has_search = self.name != "text" and (self.way != "list" or self.pass_through == 0.0)
        if kind == "search" and has_search:
            query = {"query": text}
            call_id = f"call_{self.calls}"
            if self.before is None:
                self.messages += self.session.turn(text).messages
            self.messages += searching(self.session, call_id, query)
            turn = self.session.search(text, call_id)
            self.messages += turn.append
        else:
            turn = self.session.turn(text)
            self.messages += turn.messages
        assert self.quarantined == quarantined_before
        request = self.session.request(self.messages)
        callable_ids = frozenset(
            tool.id
            for tool in self.session.view().catalog
            if self.session.level(tool.id) in ("arguments", "signature", "full")
        )
        self.check(request, callable_ids, head_is_new=turn.shown.head_is_new)
        self.messages.append({"role": "assistant", "content": "Done."})
        self.before = self.session.request(self.messages)

    def check(self, request: Json, callable_ids: frozenset[str], *, head_is_new: bool) -> None:
        available = documented_names(self.name, request)
        text = json.dumps(visible(request))
        ids = call_ids(request)
        assert len(ids) == len(set(ids)), "an id is used twice"
        for tool_id in self.quarantined:
            server, _, name = tool_id.partition("/")
            verb = name.removesuffix("_item")
            assert f"{verb} an item of {server}, edition" not in text
            assert f"{server}{verb}v" not in text
        view = self.session.view()
        for tool_id in callable_ids:
            server, _, name = tool_id.partition("/")
            verb = name.removesuffix("_item")
            assert view.permits(tool_id), f"{tool_id} is denied and counts as callable"
            assert f"{server}{verb}v" in text, f"the arguments of {tool_id} were never shown"
            name = PROVIDERS[self.name].name_of(tool_id)
            is_line = self.session.level(tool_id) == "arguments"  # called with call_tool
            if self.way == "append" and not is_line and f'"name": "{name}"' in text:
                assert name in available, f"{name} is callable, and the provider has removed it"
        if self.before is None or self.way == "list":
            return
        if not head_is_new and not self.touched:
            assert visible_parts(request)[: len(visible_parts(self.before))] == visible_parts(
                self.before
            )
        self.touched = False

    touched: bool = False


def documented_names(provider: str, request: Json) -> set[str]:
    """The names that the model can call. Raises if the provider's documents refuse the request."""
    body = json.loads(json.dumps({"model": "m", "max_tokens": 100, **request}))
    if provider == "anthropic":
        return check_messages_request(body, set(body.pop("betas", ())), Rules())
    if provider == "openai_responses":
        return set(check_responses_request(body, Rules()))
    return check_chat_request(body, Rules())


def searching(session: Session, call_id: str, query: Json) -> list[Json]:
    """A call of the search, as the provider's model would reply it."""
    if session.provider == "anthropic":
        block = {"type": "tool_use", "id": call_id, "name": "search_tools", "input": query}
        return [{"role": "assistant", "content": [block]}]
    if session.provider == "openai":
        function = {"name": "search_tools", "arguments": json.dumps(query)}
        call = {"id": call_id, "type": "function", "function": function}
        return [{"role": "assistant", "content": None, "tool_calls": [call]}]
    if session.way == "search":
        call = {"type": "tool_search_call", "call_id": call_id, "execution": "client"}
        return [{**call, "status": "completed", "arguments": query}]
    call = {"type": "function_call", "call_id": call_id, "name": "search_tools"}
    return [{**call, "arguments": json.dumps(query)}]


def visible(request: Json) -> Json:
    """What the model reads: without deferred tools that nothing refers to."""
    text = json.dumps(request.get("messages", request.get("input")))
    tools = [
        tool
        for tool in request.get("tools", [])
        if not tool.get("defer_loading") or f'"tool_name": "{tool["name"]}"' in text
    ]
    return {**request, "tools": tools}


def visible_parts(request: Json) -> list[str]:
    messages = request.get("messages", request.get("input"))
    resident = [tool for tool in request.get("tools", []) if not tool.get("defer_loading")]
    head = [request.get("system"), request.get("instructions"), resident]
    return [json.dumps(head), *(json.dumps(message) for message in messages)]


def call_ids(request: Json) -> list[str]:
    messages = request.get("messages", request.get("input"))
    ids = []
    for message in messages:
        if message.get("type") in ("function_call", "tool_search_call"):
            ids.append(message["call_id"])
        ids += [call["id"] for call in message.get("tool_calls") or ()]
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            ids += [block["id"]] if block.get("type") == "tool_use" else []
    return ids


CHANGES = ("definition", "removal", "scope", "allowed", "quarantine", "resume", "none", "none")


_LIST = ("turn", "mail", "list")
_TURN, _LIMIT, _HOLD = (("none", *_LIST), ("allowed", *_LIST), ("quarantine", *_LIST))
_HOLD_READ = ("quarantine", "turn", "mail", "read")
#: The head is written again over messages that had removed, added or referred to its tools.
REWRITTEN_HEADS = [
    [_TURN, ("removal", *_LIST), _HOLD],
    [_TURN, ("scope", "turn", "mail", "delete"), _HOLD],
    [_HOLD_READ, _HOLD_READ, _HOLD],
    [_TURN, _LIMIT, ("allowed", "search", "mail", "list"), _HOLD],
    [_TURN, _LIMIT, _HOLD, _LIMIT, _HOLD_READ],
    [_TURN, _LIMIT, ("definition", "turn", "music", "read"), _LIMIT, _HOLD],
]


@pytest.mark.parametrize(("name", "way"), WAYS)
@settings(max_examples=6)
@example(pool_tokens=0, pass_through=0.03, script=REWRITTEN_HEADS[0])
@example(pool_tokens=0, pass_through=0.03, script=REWRITTEN_HEADS[1])
@example(pool_tokens=0, pass_through=0.03, script=REWRITTEN_HEADS[2])
@example(pool_tokens=0, pass_through=0.03, script=REWRITTEN_HEADS[3])
@example(pool_tokens=0, pass_through=0.03, script=REWRITTEN_HEADS[4])
@example(pool_tokens=250, pass_through=0.03, script=REWRITTEN_HEADS[5])
@given(
    pool_tokens=st.sampled_from([0, 250, 3_000]),
    pass_through=st.sampled_from([0.0, 0.03]),
    script=st.lists(
        st.tuples(
            st.sampled_from(CHANGES),
            st.sampled_from(["turn", "search"]),
            st.sampled_from(SERVERS),
            st.sampled_from(VERBS),
        ),
        min_size=2,
        max_size=10,
    ),
)
def test_a_conversation_only_grows(
    name: str,
    way: str,
    pool_tokens: int,
    pass_through: float,
    script: list[tuple[str, str, str, str]],
) -> None:
    world = World(name, way, pool_tokens, pass_through)
    for change, step, server, verb in script:
        world.touched |= change == "quarantine"
        if (name, way) == ("anthropic", "search"):
            # References follow the list where a session was resumed over another catalog.
            world.touched |= change in ("resume", "removal")
        world.change(change, server, verb)
        world.step(step, server, verb)
