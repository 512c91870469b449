"""LangChain: a middleware that offers an agent the tools that each turn needs.

It finds the tools, keeps them for the conversation, and checks every call. A call that does not
pass is answered with what to change. Needs the extra `langchain`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Unpack

from ..errors import MissingExtraError
from ..gating import State
from ..loaders.detail import Detail
from ..loaders.render.provider_tools import provider_name
from .hosted_sessions import Conversations, HostedSession, HostMessage

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest
    from langchain.tools.tool_node import ToolCallRequest
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        HumanMessage,
        SystemMessage,
        ToolMessage,
    )
    from langchain_core.tools import BaseTool
    from langgraph.config import get_config
    from langgraph.types import Command
except ImportError as missing:
    raise MissingExtraError("the middleware for LangChain", "langchain") from missing

from .langchain_tools import AgentTools

if TYPE_CHECKING:
    from ..engine import Engine
    from ..session import Session
    from ..setting_types import SessionSettings

__all__ = ["ShortlistMiddleware"]

#: The format of sessions; LangChain turns definitions of OpenAI into those of any provider.
_FORMAT = "openai"
_ROLES = ((HumanMessage, "user"), (AIMessage, "assistant"), (ToolMessage, "tool"))


class ShortlistMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Offers the model only the tools that a turn needs, as a session does.

    All tools are registered with the agent. The model sees the definitions of a few, and lines in
    the system message about others, which it calls through `call_tool`.

    Conversations are identified by their `thread_id`, or without one by their first message. Other
    tools of the agent are always offered, and their calls are not checked.

    Args:
        tools: LangChain tools to choose from.
        engine: `Engine.from_tools(tools, ...)`; give one to set rules, a tier or an encoder.
        state: the state of the agent, or a function from the run's context to the state.
        always: names or ids of tools that are offered in every turn.
        settings: settings of `SessionConfig`, such as `k`, `tier`, `events`.

    Raises:
        ConfigError: an unknown setting, or a wrong value.
        RequestError: two tools have the same name, or the engine has tools that are not among
            `tools`.
        UnknownToolError: a tool of `always` does not exist.
    """

    def __init__(
        self,
        tools: Sequence[BaseTool],
        *,
        engine: Engine | None = None,
        state: State | Callable[[Any], State] | None = None,
        always: Sequence[str] = (),
        **settings: Unpack[SessionSettings],
    ) -> None:
        super().__init__()
        self._agent_tools = AgentTools(tools, engine)
        self.tools = list(self._agent_tools.by_name.values())
        self.engine = self._agent_tools.engine
        self._state = State() if state is None else state
        pinned = [
            self._agent_tools.id_of(name) or self.engine.catalog.get(name).id for name in always
        ]
        self._settings: SessionSettings = {
            **settings,
            "pinned": (*settings.get("pinned", ()), *pinned),
        }
        self._conversations = Conversations()
        self._begin_session("settings are checked now")

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]
    ) -> Any:
        """Offer the tools of this turn to the model."""
        return handler(self._offer_tools(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]
    ) -> Any:
        """The same without blocking the event loop."""
        return await handler(await asyncio.to_thread(self._offer_tools, request))

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """Check a call. Run it if it passes, otherwise answer with what to change."""
        checked = self._check_call(request)
        return checked if isinstance(checked, ToolMessage) else handler(checked)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """The same without blocking the event loop."""
        checked = await asyncio.to_thread(self._check_call, request)
        return checked if isinstance(checked, ToolMessage) else await handler(checked)

    def session(self, thread_id: str) -> Session | None:
        """The session of a conversation; None if it is not in memory."""
        return self._conversations.get(thread_id)

    def _offer_tools(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """The request with the tools of this turn, after the agent's other tools."""
        with self._conversation(request) as conversation:
            session = conversation.session
            conversation.read([_host_message(message) for message in request.messages])
            session.refresh()
            offered = self._offered_tools(session)
            pool = None if session.passes_through else session.system
            passing = _passing_text(session)
        other_tools = [
            tool
            for tool in request.tools
            if isinstance(tool, dict) or self._agent_tools.by_name.get(tool.name) is not tool
        ]
        changes: dict[str, Any] = {"tools": [*other_tools, *offered]}
        if pool:
            changes["system_message"] = _system_message(request, pool)
        if passing:
            changes["messages"] = [*request.messages, HumanMessage(passing)]
        return request.override(**changes)

    def _offered_tools(self, session: Session) -> list[BaseTool | dict[str, Any]]:
        """The tools in the session's prompt, under the names that they have in LangChain.

        A tool that the prompt shows in full is LangChain's own. Of others, such as `call_tool`, it
        is the definition that the session renders.
        """
        if session.passes_through:
            return [*self._agent_tools.runnable(tool.id for tool in session.view().tools())]
        details = {} if session.shown is None else session.shown.details
        names = {provider_name(tool_id): tool_id for tool_id in details}
        offered: list[BaseTool | dict[str, Any]] = []
        for definition in session.tools:
            function = definition["function"]
            tool_id = names.get(function["name"])
            if tool_id is None:
                offered.append(dict(definition))
            elif details[tool_id] is Detail.FULL:
                offered += self._agent_tools.runnable([tool_id])
            else:
                name = self._agent_tools.name_of(tool_id)
                offered.append({**definition, "function": {**function, "name": name}})
        return offered

    def _check_call(self, request: ToolCallRequest) -> ToolCallRequest | ToolMessage:
        """The call if it passes, otherwise the answer to it."""
        call = request.tool_call
        if call["name"] not in self._agent_tools.by_name and request.tool is not None:
            return request  # a tool from elsewhere
        with self._conversation(request) as conversation:
            verdict = conversation.check(str(call["id"]), call["name"], call["args"])
        if verdict.passed and verdict.tool is not None:
            name = verdict.tool.name
            return request.override(
                tool=self._agent_tools.by_name[name],
                tool_call={**call, "name": name, "args": dict(verdict.arguments)},
            )
        text = verdict.named(self._agent_tools.name_of).text
        return ToolMessage(text, name=call["name"], tool_call_id=call["id"], status="error")

    @contextmanager
    def _conversation(
        self, request: ModelRequest[Any] | ToolCallRequest
    ) -> Iterator[HostedSession]:
        """The conversation of a run, locked for this thread, with the agent's present state."""
        messages, context = request.state["messages"], request.runtime.context
        thread = get_config().get("configurable", {}).get("thread_id")
        first_id = messages[0].id if messages else None
        state = self._state(context) if callable(self._state) else self._state
        key = str(first_id if thread is None else thread)
        with self._conversations.open(
            key, lambda key: self._begin_session(key, messages)
        ) as hosted:
            hosted.session.state = state.continuing(hosted.session.state)
            hosted.session.allowed = self._agent_tools.allowed()
            yield hosted

    def _begin_session(self, key: str, messages: Sequence[BaseMessage] = ()) -> Session:
        """A new conversation. Tools with answers in the messages count as called."""
        state = State()
        for message in messages:
            if isinstance(message, ToolMessage) and message.status != "error":
                tool_id = self._agent_tools.id_of(message.name or "")
                state = state if tool_id is None else self.engine.after_call(state, tool_id)
        return self.engine.session(format=_FORMAT, state=state, session_id=key, **self._settings)


def _host_message(message: BaseMessage) -> HostMessage:
    """A LangChain message as a `HostMessage`."""
    role = next((role for kind, role in _ROLES if isinstance(message, kind)), "other")
    answer = message if isinstance(message, ToolMessage) else None
    return HostMessage(
        role,  # type: ignore[arg-type]
        message.text,
        message.id,
        None if answer is None else answer.tool_call_id,
        answer is None or answer.status != "error",
    )


def _passing_text(session: Session) -> str:
    """Texts about tools that follow the conversation in this model call only."""
    if session.shown is None or session.passes_through:
        return ""
    batches = [*session.shown.rendered.messages, session.shown.passing]
    return "\n".join(str(message["content"]) for batch in batches for message in batch)


def _system_message(request: ModelRequest[Any], pool: str) -> SystemMessage:
    """The agent's system message followed by the pool, with a cache breakpoint at the end."""
    system_message = request.system_message
    anthropic = request.model._llm_type == "anthropic-chat"
    if system_message is not None and isinstance(system_message.content, str) and not anthropic:
        return SystemMessage(f"{system_message.content}\n\n{pool}")
    block: dict[str, Any] = {"type": "text", "text": pool}
    if anthropic:
        block["cache_control"] = {"type": "ephemeral"}
    if system_message is None:
        return SystemMessage([block] if anthropic else pool)
    content = system_message.content
    blocks: list[Any] = (
        [{"type": "text", "text": content}] if isinstance(content, str) else [*content]
    )
    return SystemMessage([*blocks, block])
