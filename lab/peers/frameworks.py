"""Shortlist's search through the interface of each agent framework, as its model reads the answer.

Every search is a conversation of its own, in which nothing was offered before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from ...catalog import Tool
from ...config import TrustConfig
from ...engine import Engine
from ...integrations.framework_tools import SEARCH_TOOL
from .event_loop import EventLoop
from .fastmcp import FastMCPSearch
from .libraries import library
from .naming import PeerNames
from .pydantic_ai import PydanticAISearch

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

_LISTED = re.compile(r"^(?:Added to your list of tools|You already have): (.*)$", re.MULTILINE)
#: No text to search for, so that a turn offers nothing before the model searches.
_SILENCE = " "


class PydanticAIShortlist(PydanticAISearch):
    """pydantic-ai's `ToolSearch` with the strategy of shortlist."""

    name = "pydantic-ai, shortlist"

    def index(self, tools: Sequence[Tool]) -> None:
        """Defer every tool, and give the strategy an engine over them."""
        self._engine = _engine(tools)
        super().index(tools)

    def capability(self, k: int) -> Any:
        """The capability with shortlist's strategy."""
        from ...integrations.pydantic_ai import search_strategy

        strategy = search_strategy(self._engine, k=k)
        return self._capabilities.ToolSearch(strategy=strategy, max_results=k)


class FastMCPShortlist(FastMCPSearch):
    """A FastMCP server behind `ShortlistTransform`."""

    name = "fastmcp, shortlist"

    def index(self, tools: Sequence[Tool]) -> None:
        """Build the server."""
        self._engine, self._conversations = _engine(tools), count()
        super().index(tools)

    def transform(self, k: int) -> Any:
        """The transform, with a conversation for each request."""
        from ...integrations.fastmcp import ShortlistTransform

        return ShortlistTransform(
            engine=self._engine, k=k, conversation=lambda _: str(next(self._conversations))
        )

    def names_in(self, answer: str) -> list[str]:
        """Names in the lines of an answer: definitions as JSON, others with the name first."""
        names = []
        for line in answer.splitlines()[1:]:
            name = json.loads(line)["name"] if line.startswith("{") else re.split(r"[(:]", line)[0]
            names.append(str(name))
        return [name for name in names if self._names.has(name)]


class OpenAIAgentsShortlist:
    """An agent of the OpenAI Agents SDK whose model searches once."""

    name = "openai-agents, shortlist"
    depth_free = False

    def index(self, tools: Sequence[Tool]) -> None:
        """Make function tools of all."""
        self._agents = library("agents", self.name)
        self._agents.set_tracing_disabled(True)
        self._loop, self._names, self._engine = EventLoop(), PeerNames(tools), _engine(tools)
        self._functions = [
            self._agents.FunctionTool(
                self._names.name(tool.id), tool.description, dict(tool.input_schema), _never_called,
                strict_json_schema=False,
            )
            for tool in tools
        ]  # fmt: skip

    def search(self, query: str, k: int) -> list[str]:
        """Run the search tool that the agent is given."""
        from ...integrations.openai_agents import ShortlistTools

        tools = ShortlistTools(self._functions, engine=self._engine, k=k, pass_through=0).tools
        searches: list[Any] = [tool for tool in tools if tool.name == SEARCH_TOOL.name]
        search = searches[0]
        context = self._agents.tool_context.ToolContext(
            context=None, tool_name=search.name, tool_call_id="c", tool_arguments=""
        )
        answer = self._loop.run(search.on_invoke_tool(context, json.dumps({"query": query})))
        return [self._names.tool_id(name) for name in _listed_names(answer)]


class LangChainShortlist:
    """A LangChain agent with the middleware, whose model searches once."""

    name = "langchain, shortlist"
    depth_free = False

    def index(self, tools: Sequence[Tool]) -> None:
        """Make LangChain tools of all."""
        tool_module = library("langchain_core.tools", self.name)
        self._names, self._engine, self._conversations = PeerNames(tools), _engine(tools), count()
        self._tools = [
            tool_module.StructuredTool(
                name=self._names.name(tool.id),
                description=tool.description or tool.name,
                args_schema=dict(tool.input_schema),
                func=_never_called,
            )
            for tool in tools
        ]
        self._graphs: dict[int, Any] = {}
        self._replies: list[AIMessage] = []

    def search(self, query: str, k: int) -> list[str]:
        """Run an agent whose model searches, then stops."""
        from langchain_core.messages import AIMessage, HumanMessage

        if k not in self._graphs:
            self._graphs[k] = self._graph(k)
        call = {"name": SEARCH_TOOL.name, "args": {"query": query}, "id": "c"}
        self._replies += [AIMessage("", tool_calls=[call]), AIMessage("Done.")]
        config = {"configurable": {"thread_id": str(next(self._conversations))}}
        given = {"messages": [HumanMessage(_SILENCE)]}
        messages = self._graphs[k].invoke(given, config)["messages"]
        return [self._names.tool_id(name) for name in _listed_names(messages[-2].text)]

    def _graph(self, k: int) -> Any:
        from langchain.agents import create_agent
        from langchain_core.language_models import BaseChatModel
        from langchain_core.outputs import ChatGeneration, ChatResult

        from ...integrations.langchain import ShortlistMiddleware

        replies = self._replies

        class ScriptedModel(BaseChatModel):
            @property
            def _llm_type(self) -> str:
                return "scripted"

            def bind_tools(self, *_: Any, **__: Any) -> Any:
                return self

            def _generate(self, *_: Any, **__: Any) -> ChatResult:
                return ChatResult(generations=[ChatGeneration(message=replies.pop(0))])

        middleware = ShortlistMiddleware(self._tools, engine=self._engine, k=k, pass_through=0)
        return create_agent(ScriptedModel(), middleware=[middleware])


def _engine(tools: Sequence[Tool]) -> Engine:
    """The engine over the names that a framework has. It trusts every definition."""
    names = PeerNames(tools)
    named = [Tool(names.name(tool.id), None, tool.description, tool.input_schema) for tool in tools]
    return Engine.from_tools(named, trust=TrustConfig(scan=False), index={"example_queries": ()})


def _listed_names(answer: str) -> list[str]:
    """The names in an answer whose definitions are in the list of tools."""
    return [name for line in _LISTED.findall(answer) for name in line.split(", ")]


async def _never_called(*_: Any) -> str:
    raise AssertionError("the model of this comparison only searches")
