"""OpenAI Agents SDK: function tools that are enabled in the turns that need them.

Needs the extra `openai-agents`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from ..catalog import Tool
from ..engine import Engine
from ..errors import MissingExtraError
from .framework_tools import (
    SEARCH_TOOL,
    CallRefused,
    FrameworkSession,
    FrameworkTools,
    PastCall,
    StateOf,
    is_refusal,
)

try:
    from agents import FunctionTool, RunConfig, RunContextWrapper
    from agents.run_config import ToolErrorFormatterArgs
except ImportError as missing:
    raise MissingExtraError("the tools for the OpenAI Agents SDK", "openai-agents") from missing

if TYPE_CHECKING:
    import agents

    from ..setting_types import SessionSettings

__all__ = ["ShortlistTools"]


class ShortlistTools:
    """The same tools, of which each turn enables those that it needs, and a search.

    Calls are checked, and their outcomes recorded. Run an agent that has the `tools` with the
    `run_config`: without it, a call of a tool that is not enabled ends the run.

    Args:
        tools: tools of an agent, with names that differ.
        engine: an engine over tools with the same names, to set rules, a tier or an encoder.
        state: the state of the agent, or a function from the `RunContextWrapper` to the state.
        conversation: a function from the `RunContextWrapper` to the name of the conversation. Runs
            of one conversation then share their calls and tools; without it, each run starts anew.
        settings: settings of `SessionConfig`, such as `k`, `list_tokens` and `events`.

    Attributes:
        tools: the tools for `Agent(tools=...)`.
        run_config: answers a call of a tool that is not enabled with the reason. To add to it, use
            `dataclasses.replace`.
    """

    def __init__(
        self,
        tools: Sequence[FunctionTool],
        *,
        engine: Engine | None = None,
        state: StateOf | None = None,
        conversation: Callable[[RunContextWrapper[Any]], str] | None = None,
        **settings: Unpack[SessionSettings],
    ) -> None:
        self._framework_tools = FrameworkTools(engine, state, **settings)
        self._conversation = conversation
        self._framework_tools.follow_tools([_catalog_tool(tool) for tool in tools])
        search = FunctionTool(
            name=SEARCH_TOOL.name,
            description=SEARCH_TOOL.description,
            params_json_schema=dict(SEARCH_TOOL.input_schema),
            on_invoke_tool=self._search,
            strict_json_schema=False,
        )
        self.tools: list[agents.Tool] = [
            self._enabled_when_offered(search),
            *(self._enabled_when_offered(self._checked(tool)) for tool in tools),
        ]
        self.run_config = RunConfig(
            tool_not_found_behavior="return_error_to_model", tool_error_formatter=self._refusal
        )

    def _enabled_when_offered(self, tool: FunctionTool) -> FunctionTool:
        def is_enabled(context: RunContextWrapper[Any], _agent: Any) -> bool:
            session = self._offer(context)
            if context._approval_records_for_key(tool.name):
                # A run that waited for a person goes on with the tool, also after a restart.
                session.take_over([PastCall(tool.name)])
            return tool.name in session.offered_names

        return replace(tool, is_enabled=is_enabled)

    def _checked(self, tool: FunctionTool) -> FunctionTool:
        """A copy of a tool whose calls are checked and recorded."""
        invoker = tool.on_invoke_tool
        # The tools of the decorator `function_tool` turn a failure into a text. Inside, it is seen.
        call_tool = getattr(invoker, "_invoke_tool_impl", invoker)

        async def invoke(context: Any, arguments: str) -> Any:
            async def run(_tool: Tool, checked: dict[str, Any]) -> Any:
                return await call_tool(context, json.dumps(checked))

            try:
                return await self._session(context).call(tool.name, arguments, run)
            except CallRefused as refusal:
                return str(refusal)

        if call_tool is invoker:
            return replace(tool, on_invoke_tool=invoke)
        handled: Any = invoker
        return replace(tool, on_invoke_tool=type(handled)(invoke, handled._on_handled_error))

    async def _search(self, context: Any, arguments: str) -> str:
        try:
            return await asyncio.to_thread(self._session(context).search, arguments)
        except CallRefused as refusal:
            return str(refusal)

    def _refusal(self, error: ToolErrorFormatterArgs[Any]) -> str | None:
        """The answer to a call of a tool that is not enabled; None for other errors."""
        if error.kind != "tool_not_found":
            return None
        return self._session(error.run_context).refusal(error.tool_name)

    def _offer(self, context: RunContextWrapper[Any]) -> FrameworkSession:
        session = self._session(context)
        session.offer(_dialogue(context.turn_input))
        return session

    def _session(self, context: RunContextWrapper[Any]) -> FrameworkSession:
        past_calls = _past_calls(context.turn_input)
        if self._conversation is not None:
            return self._framework_tools.session(self._conversation(context), context, past_calls)
        # One object for a run, which the contexts of its tools share.
        session = self._framework_tools.session(f"run-{id(context.usage)}", context, past_calls)
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


def _past_calls(items: Sequence[Any]) -> Iterator[PastCall]:
    """The calls in the input of a run.

    An answer does not say whether the call succeeded. One that was refused did not run.
    """
    fields = [item for item in items if isinstance(item, dict)]
    answers = {
        item["call_id"]: str(item.get("output"))
        for item in fields
        if item.get("type") == "function_call_output"
    }
    for item in fields:
        if item.get("type") == "function_call":
            answer = answers.get(item["call_id"], "")
            ok = False if not answer or is_refusal(answer) else None
            yield PastCall(item["name"], answer, ok)
