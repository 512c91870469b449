"""Sixty tools of the demo as LangChain has them, and a model that follows a script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import uuid4

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field, PrivateAttr

from shortlist import Engine
from shortlist.demo import load_catalog
from shortlist.integrations.langchain import ShortlistMiddleware

Step = AIMessage | Callable[[Sequence[BaseMessage], list[str]], AIMessage]


def say(text: str) -> AIMessage:
    return AIMessage(text)


def call(*calls: tuple[str, dict[str, Any]]) -> AIMessage:
    """The model calls tools, several at once."""
    return AIMessage(
        "",
        tool_calls=[
            {"name": name, "args": arguments, "id": f"call_{uuid4().hex[:8]}"}
            for name, arguments in calls
        ],
    )


class ScriptedModel(BaseChatModel):
    """Says what its script says, and remembers what it was given."""

    script: list[Any] = Field(default_factory=list)
    kind: str = "scripted"
    offered: list[list[str]] = Field(default_factory=list)
    read: list[list[BaseMessage]] = Field(default_factory=list)
    _bound: list[str] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return self.kind

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        names = [one["function"]["name"] if isinstance(one, dict) else one.name for one in tools]
        return self.bind(names=names)

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **given: Any
    ) -> ChatResult:
        self.offered.append(list(given.get("names", ())))
        self.read.append(list(messages))
        step = self.script.pop(0)
        return ChatResult(generations=[ChatGeneration(message=step)])


@pytest.fixture
def calls() -> list[tuple[str, dict[str, Any]]]:
    """What the tools were called with."""
    return []


ISSUE = {"owner": "acme", "repo": "shop", "title": "Prices are wrong"}
IN_THREAD = {"configurable": {"thread_id": "t1"}}


def agent_of(script: list[Any], middleware: ShortlistMiddleware, **given: Any) -> Any:
    model = given.pop("model", None) or ScriptedModel(script=script)
    agent = create_agent(
        model,
        tools=given.pop("others", []),
        middleware=[middleware],
        checkpointer=InMemorySaver(),
        **given,
    )
    return agent, model


def ask(agent: Any, text: str, config: Any = None) -> list[Any]:
    return agent.invoke({"messages": [HumanMessage(text)]}, config or IN_THREAD)["messages"]


def answers(messages: list[Any]) -> list[ToolMessage]:
    return [message for message in messages if isinstance(message, ToolMessage)]


def demo_tools(calls: list[tuple[str, dict[str, Any]]]) -> list[BaseTool]:
    """Sixty tools of three servers; each notes its calls and answers in a few words."""

    def made(tool: Any) -> BaseTool:
        def run(**arguments: Any) -> str:
            calls.append((tool.name, arguments))
            return f"{tool.name} is done"

        return StructuredTool(
            name=tool.name,
            description=tool.description,
            args_schema=tool.input_schema,
            func=run,
            metadata={"server": tool.server, **tool.annotations},
            tags=list(tool.tags) or None,
        )

    first: dict[str, Any] = {}
    for tool in load_catalog():
        first.setdefault(tool.name, tool)
    return [made(tool) for tool in list(first.values())[:60]]


@pytest.fixture
def tools(calls: list[tuple[str, dict[str, Any]]]) -> list[BaseTool]:
    return demo_tools(calls)


@pytest.fixture(scope="session")
def engine() -> Engine:
    return Engine.from_tools(demo_tools([]), tiers=["lexical"])


@pytest.fixture(autouse=True)
def no_loop_left() -> Iterator[None]:
    """Close the event loop that a framework's blocking call makes and keeps."""
    asyncio.set_event_loop(None)
    yield
    try:
        loop = asyncio.get_event_loop()
    except RuntimeError:
        return
    asyncio.set_event_loop(None)
    loop.close()
