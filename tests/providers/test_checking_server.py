"""The server that stands for Anthropic and OpenAI takes good requests and refuses each bad one."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import anthropic
import openai
import pytest

from shortlist.tests.providers.anthropic_rules import (
    CLEAR_AT,
    INLINE_TOOLS,
    OUTPUT_CONFIG,
    TOOL_CHANGES,
)
from shortlist.tests.providers.checking_server import CheckingServer, Conversation, prefix_break
from shortlist.tests.providers.definition_rules import Rules
from shortlist.tests.providers.scripted_replies import Call, Reply, ToolSearch

Json = dict[str, Any]
Change = Callable[[Json], None]

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CLOSED = {**SCHEMA, "additionalProperties": False}
BREAKPOINT = {"type": "ephemeral"}
BETAS = [INLINE_TOOLS, CLEAR_AT]


def tool(name: str, **more: Any) -> Json:
    return {"name": name, "description": "Made for a test.", "input_schema": SCHEMA, **more}


def addition(definition: Json) -> Json:
    return {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition}}


def reference(kind: str, name: str) -> Json:
    return {"type": kind, "tool": {"type": "tool_reference", "name": name}}


def system(*blocks: Json, **more: Any) -> Json:
    return {"role": "system", "content": list(blocks), **more}


def text(words: str, **more: Any) -> Json:
    return {"type": "text", "text": words, **more}


def use(id_: str, name: str) -> Json:
    return {"type": "tool_use", "id": id_, "name": name, "input": {"city": "Oslo"}}


def result(id_: str, content: Any = "done") -> Json:
    return {"type": "tool_result", "tool_use_id": id_, "content": content}


def function(name: str, **more: Any) -> Json:
    head = {"type": "function", "name": name, "parameters": CLOSED, "strict": True}
    return {**head, **more}


def function_call(id_: str, name: str, **more: Any) -> Json:
    return {"type": "function_call", "call_id": id_, "name": name, "arguments": "{}", **more}


def function_output(id_: str) -> Json:
    return {"type": "function_call_output", "call_id": id_, "output": "done"}


def chat_call(id_: str, name: str) -> Json:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": "{}"}}


REMOVAL = reference("tool_removal", "get_date")
MESSAGES: Json = {
    "model": "claude-opus-5-5",
    "max_tokens": 100,
    "system": [text("You help.", cache_control=BREAKPOINT)],
    "tools": [tool("search"), tool("get_time", defer_loading=True)],
    "messages": [
        {"role": "user", "content": [text("What time is it?")]},
        {"role": "assistant", "content": [text("I search."), use("toolu_1", "search")]},
        {
            "role": "user",
            "content": [result("toolu_1", [{"type": "tool_reference", "tool_name": "get_time"}])],
        },
        system(addition(tool("get_date")), text("There is a new tool.")),
        system(text("Be short."), clear_at="next_user_message"),
        {"role": "assistant", "content": [use("toolu_2", "get_time"), use("toolu_3", "get_date")]},
        {"role": "user", "content": [result("toolu_2"), result("toolu_3"), text("And now?")]},
        system(REMOVAL, addition(tool("get_time", strict=False))),
    ],
}
CHAT: Json = {
    "model": "gpt-6",
    "parallel_tool_calls": True,
    "tool_choice": {"type": "function", "function": {"name": "get_time"}},
    "tools": [
        {"type": "function", "function": {"name": "get_time", "parameters": SCHEMA}},
        {
            "type": "function",
            "function": {"name": "get_date", "parameters": CLOSED, "strict": True},
        },
    ],
    "messages": [
        {"role": "system", "content": [text("You help.")]},
        {"role": "user", "content": "What time is it?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [chat_call("call_1", "get_time"), chat_call("call_2", "get_date")],
        },
        {"role": "tool", "tool_call_id": "call_2", "content": "Monday"},
        {"role": "tool", "tool_call_id": "call_1", "content": [text("noon")]},
        {"role": "user", "content": "Thanks."},
    ],
}
RESPONSES: Json = {
    "model": "gpt-6",
    "instructions": "You help.",
    "tools": [
        function("get_time"),
        function("get_late", defer_loading=True),
        {"type": "tool_search", "execution": "client", "description": "S", "parameters": SCHEMA},
        {
            "type": "namespace",
            "name": "crm",
            "description": "Customers.",
            "tools": [{"type": "function", "name": "find", "parameters": SCHEMA, "strict": False}],
        },
    ],
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "What time is it?"}]},
        {
            "type": "tool_search_call",
            "execution": "client",
            "call_id": "call_1",
            "status": "completed",
            "arguments": {"query": "late"},
        },
        {
            "type": "tool_search_output",
            "execution": "client",
            "call_id": "call_1",
            "status": "completed",
            "tools": [function("get_late", defer_loading=True)],
        },
        {"type": "additional_tools", "role": "developer", "tools": [function("get_date")]},
        function_call("call_2", "get_late", namespace="get_late"),
        function_call("call_3", "get_date", namespace="get_date"),
        function_call("call_4", "get_time"),
        function_call("call_5", "find", namespace="crm"),
        *map(function_output, ("call_5", "call_2", "call_3", "call_4")),
        {"role": "user", "content": "And now?"},
    ],
}
GOOD = {
    "/v1/messages": MESSAGES,
    "/v1/chat/completions": CHAT,
    "/v1/responses": RESPONSES,
    "/v1/responses?beta=true": RESPONSES,
}


def status(provider: Conversation, path: str, body: Json, betas: list[str] = BETAS) -> int:
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": ",".join(betas)}
    provider.script("Fine.")
    return provider.respond(path, json.dumps(body).encode(), headers)[0]


def objects(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The places of all objects but schemas and arguments."""
    if isinstance(value, dict):
        if path and path[-1] in ("input_schema", "parameters", "arguments", "input"):
            return
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if isinstance(item, dict | list):
            yield from objects(item, (*path, str(key)))


@pytest.mark.parametrize("path", GOOD)
def test_good_requests_pass(provider: Conversation, path: str) -> None:
    assert status(provider, path, GOOD[path]) == 200, provider.refusals


#: The example of a later step in "Mid-conversation system messages and tool changes".
TURN_SCOPED = [
    {"role": "user", "content": "Fix the failing test."},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "", "signature": "..."},
            use("toolu_01", "search"),
        ],
    },
    {"role": "user", "content": [result("toolu_01")]},
    {"role": "system", "clear_at": "next_user_message", "content": "Read in one turn."},
    {"role": "assistant", "content": [use("toolu_02", "search"), use("toolu_03", "search")]},
    {
        "role": "user",
        "content": [result("toolu_02"), {**result("toolu_03"), "cache_control": BREAKPOINT}],
    },
    {"role": "system", "clear_at": "next_user_message", "content": "Read in one turn."},
    {"role": "system", "clear_at": "next_user_message", "content": "The shell exited."},
]
EFFORT: Json = {"role": "system", "content": [], "output_config": {"effort": "low"}}


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        ("/v1/messages", {"messages": TURN_SCOPED}),
        ("/v1/messages", {"messages": [EFFORT, *TURN_SCOPED[:2], EFFORT, *TURN_SCOPED[2:]]}),
        # The guide "Tool search": the second request of a client's search declares no tools.
        ("/v1/responses", {"tools": [], "input": RESPONSES["input"][1:3]}),
        ("/v1/responses", {"input": "What time is it?"}),
        ("/v1/chat/completions", {"messages": CHAT["messages"][:2]}),
    ],
)
def test_examples_of_the_documents_pass(provider: Conversation, path: str, changes: Json) -> None:
    assert status(provider, path, {**GOOD[path], **changes}, [*BETAS, OUTPUT_CONFIG]) == 200, (
        provider.refusals
    )


@pytest.mark.parametrize("path", GOOD)
def test_an_unknown_key_is_refused_in_every_object(provider: Conversation, path: str) -> None:
    places = list(objects(GOOD[path]))
    assert len(places) >= 20 or path == "/v1/chat/completions"
    for place in places:
        body = deepcopy(GOOD[path])
        put(".".join([*place, "surprise"]), 1)(body)
        assert status(provider, path, body) == 400, place
        assert "surprise: Extra inputs are not permitted" in provider.refusals[-1], place


@pytest.mark.parametrize("path", GOOD)
def test_garbage_is_refused_in_place_of_every_object(provider: Conversation, path: str) -> None:
    places = [place for place in objects(GOOD[path]) if place]
    for place in places:
        for garbage in ({"type": "garbage"}, {}, 3, [None]):
            body = deepcopy(GOOD[path])
            put(".".join(place), garbage)(body)
            assert status(provider, path, body) == 400, (place, garbage)


def at(body: Json, place: str) -> tuple[Any, Any]:
    """The object or list that holds a value, and the key or index of the value in it."""
    part: Any = body
    *path, last = [int(key) if key.isdecimal() else key for key in place.split(".")]
    for key in path:
        part = part[key]
    return part, last


def put(place: str, value: Any) -> Change:
    return lambda body: operator.setitem(*at(body, place), value)


def drop(place: str) -> Change:
    return lambda body: operator.delitem(*at(body, place))


def insert(place: str, value: Any) -> Change:
    def change(body: Json) -> None:
        items, index = at(body, place)
        items.insert(index, value)

    return change


REQUIRED = {
    "/v1/messages": """
        model messages max_tokens tools.0.name tools.0.input_schema system.0.text messages.0.role
        messages.1.content.1.id messages.1.content.1.input messages.2.content.0.tool_use_id
        messages.2.content.0.content.0.tool_name messages.3.content.0.tool
        messages.3.content.0.tool.definition messages.7.content.0.tool.name""",
    "/v1/chat/completions": """
        model messages tools.0.function tools.0.function.name messages.1.content
        messages.2.tool_calls.0.id messages.2.tool_calls.0.function.arguments
        messages.3.tool_call_id""",
    "/v1/responses": """
        tools.0.name tools.0.type tools.0.parameters tools.3.description input.0.content
        input.2.tools input.3.role input.4.call_id input.4.arguments input.8.output""",
}


@pytest.mark.parametrize(
    ("path", "place"), [(path, place) for path in REQUIRED for place in REQUIRED[path].split()]
)
def test_a_missing_key_and_a_wrong_type_are_refused(
    provider: Conversation, path: str, place: str
) -> None:
    for change in (drop(place), put(place, [None])):
        body = deepcopy(GOOD[path])
        change(body)
        assert status(provider, path, body) == 400


def bash_twice(body: Json) -> None:
    body["tools"].append(tool("bash"))
    body["messages"][7]["content"].append(addition({"type": "bash_20250124", "name": "bash"}))


def mark_five_blocks(body: Json) -> None:
    for block in [body["tools"][0], *body["messages"][6]["content"]]:
        block["cache_control"] = BREAKPOINT


def repeat_an_id(body: Json) -> None:
    for item in body["input"][4:6]:
        item["id"] = "fc_1"


def leave_strict_out(body: Json) -> None:
    body["tools"][0] |= {"parameters": SCHEMA, "strict": None}


LATE = {"role": "user", "content": "Wait."}
ANSWER = {"role": "assistant", "content": "It is"}
ITEMS = RESPONSES["input"]
RULES: dict[str, list[tuple[str, Change]]] = {
    "/v1/messages": [
        ("at least one message", put("messages", [])),
        ("first message must use the 'user' role", drop("messages.0")),
        ("'system' must follow", insert("messages.0", system(text("Hello.")))),
        ("'system' must follow", insert("messages.7", ANSWER)),
        ("'system' must precede", insert("messages.8", LATE)),
        ("without `tool_result` blocks", insert("messages.2", system(text("Too early.")))),
        ("without `tool_result` blocks", insert("messages.6", LATE)),
        ("without `tool_result` blocks", drop("messages.6.content.0")),
        ("prefill", insert("messages.8", ANSWER)),
        ("ids must be unique", put("messages.5.content.0.id", "toolu_1")),
        ("must match", put("messages.5.content.0.id", "toolu.2")),
        ("unexpected `tool_use_id`", insert("messages.6.content.0", result("toolu_9"))),
        ("unexpected `tool_use_id`", insert("messages.0.content.0", result("toolu_9"))),
        ("a single result", insert("messages.6.content.0", result("toolu_2"))),
        ("must come first", insert("messages.6.content.0", text("Before."))),
        ("can only be in `assistant`", insert("messages.0.content.0", use("t", "search"))),
        ("can only be in `system`", insert("messages.0.content.0", addition(tool("a")))),
        ("which is not available there", put("messages.1.content.1.name", "get_time")),
        ("which is not available there", put("messages.5.content.0.name", "nothing")),
        ("'get_date', which is not", insert("messages.7.content.1", REMOVAL)),
        ("references unknown tool", put("messages.7.content.0.tool.name", "nothing")),
        ("no corresponding tool", put("messages.2.content.0.content.0.tool_name", "nothing")),
        ("tool of another kind", bash_twice),
        ("text blocks only", put("messages.3.clear_at", "next_user_message")),
        ("cache_control is not", put("messages.4.content.0.cache_control", BREAKPOINT)),
        ("must be non-empty", put("messages.4.content.0.text", " ")),
        ("must have non-empty content", put("messages.4.content", [])),
        ("must have non-empty content", put("messages.0.content", "")),
        ("does not match", put("tools.0.name", "a.b")),
        ("does not match", put("tools.0.name", "a" * 65)),
        ("must be unique", insert("tools.0", tool("search"))),
        ("At least one tool", put("tools.0.defer_loading", True)),
        ("cannot have both", put("tools.1.cache_control", BREAKPOINT)),
        ("type 'object'", put("tools.0.input_schema", {"type": "string"})),
        ("at the top level", put("tools.0.input_schema.anyOf", [{}])),
        ("not a JSON Schema", put("tools.0.input_schema.properties.city", 5)),
        ("'additionalProperties'", put("tools.0.strict", True)),
        ("maximum of 4", mark_five_blocks),
        ("not found in tools", put("tool_choice", {"type": "tool", "name": "nothing"})),
    ],
    "/v1/chat/completions": [
        ("too short", put("tools", [])),
        ("does not match", put("tools.0.function.name", "a b")),
        ("must be unique", put("tools.0.function.name", "get_date")),
        ("type 'object'", put("tools.0.function.parameters", {})),
        ("in 'required'", put("tools.1.function.parameters.required", [])),
        ("at least one message", put("messages", [])),
        ("must be followed by tool messages", drop("messages.3")),
        ("must be followed by tool messages", insert("messages.3", LATE)),
        ("must answer a preceding", insert("messages.5", CHAT["messages"][4])),
        ("must answer a preceding", put("messages.4.tool_call_id", "call_9")),
        ("used twice", insert("messages.5", CHAT["messages"][2])),
        ("not in tools", put("messages.2.tool_calls.0.function.name", "nothing")),
        ("needs content or tool_calls", put("messages.2.tool_calls", [])),
        ("only allowed when", drop("tools")),
        ("not found in 'tools'", put("tool_choice.function.name", "nothing")),
    ],
    "/v1/responses": [
        ("does not match", put("tools.0.name", "a.b")),
        ("declared already", insert("tools.0", function("get_time"))),
        ("declared already", insert("input.4", ITEMS[3])),
        ("declared already", put("input.3.tools.0.name", "get_time")),
        ("type 'object'", put("tools.0.parameters", {})),
        ("type 'object'", drop("tools.2.parameters")),
        ("in every object", put("tools.0.parameters", SCHEMA)),
        ("no 'strict' here means strict", leave_strict_out),
        ("needs a tool of type 'tool_search'", drop("tools.2")),
        ("no object of this kind", put("input.3.role", "user")),
        ("which is not available there", insert("input.0", ITEMS[4])),
        ("which is not available there", drop("input.3")),
        ("which is not available there", put("input.6.namespace", "crm")),
        ("Missing namespace", drop("input.5.namespace")),
        ("used twice", put("input.5.call_id", "call_2")),
        ("No tool call found", insert("input.0", function_output("call_9"))),
        ("No tool call found", insert("input.11", function_output("call_2"))),
        ("No tool call found", put("input.2.call_id", "call_9")),
        ("No tool output found", drop("input.11")),
        ("No tool output found", put("input", ITEMS[:2])),
        ("Duplicate item", repeat_an_id),
        ("'input' or 'previous_response_id'", put("input", [])),
        ("stores no responses", put("previous_response_id", "resp_1")),
        ("not found in 'tools'", put("tool_choice", {"type": "function", "name": "nothing"})),
    ],
}


@pytest.mark.parametrize(
    ("path", "reason", "change"), [(path, *case) for path in RULES for case in RULES[path]]
)
def test_a_broken_rule_is_refused(
    provider: Conversation, path: str, reason: str, change: Change
) -> None:
    body = deepcopy(GOOD[path])
    change(body)
    assert status(provider, path, body) == 400
    assert reason in provider.refusals[-1]


@pytest.mark.parametrize(
    ("betas", "reason"),
    [
        ([CLEAR_AT], f"needs the beta {INLINE_TOOLS}"),
        ([CLEAR_AT, TOOL_CHANGES], f"needs the beta {INLINE_TOOLS}"),
        ([INLINE_TOOLS], "messages.4.clear_at: Extra inputs are not permitted"),
        ([*BETAS, "inline-tools"], "unexpected value 'inline-tools'"),
    ],
)
def test_what_a_request_uses_needs_its_beta(
    provider: Conversation, betas: list[str], reason: str
) -> None:
    assert status(provider, "/v1/messages", MESSAGES, betas) == 400
    assert reason in provider.refusals[-1]


@pytest.mark.parametrize("raw", [b"{", b"[]", b"null", b'{"messages": NaN}'])
def test_what_is_no_object_is_refused(provider: Conversation, raw: bytes) -> None:
    assert [provider.respond(path, raw, {})[0] for path in GOOD] == [400] * 4


def test_flags_turn_unclear_rules(checking_server: CheckingServer) -> None:
    strict = checking_server.conversation(Rules(anthropic_redefinition=False))
    assert status(strict, "/v1/messages", MESSAGES) == 400
    assert "'get_time' is available already" in strict.refusals[-1]
    lenient = checking_server.conversation(
        Rules(
            anthropic_all_deferred=True,
            openai_redefinition=True,
            openai_absent_strict=True,
            unavailable_calls=True,
        )
    )
    body = deepcopy(MESSAGES)
    body["tools"][0]["defer_loading"] = True
    assert status(lenient, "/v1/messages", body) == 200
    body = deepcopy(RESPONSES)
    body["tools"][0] |= {"parameters": SCHEMA, "strict": None}
    body["input"].insert(0, {**RESPONSES["input"][3], "tools": [function("get_time")]})
    body["input"][6].pop("namespace")
    assert status(lenient, "/v1/responses", body) == 200
    assert lenient.refusals == []


def anthropic_client(provider: Conversation) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=provider.url, api_key="x", max_retries=0)


def openai_client(provider: Conversation) -> openai.OpenAI:
    return openai.OpenAI(base_url=provider.openai_url, api_key="x", max_retries=0)


REPLY = Reply("I look it up.", [Call("get_time", {"city": "Oslo"}), Call("search", id="toolu_x")])


@pytest.mark.parametrize("streamed", [False, True])
def test_anthropic_sdk_with_tools_in_the_middle(provider: Conversation, streamed: bool) -> None:
    provider.script(REPLY, Reply(calls=[Call("get_date", {"city": "Bergen"})]), "Monday.")
    body = {key: MESSAGES[key] for key in ("model", "max_tokens", "system", "tools")}
    history: list[Any] = MESSAGES["messages"][:3]

    with anthropic_client(provider) as client:

        def ask() -> Any:
            asked = {**body, "messages": history, "betas": BETAS}
            if not streamed:
                return client.beta.messages.create(**asked)
            with client.beta.messages.stream(**asked) as stream:
                return stream.get_final_message()

        reply = ask()
        assert [block.type for block in reply.content] == ["text", "tool_use", "tool_use"]
        assert reply.content[0].text == "I look it up."
        assert (reply.content[1].name, reply.content[1].input) == ("get_time", {"city": "Oslo"})
        assert (reply.content[2].id, reply.stop_reason) == ("toolu_x", "tool_use")
        history = [
            *history,
            {
                "role": "assistant",
                "content": [text("Look."), *[use(b.id, b.name) for b in reply.content[1:]]],
            },
            {"role": "user", "content": [result(block.id) for block in reply.content[1:]]},
            system(addition(tool("get_date")), reference("tool_removal", "get_time")),
            system(text("Be short."), clear_at="next_user_message"),
        ]
        (call,) = ask().content
        assert (call.name, call.input) == ("get_date", {"city": "Bergen"})
        history = [
            *history,
            {"role": "assistant", "content": [use(call.id, call.name)]},
            {"role": "user", "content": [result(call.id)]},
        ]
        assert ask().content[0].text == "Monday."
        assert (provider.refusals, provider.prefix_breaks()) == ([], [])
        history = history[1:]
        with pytest.raises(anthropic.BadRequestError, match="first message"):
            ask()
    assert len(provider.requests) == 4
    assert provider.requests[0].headers["anthropic-beta"] == ",".join(BETAS)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("beta", [False, True])
def test_openai_sdk_with_additional_tools(
    provider: Conversation, streamed: bool, beta: bool
) -> None:
    provider.script(
        Reply("I search.", [ToolSearch({"query": "late"}, id="call_s")]),
        Reply(calls=[Call("get_late", {"city": "Oslo"}), Call("get_date", {"city": "Oslo"})]),
        "Done.",
    )
    items: list[Any] = [RESPONSES["input"][0]]
    with openai_client(provider) as client:
        api = client.beta.responses if beta else client.responses

        def ask() -> list[Json]:
            asked: Json = {**RESPONSES, "input": items}
            if not streamed:
                output = api.create(**asked).output
            elif beta:
                *_, last = api.create(**asked, stream=True)
                output = last.response.output
            else:
                with client.responses.stream(**asked) as stream:
                    output = stream.get_final_response().output
            dumped = [item.to_dict() for item in output]
            return [{k: v for k, v in i.items() if k != "parsed_arguments"} for i in dumped]

        message, search = ask()
        assert message["content"][0]["text"] == "I search."
        assert (search["call_id"], search["arguments"]) == ("call_s", {"query": "late"})
        message["content"][0].pop("parsed", None)
        found = {**RESPONSES["input"][2], "call_id": "call_s"}
        items = [*items, message, search, found, RESPONSES["input"][3]]
        calls = ask()
        assert [call["namespace"] for call in calls] == ["get_late", "get_date"]
        assert json.loads(calls[1]["arguments"]) == {"city": "Oslo"}
        items = [*items, *calls, *[function_output(call["call_id"]) for call in calls]]
        (last,) = ask()
        assert last["content"][0]["text"] == "Done."
        assert (provider.refusals, provider.prefix_breaks()) == ([], [])
        items = items[1:]
        items[2] = {**items[2], "call_id": "call_other"}
        with pytest.raises(openai.BadRequestError, match="No tool call found"):
            ask()


@pytest.mark.parametrize("streamed", [False, True])
def test_openai_sdk_with_chat_completions(provider: Conversation, streamed: bool) -> None:
    provider.script(Reply("I look.", [Call("get_time", {"city": "Oslo"}), Call("get_date")]))
    with openai_client(provider) as client:
        if streamed:
            with client.chat.completions.stream(**CHAT) as stream:
                message = stream.get_final_completion().choices[0].message
        else:
            message = client.chat.completions.create(**CHAT).choices[0].message
        assert message.content == "I look."
        calls = message.tool_calls
        assert [call.function.name for call in calls] == ["get_time", "get_date"]
        assert json.loads(calls[0].function.arguments) == {"city": "Oslo"}
        with pytest.raises(openai.BadRequestError, match="no reply is left"):
            client.chat.completions.create(**CHAT)


def test_the_model_calls_only_tools_that_it_has(provider: Conversation) -> None:
    provider.script(Reply(calls=[Call("get_date")]), lambda body: Reply(body["model"]))
    with anthropic_client(provider) as client:
        body = {"model": "claude-opus-5-5", "max_tokens": 9, "tools": [tool("get_time")]}
        messages: Any = [{"role": "user", "content": "Hello"}]
        with pytest.raises(anthropic.BadRequestError, match="the model has no tool 'get_date'"):
            client.messages.create(**body, messages=messages)
        assert client.messages.create(**body, messages=messages).content[0].text == body["model"]


@pytest.mark.parametrize(
    ("path", "change", "difference"),
    [
        ("/v1/messages", insert("messages.8", ANSWER), None),
        ("/v1/messages", drop("system.0.cache_control"), None),
        ("/v1/messages", insert("tools.2", tool("later", defer_loading=True)), None),
        ("/v1/messages", insert("tools.0", tool("new")), "tools[0]"),
        ("/v1/messages", insert("tools.2", tool("new")), "tools[1] is new"),
        ("/v1/messages", put("tools.1.description", "Other."), "messages[2]"),
        ("/v1/messages", put("system.0.text", "Other."), "system[0]"),
        ("/v1/messages", drop("messages.4"), "messages[4]"),
        ("/v1/messages", drop("messages.7"), "messages[7] is missing"),
        ("/v1/messages", put("tool_choice", {"type": "none"}), "tool_choice[0] is new"),
        ("/v1/messages", put("model", "claude-fable-5"), "model[0]"),
        ("/v1/chat/completions", drop("tools.1"), "tools[1] is missing"),
        ("/v1/chat/completions", insert("messages.6", LATE), None),
        ("/v1/responses", put("tool_choice", "none"), None),
        ("/v1/responses", put("instructions", "Other."), "instructions[0]"),
        ("/v1/responses", put("input.3.tools.0.description", "Other."), "input[3]"),
        ("/v1/responses", put("tools.0", dict(reversed(function("get_time").items()))), "tools[0]"),
    ],
)
def test_the_first_difference_of_two_requests_is_named(
    provider: Conversation, path: str, change: Change, difference: str | None
) -> None:
    status(provider, path, GOOD[path])
    body = deepcopy(GOOD[path])
    change(body)
    status(provider, path, body)
    broken = prefix_break(*provider.requests)
    assert broken is None if difference is None else (broken or "").startswith(difference), broken
