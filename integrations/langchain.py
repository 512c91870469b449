"""LangChain: a middleware that offers an agent the tools that each turn needs, and code mode.

The middleware checks every call, and answers one that does not pass with what to change. Needs the
extra `langchain`; `code_tools` also needs `code`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from ..catalog import Catalog, Tool
from ..engine import Engine
from ..errors import MissingExtraError, RequestError, ToolCallError
from ..gating.verdict import Verdict
from ..session.reply_handler import finish_in_thread
from .framework_tools import (
    SEARCH_TOOL,
    ApprovalNeeded,
    CallRefused,
    FrameworkSession,
    FrameworkTools,
    PastCall,
    StateOf,
    tool_id_of_name,
    unless_set,
)

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest
    from langchain.tools import ToolRuntime
    from langchain.tools.tool_node import ToolCallRequest
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        HumanMessage,
        SystemMessage,
        ToolMessage,
    )
    from langchain_core.tools import BaseTool, StructuredTool, ToolException
    from langgraph.config import get_config
    from langgraph.types import Command, interrupt
except ImportError as missing:
    raise MissingExtraError("the middleware for LangChain", "langchain") from missing

if TYPE_CHECKING:
    from ..codemode import Flow, Grant, Limits
    from ..codemode.extract import ExtractModel
    from ..codemode.grants import Approve
    from ..session import Session
    from ..setting_types import SessionSettings

__all__ = ["ShortlistMiddleware", "code_tools"]

_TOPIC_TOKENS = 400
"""Room in the system message: for the topics of servers, or lines of few tools."""
_FIND_DESCRIPTION = (
    "Find functions for a task in plain words. Gives Python signatures, best first; call them in a "
    "script with run_code."
)


class ShortlistMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Offers the model the tools that a turn needs, and a search for others.

    All tools are registered with the agent. The model sees the definitions of a few, and in the
    system message what the servers are about. It searches for others, and calls each tool by its
    own name, so that other middlewares, such as for approvals and limits, see that name.

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
        RequestError: two tools have the same name, one has the name of the search, or the engine
            has tools that are not among `tools`.
        UnknownToolError: a tool of `always` does not exist.
    """

    def __init__(
        self,
        tools: Sequence[BaseTool],
        *,
        engine: Engine | None = None,
        state: StateOf | None = None,
        always: Sequence[str] = (),
        **settings: Unpack[SessionSettings],
    ) -> None:
        super().__init__()
        self._by_name = _tools_by_name(tools)
        self.tools = list(self._by_name.values())
        self.engine = Engine.from_tools(self.tools) if engine is None else engine
        pinned = [
            tool_id_of_name(self.engine, name) or self.engine.catalog.get(name).id
            for name in always
        ]
        session_settings: SessionSettings = {
            "pool_tokens": self.engine.config.session.pool_tokens,
            **unless_set(self.engine, {"pool_tokens": _TOPIC_TOKENS}),
            **settings,
            "pinned": (*settings.get("pinned", ()), *pinned),
        }
        self._framework_tools = _framework_tools(self.tools, self.engine, state, session_settings)

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
        """Answer a search, or check and run a call; a refused one is for the model to mend."""
        if self._is_other_tool(request):
            return handler(request)
        session, passed = self._session(request), list[Verdict]()
        with session.recording_exceptions(passed):
            checked = self._check_call(session, request, passed)
            answer = checked if isinstance(checked, ToolMessage) else handler(checked)
        self._record(session, passed, answer)
        return answer

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """The same without blocking the event loop."""
        if self._is_other_tool(request):
            return await handler(request)
        session, passed = self._session(request), list[Verdict]()
        with session.recording_exceptions(passed):
            checked = await finish_in_thread(lambda: self._check_call(session, request, passed))
            answer = checked if isinstance(checked, ToolMessage) else await handler(checked)
        await finish_in_thread(lambda: self._record(session, passed, answer))
        return answer

    def session(self, thread_id: str) -> Session | None:
        """The session of a conversation; None if it is not in memory."""
        return self._framework_tools.session_in_memory(thread_id)

    def _offer_tools(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """The request with the tools of this turn, after the agent's other tools."""
        session = self._session(request)
        offered = session.offer(_dialogue(request.messages))
        other_tools = [
            tool
            for tool in request.tools
            if isinstance(tool, dict) or self._by_name.get(tool.name) is not tool
        ]
        changes: dict[str, Any] = {"tools": [*other_tools, *offered]}
        if session.session.system:
            changes["system_message"] = _system_message(request, session.session.system)
        return request.override(**changes)

    def _is_other_tool(self, request: ToolCallRequest) -> bool:
        """Whether a call is of a tool that the agent has from elsewhere."""
        return request.tool is not None and request.tool_call["name"] not in self._by_name

    def _check_call(
        self, session: FrameworkSession, request: ToolCallRequest, passed: list[Verdict]
    ) -> ToolMessage | ToolCallRequest:
        """The call to run, if it passes, otherwise the answer to it."""
        call = request.tool_call
        name, status = call["name"], "error"
        try:
            if name in self._by_name:
                _check_or_ask(session, request, passed)
                arguments = dict(passed[0].arguments)
                return request.override(tool_call={**call, "args": arguments})
            if name == SEARCH_TOOL.name:
                text, status = session.search(call["args"]), "success"
            else:
                text = session.refusal(name, call["args"])
        except CallRefused as refusal:
            text = str(refusal)
        return ToolMessage(text, name=name, tool_call_id=call["id"], status=status)

    def _record(
        self,
        session: FrameworkSession,
        passed: Sequence[Verdict],
        answer: ToolMessage | Command[Any],
    ) -> None:
        """Record the outcome of a call that passed, from its answer."""
        for verdict in passed:
            message = answer if isinstance(answer, ToolMessage) else None
            ok = message is None or message.status != "error"
            session.session.result(verdict, "" if message is None else message.text, ok=ok)

    def _session(self, request: ModelRequest[Any] | ToolCallRequest) -> FrameworkSession:
        """The conversation of a run."""
        messages: Sequence[BaseMessage] = request.state["messages"]
        thread = get_config().get("configurable", {}).get("thread_id")
        first_id = messages[0].id if messages else None
        key = str(first_id if thread is None else thread)
        return self._framework_tools.session(key, request.runtime.context, _past_calls(messages))


def code_tools(
    tools: Sequence[BaseTool],
    *,
    engine: Engine | None = None,
    state: StateOf | None = None,
    k: int = 8,
    result_tokens: int = 4_000,
    grants: Iterable[Grant] = (),
    flows: Iterable[Flow] = (),
    approve: Approve | None = None,
    extract: ExtractModel | None = None,
    limits: Limits | None = None,
) -> list[BaseTool]:
    """`find_functions` and `run_code`, for `create_agent(tools=...)`, in place of many tools.

    The model finds functions, then runs one script over them. Each `thread_id` is one conversation.
    Its successful calls count for rules.

    Args:
        tools: tools for scripts. The rules of the engine apply.
        engine: `Engine.from_tools(tools, ...)`, for rules, a tier or an encoder of your own.
        state: state of the agent, or a function that returns it from the run's context.
        k: functions that are found at most.
        result_tokens: token budget of a script's result and output; a longer text is cut.
        grants: see `CodeRunner.run`, as are `flows`, `approve` and `extract`.
        flows: ways between servers that data must not take.
        approve: asks a person whether a call may be made.
        extract: a small model for `extract(value, kind)`.
        limits: limits of one script.

    Raises:
        MissingExtraError: the extra `code` is not installed.
        RequestError: two tools of one name, or an engine over tools that are not among them.
    """
    from ..codemode import MontySandbox, Stubs, ToolNames, run_code
    from ..codemode.description import run_code_description
    from ..codemode.grants import always_needs_approval

    MontySandbox()  # raises where the extra is missing
    by_name = _tools_by_name(tools)
    engine = Engine.from_tools(by_name.values()) if engine is None else engine
    framework_tools = _framework_tools(list(by_name.values()), engine, state, {})
    options: dict[str, Any] = {
        "grants": tuple(grants),
        "flows": tuple(flows),
        "approve": approve,
        "extract": extract,
        "limits": limits,
    }

    def session_of(runtime: ToolRuntime[Any, Any]) -> Session:
        key = str(runtime.config.get("configurable", {}).get("thread_id"))
        return framework_tools.session(key, runtime.context).session

    def find_functions(query: str, runtime: ToolRuntime[Any, Any]) -> str:
        if not query.strip():
            return "The query is empty: say what the functions are needed for."
        view = session_of(runtime).view()
        functions = [view.catalog.get(tool_id) for tool_id in view.search(query, k=k).ids]
        asking_ids = [
            tool.id for tool in functions if always_needs_approval(view, tool, options["grants"])
        ]
        stubs = Stubs(functions, ToolNames(view.catalog), asking_ids=asking_ids)
        return stubs.for_model() or "No function fits."

    async def arun_code(code: str, runtime: ToolRuntime[Any, Any]) -> str:
        async def call(tool: Tool, arguments: Mapping[str, Any]) -> Any:
            return await _run_tool(by_name[tool.name], arguments, runtime)

        result = await run_code(session_of(runtime), code, call, **options)
        text = json.dumps(result.to_dict(tokens=result_tokens), ensure_ascii=False)
        if not result.ok:
            raise ToolException(text)
        return text

    def run_script(code: str, runtime: ToolRuntime[Any, Any]) -> str:
        return asyncio.run(arun_code(code, runtime))

    return [
        StructuredTool.from_function(
            find_functions, name="find_functions", description=_FIND_DESCRIPTION
        ),
        StructuredTool.from_function(
            run_script,
            arun_code,
            name="run_code",
            description=run_code_description(
                "functions", "find_functions", extract=extract is not None
            ),
            handle_tool_error=True,
        ),
    ]


def _check_or_ask(
    session: FrameworkSession, request: ToolCallRequest, passed: list[Verdict]
) -> None:
    """Check a call. If a rule asks for a person's approval, the run pauses until it is given.

    The interrupt and its answer are those of LangChain's `HumanInTheLoopMiddleware`, of single
    calls.

    Raises:
        CallRefused: the call does not pass, or the person did not approve it.
        GraphInterrupt: nobody has answered yet.
    """
    call = request.tool_call
    try:
        session.check(call["name"], call["args"], passed)
    except ApprovalNeeded as needed:
        refusal = needed.verdict.refusal
        answer = interrupt(
            {
                "type": "tool_approval",
                "tool_call_id": call["id"],
                "name": call["name"],
                "args": dict(needed.verdict.arguments),
                "description": "" if refusal is None else refusal.reason,
            }
        )
        kind = answer.get("type") if isinstance(answer, Mapping) else answer
        if kind is True or kind == "approve":
            session.check(call["name"], call["args"], passed, approved=True)
            return
        message = answer.get("message") if isinstance(answer, Mapping) else None
        raise CallRefused(str(message or "A person did not approve this call.")) from None


async def _run_tool(
    tool: BaseTool, arguments: Mapping[str, Any], runtime: ToolRuntime[Any, Any]
) -> Any:
    """The answer of a LangChain tool as JSON. Other objects become texts."""
    from ..codemode.sandbox import NotJsonError, as_json

    try:
        value = await tool.ainvoke(dict(arguments), config=runtime.config)
    except Exception as error:
        raise ToolCallError(str(error) or type(error).__name__) from error
    try:
        return as_json(value, strict=False)
    except NotJsonError:
        return str(value)


def _framework_tools(
    tools: Sequence[BaseTool], engine: Engine, state: StateOf | None, settings: SessionSettings
) -> FrameworkTools:
    """The sessions over an engine, whose tools have to be among those of the agent."""
    framework_tools = FrameworkTools(engine, state, **settings)
    framework_tools.follow_tools(list(Catalog(tools)))
    if (allowed := framework_tools.allowed_ids) is not None:
        foreign = next(tool.id for tool in engine.catalog if tool.id not in allowed)
        raise RequestError(
            f"engine: holds {foreign!r}, which none of the tools has as its name; "
            "make it with Engine.from_tools(tools)"
        )
    return framework_tools


def _tools_by_name(tools: Iterable[BaseTool]) -> dict[str, BaseTool]:
    """The tools by name.

    Raises:
        RequestError: an item is not a tool, or two tools have the same name.
    """
    if not isinstance(tools, Iterable):
        raise RequestError(f"tools: a list of LangChain tools, not {type(tools).__name__}")
    by_name: dict[str, BaseTool] = {}
    for place, tool in enumerate(tools):
        if not isinstance(tool, BaseTool):
            raise RequestError(
                f"tools[{place}]: a LangChain tool, not {type(tool).__name__}; make one of a "
                "function with the decorator langchain_core.tools.tool"
            )
        if tool.name in by_name:
            raise RequestError(f"tools: two are named {tool.name!r}; an agent can run only one")
        by_name[tool.name] = tool
    return by_name


def _dialogue(messages: Sequence[BaseMessage]) -> list[tuple[str, str]]:
    """Role and text of each message of the user and the model."""
    return [
        ("user" if isinstance(message, HumanMessage) else "assistant", message.text)
        for message in messages
        if isinstance(message, HumanMessage | AIMessage)
    ]


def _past_calls(messages: Sequence[BaseMessage]) -> Iterator[PastCall]:
    """The calls in the messages. One that a person answered in place of the tool did not run."""
    answers = {
        message.tool_call_id: message for message in messages if isinstance(message, ToolMessage)
    }
    for message in messages:
        for call in message.tool_calls if isinstance(message, AIMessage) else ():
            answer = answers.get(call["id"] or "")
            if answer is None:
                yield PastCall(call["name"])
            else:
                ok = answer.status != "error" and "lc_source" not in answer.additional_kwargs
                yield PastCall(answer.name or call["name"], answer.text, ok)


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
