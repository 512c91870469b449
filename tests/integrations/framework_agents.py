"""An agent of each framework with the same tools, and a model that follows a script.

A script is a list of replies: a text, or a list of calls (name and arguments). A new adapter is one
class here, in `ADAPTERS`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from shortlist import Engine, Gate, Rule, Tool
from shortlist.gating import after, not_, requires_scope

Script = list[str | list[tuple[str, dict[str, Any]]]]
_SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string", "description": "What it is about."}},
    "required": ["text"],
    "additionalProperties": False,
}
_SUBJECTS = ("invoice", "album", "forecast", "ticket", "recipe", "flight", "branch", "contract")
_VERBS = ("list", "create", "archive", "rename", "export", "share", "approve", "print")
_PROSE = "It works on one {0} at a time and says what it did with this {0}. " * 4
DEFINITIONS = [
    Tool(f"{verb}_{subject}", None, f"{verb} the {subject}. " + _PROSE.format(subject), _SCHEMA)
    for subject in _SUBJECTS
    for verb in _VERBS
] + [
    Tool("read_mail", None, "Read an electronic mail of a person", _SCHEMA),
    Tool("send_mail", None, "Send an electronic mail to a person", _SCHEMA),
    Tool("delete_mail", None, "Delete an electronic mail for ever", _SCHEMA),
    Tool("transfer_money", None, "Transfer money to an account of a bank", _SCHEMA),
]
GATE = Gate(
    [
        Rule(after("read_mail"), tools="delete_mail"),
        Rule(requires_scope("money"), tools="transfer_money"),
        Rule(not_(after("print_contract")), tools="print_contract"),
    ]
)


def engine() -> Engine:
    return Engine.from_tools(DEFINITIONS, gate=GATE, tiers=["lexical"])


@dataclass
class Run:
    """What a model saw in one run.

    Attributes:
        offered: for each model call, name to definition of its tools.
        answers: answers to calls, in order.
        text: the last reply.
    """

    offered: list[dict[str, Any]] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    text: str = ""


class Agent:
    """An agent of a framework. `ask` runs one message of the user in the same conversation."""

    name: str
    skips: frozenset[str] = frozenset()

    def __init__(self, **settings: Any) -> None:
        self.ran: list[tuple[str, str]] = []
        self.settings = {"engine": engine(), **settings}
        self.script: Script = []
        self.run = Run()

    def restarted(self) -> Agent:
        """The agent in another process, with the messages that the framework has kept."""
        given = {**self.settings, "engine": engine()}
        agent = type(self)(**given)
        agent.ran = self.ran
        agent.keep(self)
        return agent

    def keep(self, before: Any) -> None:
        """Take over the messages of the agent before the restart."""
        raise NotImplementedError

    def body(self, name: str, text: str) -> str:
        self.ran.append((name, text))
        if text == "fail":
            raise RuntimeError("the server is down")
        return f"{name} is done"

    def ask(self, request: str, script: Script, *, stream: bool = False) -> Run:
        self.script, self.run = [*script], Run()
        asyncio.run(self.talk(request, stream))
        assert not self.script
        return self.run

    async def talk(self, request: str, stream: bool) -> None:
        raise NotImplementedError


class PydanticAI(Agent):
    name = "pydantic-ai"

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        ai = pytest.importorskip("pydantic_ai")
        from pydantic_ai.models.function import FunctionModel
        from pydantic_ai.toolsets import FunctionToolset

        from shortlist.integrations.pydantic_ai import shortlist_toolset

        functions = self.functions = FunctionToolset(max_retries=3)
        for tool in DEFINITIONS:
            functions.add_tool(
                ai.Tool.from_schema(
                    lambda text, name=tool.name: self.body(name, text),
                    tool.name,
                    tool.description,
                    tool.input_schema,
                )
            )
        model = FunctionModel(self.reply, stream_function=self.stream)
        toolset = shortlist_toolset(functions, **self.settings)
        self.agent = ai.Agent(model, toolsets=[toolset])
        self.history: Any = None

    def keep(self, before: Any) -> None:
        from pydantic_ai.messages import ModelMessagesTypeAdapter

        kept = ModelMessagesTypeAdapter.dump_json(before.history)
        self.history = ModelMessagesTypeAdapter.validate_json(kept)

    def see(self, messages: Any, info: Any) -> Any:
        from pydantic_ai.messages import RetryPromptPart, ToolReturnPart

        self.run.offered.append({t.name: t.parameters_json_schema for t in info.function_tools})
        for part in messages[-1].parts:
            if isinstance(part, ToolReturnPart):
                self.run.answers.append(part.model_response_str(wrap_if_error=False))
            elif isinstance(part, RetryPromptPart):
                self.run.answers.append(part.model_response())
        return self.script.pop(0)

    def reply(self, messages: Any, info: Any) -> Any:
        from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

        step = self.see(messages, info)
        parts = [TextPart(step)] if isinstance(step, str) else [ToolCallPart(*c) for c in step]
        return ModelResponse(parts)

    async def stream(self, messages: Any, info: Any) -> Any:
        from pydantic_ai.models.function import DeltaToolCall

        step = self.see(messages, info)
        if isinstance(step, str):
            yield step
        else:
            yield {
                place: DeltaToolCall(name, json.dumps(arguments))
                for place, (name, arguments) in enumerate(step)
            }

    async def talk(self, request: str, stream: bool) -> None:
        if stream:
            async with self.agent.run_stream(request, message_history=self.history) as result:
                self.run.text = await result.get_output()
        else:
            result = await self.agent.run(request, message_history=self.history)
            self.run.text = result.output
        self.history = result.all_messages()


class LangChain(Agent):
    name = "langchain"

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        agents = pytest.importorskip("langchain.agents")
        from langchain_core.tools import StructuredTool
        from langgraph.checkpoint.memory import InMemorySaver

        from shortlist.integrations.langchain import ShortlistMiddleware

        self.tools = [
            StructuredTool(
                name=tool.name,
                description=tool.description,
                args_schema=dict(tool.input_schema),
                func=lambda text, name=tool.name: self.body(name, text),
            )
            for tool in DEFINITIONS
        ]
        self.checkpointer = InMemorySaver()
        self.agent = agents.create_agent(
            self.model(),
            middleware=[ShortlistMiddleware(self.tools, **self.settings)],
            checkpointer=self.checkpointer,
        )

    def keep(self, before: Any) -> None:
        self.agent.checkpointer = before.checkpointer

    def model(self) -> Any:
        from langchain_core.language_models import BaseChatModel
        from langchain_core.messages import AIMessage, ToolMessage
        from langchain_core.outputs import ChatGeneration, ChatResult
        from langchain_core.utils.function_calling import convert_to_openai_tool

        outer = self

        class ScriptedModel(BaseChatModel):
            @property
            def _llm_type(self) -> str:
                return "scripted"

            def bind_tools(self, tools: Any, **_: Any) -> Any:
                return self.bind(tools=[convert_to_openai_tool(t)["function"] for t in tools])

            def _generate(
                self, messages: Any, stop: Any = None, run_manager: Any = None, **given: Any
            ) -> ChatResult:
                offered = {t["name"]: t["parameters"] for t in given.get("tools", ())}
                outer.run.offered.append(offered)
                answers = [m.text for m in messages if isinstance(m, ToolMessage)]
                outer.run.answers = answers[outer.earlier :]
                step = outer.script.pop(0)
                if isinstance(step, str):
                    reply = AIMessage(step)
                else:
                    calls = [
                        {"name": name, "args": arguments, "id": f"c{len(messages)}-{place}"}
                        for place, (name, arguments) in enumerate(step)
                    ]
                    reply = AIMessage("", tool_calls=calls)
                return ChatResult(generations=[ChatGeneration(message=reply)])

        return ScriptedModel()

    async def talk(self, request: str, stream: bool) -> None:
        from langchain_core.messages import ToolMessage

        config = {"configurable": {"thread_id": "one"}}
        state = await self.agent.aget_state(config)
        earlier = state.values.get("messages", ())
        self.earlier = sum(isinstance(message, ToolMessage) for message in earlier)
        given = {"messages": [("user", request)]}
        if stream:
            async for _ in self.agent.astream(given, config):
                pass
        else:
            await self.agent.ainvoke(given, config)
        state = await self.agent.aget_state(config)
        self.run.text = state.values["messages"][-1].text


_MODEL_INPUT = ("system_instructions", "input", "model_settings", "tools")


class OpenAIAgents(Agent):
    name = "openai-agents"

    def __init__(self, *, needs_approval: str = "", **settings: Any) -> None:
        super().__init__(**settings)
        self.needs_approval = needs_approval
        agents = pytest.importorskip("agents")
        from shortlist.integrations.openai_agents import ShortlistTools

        agents.set_tracing_disabled(True)
        self.function_tools = [self.tool(agents, tool) for tool in DEFINITIONS]
        self.tools = ShortlistTools(
            self.function_tools,
            conversation=lambda context: "one",
            **self.settings,
        )
        self.agent = agents.Agent("tester", tools=self.tools.tools, model=self.model(agents))
        self.history: list[Any] = []

    def keep(self, before: Any) -> None:
        self.history = json.loads(json.dumps(before.history))

    def tool(self, agents: Any, tool: Tool) -> Any:
        async def invoke(_: Any, arguments: str) -> str:
            return self.body(tool.name, json.loads(arguments)["text"])

        return agents.FunctionTool(
            tool.name,
            tool.description,
            dict(tool.input_schema),
            invoke,
            needs_approval=tool.name == self.needs_approval,
        )

    def model(self, agents: Any) -> Any:
        outer = self

        class ScriptedModel(agents.Model):
            async def get_response(self, *given: Any, **more: Any) -> Any:
                given = dict(zip(_MODEL_INPUT, given, strict=False)) | more
                return agents.ModelResponse(outer.output(given), agents.Usage(), None)

            async def stream_response(self, *given: Any, **more: Any) -> Any:
                given = dict(zip(_MODEL_INPUT, given, strict=False)) | more
                from openai.types.responses import Response, ResponseCompletedEvent

                response = Response(
                    id="r", created_at=1, model="m", object="response", tool_choice="auto",
                    output=outer.output(given), tools=[], parallel_tool_calls=True,
                )  # fmt: skip
                yield ResponseCompletedEvent(
                    response=response, type="response.completed", sequence_number=0
                )

        return ScriptedModel()

    def output(self, given: dict[str, Any]) -> list[Any]:
        items, tools = given["input"], given["tools"]
        from openai.types.responses import (
            ResponseFunctionToolCall,
            ResponseOutputMessage,
            ResponseOutputText,
        )

        self.run.offered.append({tool.name: tool.params_json_schema for tool in tools})
        items = [{"role": "user", "content": items}] if isinstance(items, str) else items
        outputs = [i["output"] for i in items if i.get("type") == "function_call_output"]
        self.run.answers = [str(output) for output in outputs][self.earlier :]
        step = self.script.pop(0)
        if isinstance(step, str):
            text = ResponseOutputText(annotations=[], text=step, type="output_text")
            return [
                ResponseOutputMessage(
                    id="m", content=[text], role="assistant", status="completed", type="message"
                )
            ]
        return [
            ResponseFunctionToolCall(
                arguments=json.dumps(arguments),
                call_id=f"c{len(items)}-{place}",
                name=name,
                type="function_call",
            )
            for place, (name, arguments) in enumerate(step)
        ]

    async def talk(self, request: str, stream: bool) -> None:
        from agents import Runner

        outputs = [i for i in self.history if i.get("type") == "function_call_output"]
        self.earlier = len(outputs)
        items = [*self.history, {"role": "user", "content": request}]
        config = self.tools.run_config
        if stream:
            result = Runner.run_streamed(self.agent, items, run_config=config)
            async for _ in result.stream_events():
                pass
        else:
            result = await Runner.run(self.agent, items, run_config=config)
        self.run.text = result.final_output
        self.history = result.to_input_list()


class FastMCP(Agent):
    """A client of a server. The model of the client calls `call_tool` for what was found."""

    name = "fastmcp"
    skips = frozenset({"unasked", "stream", "offered", "restart"})

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        fastmcp = pytest.importorskip("fastmcp")
        from fastmcp.tools import Tool as ServerTool
        from fastmcp.tools import ToolResult

        from shortlist.integrations.fastmcp import ShortlistTransform

        outer = self

        class ScriptedTool(ServerTool):
            async def run(self, arguments: dict[str, Any]) -> ToolResult:
                return ToolResult(content=outer.body(self.name, arguments["text"]))

        self.server = fastmcp.FastMCP("server")
        for tool in DEFINITIONS:
            self.server.add_tool(
                ScriptedTool(
                    name=tool.name,
                    description=tool.description,
                    parameters=dict(tool.input_schema),
                )
            )
        self.server.add_transform(
            ShortlistTransform(conversation=lambda context: "one", **self.settings)
        )

    def ask(self, request: str, script: Script, *, stream: bool = False) -> Run:
        return super().ask(request, script)

    async def talk(self, request: str, stream: bool) -> None:
        from fastmcp import Client

        async with Client(self.server) as client:
            for step in [*self.script]:
                self.script.pop(0)
                listed = await client.list_tools()
                self.run.offered.append({tool.name: tool.input_schema for tool in listed})
                if isinstance(step, str):
                    self.run.text = step
                    continue
                results = await asyncio.gather(*(self.call(client, *call) for call in step))
                self.run.answers += results

    async def call(self, client: Any, name: str, arguments: dict[str, Any]) -> str:
        if name != "search_tools":
            name, arguments = "call_tool", {"name": name, "arguments": arguments}
        result = await client.call_tool(name, arguments, raise_on_error=False)
        return "".join(part.text for part in result.content)


ADAPTERS: Sequence[type[Agent]] = (PydanticAI, OpenAIAgents, FastMCP, LangChain)
