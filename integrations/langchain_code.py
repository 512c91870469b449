"""LangChain: two tools in place of many. The model finds functions, then runs one script over them.

Needs the extras `langchain` and `code`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..catalog import Tool
from ..codemode import Flow, Grant, Limits, run_code
from ..codemode.description import description
from ..codemode.extract import ExtractModel
from ..codemode.grants import Approve
from ..codemode.sandbox import NotJsonError, as_json
from ..codemode.script_names import ToolNames
from ..codemode.stubs import Stubs
from ..engine import Engine
from ..errors import MissingExtraError, ToolCallError
from ..gating import State
from ..session import Session
from .hosted_sessions import Conversations

try:
    import pydantic_monty  # noqa: F401
except ImportError as missing:
    raise MissingExtraError("code mode", "code") from missing
try:
    from langchain.tools import ToolRuntime
    from langchain_core.tools import BaseTool, StructuredTool, ToolException
except ImportError as missing:
    raise MissingExtraError("code mode for LangChain", "langchain") from missing

from .langchain_tools import AgentTools

_FIND_DESCRIPTION = (
    "Find functions for a task in plain words. Gives Python signatures, best first; call them in a "
    "script with run_code."
)


def code_tools(
    tools: Sequence[BaseTool],
    *,
    engine: Engine | None = None,
    state: State | Callable[[Any], State] | None = None,
    k: int = 8,
    result_tokens: int = 4_000,
    grants: Iterable[Grant] = (),
    flows: Iterable[Flow] = (),
    approve: Approve | None = None,
    extract: ExtractModel | None = None,
    limits: Limits | None = None,
) -> list[BaseTool]:
    """`find_functions` and `run_code`, for `create_agent(tools=...)`.

    Each `thread_id` is one conversation. Its successful calls count for rules.

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
        RequestError: two tools of one name, or an engine over tools that are not among them.
    """
    agent_tools = AgentTools(tools, engine)
    conversations = Conversations()
    initial_state = State() if state is None else state
    options: dict[str, Any] = {
        "grants": tuple(grants),
        "flows": tuple(flows),
        "approve": approve,
        "extract": extract,
        "limits": limits,
    }

    def session_of(runtime: ToolRuntime[Any, Any]) -> Session:
        key = str(runtime.config.get("configurable", {}).get("thread_id"))
        with conversations.open(
            key, lambda key: agent_tools.engine.session(session_id=key)
        ) as hosted:
            present_state = (
                initial_state(runtime.context) if callable(initial_state) else initial_state
            )
            hosted.session.state = present_state.continuing(hosted.session.state)
            hosted.session.allowed = agent_tools.allowed()
            return hosted.session

    def find_functions(query: str, runtime: ToolRuntime[Any, Any]) -> str:
        if not query.strip():
            return "The query is empty: say what the functions are needed for."
        view = session_of(runtime).view()
        functions = [view.catalog.get(tool_id) for tool_id in view.search(query, k=k).ids]
        return Stubs(functions, ToolNames(view.catalog)).for_model() or "No function fits."

    async def arun_code(code: str, runtime: ToolRuntime[Any, Any]) -> str:
        async def call(tool: Tool, arguments: Mapping[str, Any]) -> Any:
            return await _run_tool(agent_tools.by_name[tool.name], arguments, runtime)

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
            description=description("functions", "find_functions", extract=extract is not None),
            handle_tool_error=True,
        ),
    ]


async def _run_tool(
    tool: BaseTool, arguments: Mapping[str, Any], runtime: ToolRuntime[Any, Any]
) -> Any:
    """The answer of a LangChain tool as JSON. Other objects become texts."""
    try:
        value = await tool.ainvoke(dict(arguments), config=runtime.config)
    except Exception as error:
        raise ToolCallError(str(error) or type(error).__name__) from error
    try:
        return as_json(value, strict=False)
    except NotJsonError:
        return str(value)
