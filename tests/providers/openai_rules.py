"""Rules across the parts of a request to OpenAI's chat completions and Responses APIs.

Sources, by letter:
A: developers.openai.com, guide "Tool search".
B: developers.openai.com, guide "Function calling".
C: openai/types/responses/response_input_item_param.py and function_tool_param.py.
D: pydantic_ai/models/openai/_tool_search.py and _responses_model.py, measured with the service.
E: messages of the service's 400 answers, as the users of its SDKs quote them.
"""

from __future__ import annotations

from typing import Any

from .definition_rules import (
    Json,
    Refusal,
    Rules,
    check_name,
    check_object_schema,
    check_strict_schema,
)

#: The type of a call, and of the item that answers it.
_OUTPUTS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "tool_search_call": "tool_search_output",
}
#: Namespace and name. The default namespace is None.
ToolKey = tuple[str | None, str]


def check_chat_request(request: Json, rules: Rules) -> set[str]:
    """The names of the tools that the model can call.

    Raises:
        Refusal: A rule that the request breaks.
    """
    names = _check_chat_tools(request)
    messages = request["messages"]
    if not messages:
        raise Refusal("messages: empty array; expected at least one message")  # E
    call_ids: set[str] = set()
    open_calls: list[str] = []
    for index, message in enumerate(messages):
        place = f"messages.[{index}]"
        if message["role"] == "tool":
            if (call_id := message["tool_call_id"]) not in open_calls:  # E
                text = "messages with role 'tool' must answer a preceding message with 'tool_calls'"
                raise Refusal(f"{place}: {text}: {call_id}")
            open_calls.remove(call_id)
            continue
        if open_calls:
            break
        calls = message.get("tool_calls")
        if message["role"] != "assistant":
            continue
        if calls == [] or not (calls or message.get("content") or message.get("refusal")):
            raise Refusal(f"{place}: an assistant message needs content or tool_calls")  # E
        for call in calls or ():
            if call["id"] in call_ids:
                raise Refusal(f"{place}: the id {call['id']} of a tool call is used twice")
            name = call[call["type"]]["name"]
            if name not in names and not rules.unavailable_calls:
                raise Refusal(f"{place}: a call of {name!r}, which is not in tools")
            call_ids.add(call["id"])
            open_calls.append(call["id"])
    if open_calls:  # E
        text = "An assistant message with 'tool_calls' must be followed by tool messages"
        raise Refusal(f"{text} responding to each 'tool_call_id': {', '.join(open_calls)}")
    return names


def _check_chat_tools(request: Json) -> set[str]:
    tools = request.get("tools")
    names: list[str] = []
    if tools == []:
        raise Refusal("[] is too short - 'tools'")  # E
    for index, tool in enumerate(tools or ()):
        definition = tool[tool["type"]]
        place = f"tools[{index}].{tool['type']}"
        names.append(definition["name"])
        check_name(definition["name"], place)
        if "parameters" in definition:
            check_object_schema(definition["parameters"], f"{place}.parameters")
            # B: not strict where `strict` is absent.
            if definition.get("strict"):
                check_strict_schema(
                    definition["parameters"], f"{place}.parameters", all_required=True
                )
    if twice := {name for name in names if names.count(name) > 1}:
        raise Refusal(f"tools: tool names must be unique: {min(twice)!r}")
    for key in ("tool_choice", "parallel_tool_calls"):
        if key in request and not tools:
            raise Refusal(f"'{key}' is only allowed when 'tools' are specified")  # E
    _check_choice(request.get("tool_choice"), set(names))
    return set(names)


def _check_choice(choice: Any, names: set[str]) -> None:
    """A named tool, or the tools of `allowed_tools`, must be there."""
    if not isinstance(choice, dict):
        return
    allowed = choice.get("allowed_tools", choice).get("tools", [choice])
    for tool in allowed:
        name = tool.get("function", tool).get("name")
        if name is not None and name not in names:
            raise Refusal(f"Tool choice {name!r} not found in 'tools' parameter.")  # E, D


def check_responses_request(request: Json, rules: Rules) -> dict[str, str | None]:
    """The namespace of each tool that the model can call, by name.

    Raises:
        Refusal: A rule that the request breaks.
    """
    return _ResponsesRequest(request, rules).check()


class _ResponsesRequest:
    def __init__(self, request: Json, rules: Rules) -> None:
        self.request = request
        self.rules = rules
        self.callable: set[ToolKey] = set()
        """Tools that the model has, under the key that a call of them carries."""
        self.deferred: set[ToolKey] = set()
        """Tools of the list that a search has not loaded."""
        self.open_calls: dict[str, str] = {}
        """The type of the item that must answer each call, by `call_id`."""
        self.item_ids: set[str] = set()
        self.call_ids: set[str] = set()

    def check(self) -> dict[str, str | None]:
        tools = self.request.get("tools", [])
        if self.request.get("previous_response_id") or self.request.get("conversation"):
            raise Refusal("previous_response_id: this server stores no responses; send the input")
        self._declare(tools, "tools", loaded=False)
        self._check_tool_search(tools)
        items = self.request.get("input")
        if not items:
            raise Refusal("input: one of 'input' or 'previous_response_id' is required")  # E
        for index, item in enumerate(items if isinstance(items, list) else ()):
            self._check_item(item, f"input[{index}]")
        if self.open_calls:  # E
            call_id, output = next(iter(self.open_calls.items()))
            raise Refusal(f"No tool output found for call {call_id}: it needs a {output}")
        _check_choice(self.request.get("tool_choice"), {name for _, name in self.callable})
        return {name: namespace for namespace, name in self.callable}

    def _check_tool_search(self, tools: list[Json]) -> None:
        searches = [tool for tool in tools if tool["type"] == "tool_search"]
        if self.deferred and not searches:  # A: both are needed
            raise Refusal("tools: defer_loading needs a tool of type 'tool_search'")
        for tool in searches:
            if tool.get("execution") == "client":  # A: "and a schema for the search arguments"
                check_object_schema(tool.get("parameters"), "tools: tool_search.parameters")

    def _declare(self, tools: list[Json], place: str, *, loaded: bool) -> None:
        """The tools of a list, of a search, or added in the middle.

        D and A: a call of a tool that is not a plain entry of `tools` carries a namespace, the
        tool's own name where it has no other.
        """
        for index, tool in enumerate(tools):
            where = f"{place}[{index}]"
            if tool["type"] == "namespace":
                check_name(tool["name"], where)
                for number, function in enumerate(tool["tools"]):
                    self._declare_one(function, tool["name"], f"{where}.tools[{number}]", loaded)
            elif tool["type"] in ("function", "custom"):
                deferred = loaded or tool.get("defer_loading")
                namespace = tool["name"] if deferred else None
                self._declare_one(tool, namespace, where, loaded)

    def _declare_one(self, tool: Json, namespace: str | None, place: str, loaded: bool) -> None:
        name = tool["name"]
        check_name(name, place)
        if tool["type"] == "function":
            self._check_parameters(tool, place)
        key = (namespace, name)
        # Tools without a namespace of their own share their names with the list's plain entries.
        same = {key, (None, name)} if namespace == name else {key}
        declared = self.callable if loaded else self.callable | self.deferred
        if same & declared and not self.rules.openai_redefinition:
            raise Refusal(f"{place}: the tool {name!r} is declared already")
        if tool.get("defer_loading") and not loaded:
            self.deferred.add(key)
        else:
            self.deferred.discard(key)
            self.callable.add(key)

    def _check_parameters(self, tool: Json, place: str) -> None:
        if (schema := tool.get("parameters")) is None:
            return
        check_object_schema(schema, f"{place}.parameters")
        absent = tool.get("strict") is None
        if tool.get("strict") or (absent and not self.rules.openai_absent_strict):
            try:
                check_strict_schema(schema, f"{place}.parameters", all_required=True)
            except Refusal as error:  # B, C: the default of Responses is strict
                hint = " (no 'strict' here means strict; send false for this schema)"
                raise Refusal(f"{error}{hint if absent else ''}") from None

    def _check_item(self, item: Json, place: str) -> None:
        kind = item.get("type", "message")
        if (item_id := item.get("id")) is not None:
            if item_id in self.item_ids:
                raise Refusal(f"{place}: Duplicate item found with id {item_id}.")  # E
            self.item_ids.add(item_id)
        if kind in _OUTPUTS.values():
            self._close_call(item, kind, place)
        if kind in ("additional_tools", "tool_search_output"):  # A: available from there on
            self._declare(item["tools"], f"{place}.tools", loaded=True)
        elif kind in _OUTPUTS:
            self._open_call(item, kind, place)

    def _open_call(self, item: Json, kind: str, place: str) -> None:
        call_id = item.get("call_id")
        if kind == "tool_search_call":
            if item.get("execution") != "client":
                return  # A: the service answers its own searches; the call id is null.
            if not call_id:
                raise Refusal(f"{place}: a tool_search_call of the client needs a call_id")
        else:
            self._check_call_name(item, place)
        if call_id in self.call_ids:
            raise Refusal(f"{place}: the call_id {call_id} is used twice")
        self.call_ids.add(call_id)
        self.open_calls[call_id] = _OUTPUTS[kind]

    def _check_call_name(self, item: Json, place: str) -> None:
        name, namespace = item["name"], item.get("namespace")
        if (namespace, name) in self.callable or self.rules.unavailable_calls:
            return
        if namespace is None and any(name == other for _, other in self.callable):  # E
            text = f"Missing namespace for function_call {name!r}. It does not exist in the default"
            raise Refusal(f"{place}: {text} namespace. Send the item with its namespace field.")
        raise Refusal(f"{place}: a call of {(namespace, name)}, which is not available there")

    def _close_call(self, item: Json, kind: str, place: str) -> None:
        if kind == "tool_search_output" and item.get("execution") != "client":
            return
        if self.open_calls.get(call_id := item.get("call_id")) != kind:  # E
            raise Refusal(f"{place}: No tool call found for {kind} with call_id {call_id}.")
        del self.open_calls[call_id]
