"""OpenAI Agents SDK: function tools that are enabled in the turns that need them.

Needs the extra `openai-agents`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from ..catalog import Tool
from ..engine import Engine
from ..errors import MissingExtraError
from .framework_tools import SEARCH_TOOL, CallRefused, FrameworkSession, FrameworkTools, StateOf

try:
    from agents import FunctionTool, RunContextWrapper
except ImportError as missing:
    raise MissingExtraError("the tools for the OpenAI Agents SDK", "openai-agents") from missing

if TYPE_CHECKING:
    import agents

    from ..setting_types import SessionSettings

__all__ = ["shortlist_tools"]


def shortlist_tools(
    tools: Sequence[FunctionTool],
    *,
    engine: Engine | None = None,
    state: StateOf | None = None,
    conversation: Callable[[RunContextWrapper[Any]], str] | None = None,
    **settings: Unpack[SessionSettings],
) -> list[agents.Tool]:
    """The same tools, of which each turn enables those that it needs, and a search.

    Calls are checked, and their outcomes recorded. Run the agent with
    `RunConfig(tool_not_found_behavior="return_error_to_model")`: otherwise a call of a tool that is
    not enabled ends the run.

    Args:
        tools: tools of an agent, with names that differ.
        engine: an engine over tools with the same names, to set rules, a tier or an encoder.
        state: the state of the agent, or a function from the `RunContextWrapper` to the state.
        conversation: a function from the `RunContextWrapper` to the name of the conversation. Runs
            of one conversation then share their calls and tools; without it, each run starts anew.
        settings: settings of `SessionConfig`, such as `k`, `schema_tokens` and `events`.
    """
    return _Tools(tools, FrameworkTools(engine, state, **settings), conversation).enabled


class _Tools:
    def __init__(
        self,
        tools: Sequence[FunctionTool],
        framework_tools: FrameworkTools,
        conversation: Callable[[RunContextWrapper[Any]], str] | None,
    ) -> None:
        self._framework_tools = framework_tools
        self._conversation = conversation
        framework_tools.follow_tools([_catalog_tool(tool) for tool in tools])
        search = FunctionTool(
            name=SEARCH_TOOL.name,
            description=SEARCH_TOOL.description,
            params_json_schema=dict(SEARCH_TOOL.input_schema),
            on_invoke_tool=self._search,
            strict_json_schema=False,
            is_enabled=lambda context, _agent: not self._offer(context).session.shows_whole_catalog,
        )
        self.enabled: list[agents.Tool] = [search, *map(self._enabled_when_offered, tools)]

    def _enabled_when_offered(self, tool: FunctionTool) -> FunctionTool:
        async def invoke(context: Any, arguments: str) -> Any:
            async def run(_tool: Tool, checked: dict[str, Any]) -> Any:
                return await tool.on_invoke_tool(context, json.dumps(checked))

            try:
                return await self._session(context).call(tool.name, arguments, run)
            except CallRefused as refusal:
                return str(refusal)

        return replace(
            tool,
            on_invoke_tool=invoke,
            is_enabled=lambda context, _agent: tool.name in self._offer(context).offered_names,
        )

    async def _search(self, context: Any, arguments: str) -> str:
        try:
            return await asyncio.to_thread(self._session(context).search, arguments)
        except CallRefused as refusal:
            return str(refusal)

    def _offer(self, context: RunContextWrapper[Any]) -> FrameworkSession:
        session = self._session(context)
        session.offer(_dialogue(context.turn_input))
        return session

    def _session(self, context: RunContextWrapper[Any]) -> FrameworkSession:
        if self._conversation is not None:
            return self._framework_tools.session(self._conversation(context), context)
        # One object for a run, which the contexts of its tools share.
        session = self._framework_tools.session(f"run-{id(context.usage)}", context)
        session.kept_alive = context.usage
        return session


def _catalog_tool(tool: FunctionTool) -> Tool:
    return Tool(tool.name, description=tool.description, input_schema=tool.params_json_schema)


def _dialogue(items: Sequence[Any]) -> list[tuple[str, str]]:
    """Role and text of each message of the user and the model."""
    dialogue = []
    for item in items:
        if isinstance(item, dict) and item.get("role") in ("user", "assistant"):
            content = item.get("content")
            parts = content if isinstance(content, list) else [{"text": content}]
            texts = [part.get("text") for part in parts if isinstance(part, dict)]
            text = " ".join(text for text in texts if isinstance(text, str))
            dialogue.append((str(item["role"]), text))
    return dialogue
