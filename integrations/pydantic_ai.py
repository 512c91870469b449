"""pydantic-ai: a toolset that offers the tools of a turn, and a strategy for its tool search.

Needs the extra `pydantic-ai`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Unpack

from ..catalog import Tool
from ..engine import Engine
from ..errors import MissingExtraError
from .framework_tools import (
    SEARCH_TOOL,
    ApprovalNeeded,
    CallRefused,
    FrameworkSession,
    FrameworkTools,
    PastCall,
    StateOf,
)

try:
    from pydantic_ai import ApprovalRequired, ModelRetry, RunContext
    from pydantic_ai.messages import (
        ModelResponse,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
    from pydantic_core import SchemaValidator, core_schema
except ImportError as missing:
    raise MissingExtraError("the toolset for pydantic-ai", "pydantic-ai") from missing

if TYPE_CHECKING:
    from ..setting_types import SessionSettings

__all__ = ["ShortlistToolset", "search_strategy", "shortlist_toolset"]

_ANY_ARGUMENTS = SchemaValidator(core_schema.any_schema())


def shortlist_toolset(
    wrapped: AbstractToolset[Any],
    *,
    engine: Engine | None = None,
    state: StateOf | None = None,
    **settings: Unpack[SessionSettings],
) -> ShortlistToolset:
    """A toolset that offers, of another one, only the tools that each turn needs.

    Args:
        wrapped: any toolset; several of them as a `CombinedToolset`.
        engine: an engine over tools with the same names, to set rules, a tier or an encoder.
        state: the state of the agent, or a function from the `RunContext` to the state.
        settings: settings of `SessionConfig`, such as `k`, `list_tokens` and `events`.
    """
    return ShortlistToolset(wrapped, FrameworkTools(engine, state, **settings))


@dataclass
class ShortlistToolset(WrapperToolset[Any]):
    """Offers the tools of a turn and a search, checks every call, and records its outcome.

    Conversations are identified by their `conversation_id`. `shortlist_toolset` makes one.

    Args:
        wrapped: the toolset that has the tools.
        framework_tools: the sessions.
    """

    framework_tools: FrameworkTools = field(repr=False)
    _tools: dict[str, ToolsetTool[Any]] = field(default_factory=dict, repr=False)

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """The tools of this step, with the search."""
        tools = await super().get_tools(ctx)
        self.framework_tools.follow_tools([_catalog_tool(tool.tool_def) for tool in tools.values()])
        session = self._session(ctx)
        dialogue = _dialogue(ctx)
        await asyncio.to_thread(_answer_unknown_calls, ctx, session)
        chosen = {}
        for offered in await asyncio.to_thread(session.offer, dialogue):
            function = offered["function"]
            name, tool = function["name"], tools.get(function["name"])
            if tool is not None:
                definition = replace(
                    tool.tool_def,
                    description=function["description"],
                    parameters_json_schema=function["parameters"],
                )
                chosen[name] = replace(tool, toolset=self, tool_def=definition)
            elif name == SEARCH_TOOL.name:
                definition = ToolDefinition(
                    name=name,
                    description=SEARCH_TOOL.description,
                    parameters_json_schema=dict(SEARCH_TOOL.input_schema),
                )
                chosen[name] = ToolsetTool(
                    toolset=self, tool_def=definition, max_retries=1, args_validator=_ANY_ARGUMENTS
                )
        self._tools = tools
        return chosen

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[Any],
        tool: ToolsetTool[Any],  # noqa: ARG002
    ) -> Any:
        """Answer a search, or check and run a call; a refused one is for the model to mend."""
        session = self._session(ctx)
        try:
            if name == SEARCH_TOOL.name:
                return await asyncio.to_thread(session.search, tool_args)

            async def run(_tool: Tool, _arguments: dict[str, Any]) -> Any:
                original = self._tools[name]
                return await super(ShortlistToolset, self).call_tool(name, tool_args, ctx, original)

            return await session.call(name, tool_args, run, approved=ctx.tool_call_approved)
        except ApprovalNeeded as needed:
            raise ApprovalRequired({"rules": needed.rules}) from needed
        except CallRefused as refusal:
            raise ModelRetry(str(refusal)) from refusal

    def _session(self, ctx: RunContext[Any]) -> FrameworkSession:
        key = str(ctx.conversation_id or ctx.run_id)
        return self.framework_tools.session(key, ctx, _past_calls(ctx))


class _SearchStrategy:
    def __init__(self, engine: Engine | None, k: int) -> None:
        self._tools = FrameworkTools(engine, None)
        self._k = k

    async def __call__(
        self,
        ctx: RunContext[Any],  # noqa: ARG002 - pydantic-ai calls it with three arguments
        queries: Sequence[str],
        tools: Sequence[ToolDefinition],
    ) -> list[str]:
        """Names of the tools that fit, best first."""
        return await asyncio.to_thread(self._search, queries, tools)

    def _search(self, queries: Sequence[str], tools: Sequence[ToolDefinition]) -> list[str]:
        self._tools.follow_tools([_catalog_tool(tool) for tool in tools])
        view = self._tools.engine.view()
        found = [hit.tool.name for query in queries for hit in view.search(query, k=self._k).hits]
        present = {tool.name for tool in tools}
        return [name for name in dict.fromkeys(found) if name in present]


def search_strategy(engine: Engine | None = None, *, k: int = 5) -> Any:
    """A strategy for `ToolSearch(strategy=...)` of pydantic-ai.

    Args:
        engine: an engine over tools with the same names; one over the deferred tools when absent.
        k: tools found for a query at most.
    """
    return _SearchStrategy(engine, k)


def _catalog_tool(definition: ToolDefinition) -> Tool:
    return Tool(
        definition.name,
        description=definition.description or "",
        input_schema=definition.parameters_json_schema,
    )


def _dialogue(ctx: RunContext[Any]) -> list[tuple[str, str]]:
    """Role and text of each message of the user and the model."""
    dialogue = []
    for message in ctx.messages:
        role = "assistant" if isinstance(message, ModelResponse) else "user"
        for part in message.parts:
            if isinstance(part, TextPart):
                dialogue.append((role, part.content))
            elif isinstance(part, UserPromptPart):
                content = part.content
                texts = [content] if isinstance(content, str) else content
                dialogue.append((role, " ".join(text for text in texts if isinstance(text, str))))
    return dialogue


def _past_calls(ctx: RunContext[Any]) -> Iterator[PastCall]:
    """The calls in the messages."""
    parts = [part for message in ctx.messages for part in message.parts]
    answers = {part.tool_call_id: part for part in parts if isinstance(part, ToolReturnPart)}
    for part in parts:
        if isinstance(part, ToolCallPart):
            answer = answers.get(part.tool_call_id)
            text = "" if answer is None else answer.model_response_str()
            ok = answer is not None and answer.outcome == "success"
            yield PastCall(part.tool_name, text, ok)


def _answer_unknown_calls(ctx: RunContext[Any], session: FrameworkSession) -> None:
    """Say in the last answers why a tool was not run that was not offered.

    pydantic-ai answers such a call itself, with no hook for it.
    """
    for message in ctx.messages[-1:]:
        for part in message.parts:
            if (
                isinstance(part, ToolReturnPart)
                and part.retry is not None
                and part.retry.cause == "unknown_tool"
            ):
                part.content = session.refusal(part.tool_name)
