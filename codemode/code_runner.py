"""Runs a model's script over the tools of a session."""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Self

from ..catalog import Catalog, Tool
from ..errors import RequestError
from ..gating.condition import Mask
from ..view import View
from .broker import NOBODY_TO_ASK, Broker, CallChecks, CallTool
from .code_result import CodeResult
from .extract import EXTRACT_STUB, ExtractModel, Extractor
from .grants import Approve, Flow, Grant, always_needs_approval
from .monty import MontySandbox
from .sandbox import HostFunction, Limits, Sandbox, Script, ScriptError
from .script_names import EXTRACT_NAME, IMPORTABLE_MODULES, ToolNames
from .stubs import Stubs

#: Most tools in the stubs for the check of one script.
_MAX_STUB_TOOLS = 300
#: Most catalog versions and profiles whose names are kept.
_MAX_CACHED_NAMES = 16
_WORD = re.compile(r"\w+")


class CodeRunner:
    """Runs scripts and keeps a process ready for the next one. For one asyncio event loop.

    Args:
        sandbox: runs the scripts; pydantic-monty by default.
        limits: limits of one script.

    Raises:
        MissingExtraError: no sandbox is given and the extra `code` is not installed.

    Example:
        >>> import asyncio
        >>> from shortlist import Engine, Tool
        >>> from shortlist.codemode import CodeRunner
        >>> tools = [Tool("add", "math_srv", "Adds.", {"properties": {"a": {}, "b": {}}})]
        >>> async def call(tool, arguments):
        ...     return arguments["a"] + arguments["b"]
        >>> async def main():
        ...     session = Engine.from_tools(tools, tiers=["lexical"]).session()
        ...     async with CodeRunner() as runner:
        ...         return await runner.run(session, "await math_srv.add(a=1, b=2)", call)
        >>> asyncio.run(main()).value
        3
    """

    def __init__(self, sandbox: Sandbox | None = None, *, limits: Limits | None = None) -> None:
        self._sandbox = MontySandbox() if sandbox is None else sandbox
        self._limits = limits or Limits()
        #: Catalog version and visible rows to names: one entry for each profile of a gateway.
        self._cached_names: list[tuple[Catalog, Mask | None, ToolNames]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the sandbox's processes."""
        await self._sandbox.aclose()

    async def run(
        self,
        checks: CallChecks,
        code: str,
        call: CallTool,
        *,
        grants: Iterable[Grant] = (),
        flows: Iterable[Flow] = (),
        approve: Approve | None = None,
        extract: ExtractModel | None = None,
        missing_servers: Mapping[str, str] = MappingProxyType({}),
    ) -> CodeResult:
        """Run a script. Its errors are in the result. Cancelling stops it.

        Args:
            checks: a `Session`, or an object that checks and records calls like one.
            code: the script. Its result is the last expression, or the value of `return`.
            call: function that calls a tool with checked arguments. It returns the result as JSON,
                or raises `ToolCallError` if the tool reports an error.
            grants: which tools the script may call. The first grant that matches a tool decides.
                Without one, a tool with `destructiveHint` needs approval, and other tools are
                allowed.
            flows: pairs of servers between which the script must not pass data.
            approve: function that asks a person to approve a call. Without it, calls that need
                approval are refused.
            extract: a small model for `extract(value, kind)`: a command that reads a prompt on
                stdin and answers on stdout, or a function. Without it there is no `extract`.
            missing_servers: server whose tools are not known now, to the reason that a script which
                calls them is told, such as `failed: its program is not installed`.

        Raises:
            RequestError: `code` is not a text, or `extract` is neither a command nor a function.
        """
        if not isinstance(code, str):
            raise RequestError(f"code: must be a text, not {type(code).__name__}")
        view = checks.view()
        names = self._names_of(view)
        code = _with_namespaces(code, names)
        grants = tuple(grants)
        broker = Broker(
            checks=checks,
            names=names,
            call=call,
            code=code,
            grants=grants,
            flows=tuple(flows),
            approve=approve,
            call_limit=self._limits.calls,
            missing_servers=missing_servers,
        )
        script_tools, servers = await asyncio.to_thread(_tools_in_script, view.tools(), names, code)
        if approve is None and (error := _unapprovable(view, script_tools, names, code, grants)):
            return CodeResult(value=None, output="", calls=(), error=error)
        stubs = Stubs(script_tools, names, namespaces=servers).text()
        functions: dict[str, HostFunction] = {}
        if extract is not None:
            extract_limit = self._limits.extracts
            functions[EXTRACT_NAME] = Extractor(
                extract, limit=extract_limit, require_permission=broker.require_extract_permission
            ).call
            stubs += EXTRACT_STUB
        script = Script(
            code=code,
            stubs=stubs,
            functions_by_server=servers,
            call_tool=broker.call,
            explain_unknown=broker.explain_unknown,
            host_functions=functions,
        )
        outcome = await self._sandbox.run(script, self._limits)
        return CodeResult(
            value=outcome.value,
            output=outcome.output,
            calls=tuple(broker.calls),
            error=outcome.error,
        )

    def stubs(self, view: View, tools: Iterable[Tool], grants: Iterable[Grant] = ()) -> str:
        """The stubs of tools, for a model that writes a script.

        Args:
            view: the permitted tools.
            tools: tools of the view's catalog.
            grants: as for `run`. The stub of a tool of which each call needs approval says so.
        """
        tools, grants = list(tools), tuple(grants)
        asking_ids = [tool.id for tool in tools if always_needs_approval(view, tool, grants)]
        return Stubs(tools, self._names_of(view), asking_ids=asking_ids).for_model()

    def _names_of(self, view: View) -> ToolNames:
        """The names of the tools that exist for the caller. Hidden tools do not change them."""
        catalog, visible = view.catalog, view.admission.visible
        for named_catalog, named_rows, names in self._cached_names:
            if named_catalog is catalog and named_rows is visible:
                return names
        names = ToolNames(tool for tool in catalog if view.exists(tool.id))
        present = [entry for entry in self._cached_names if entry[0] is catalog]
        self._cached_names = [*present[1 - _MAX_CACHED_NAMES :], (catalog, visible, names)]
        return names


async def run_code(
    session: CallChecks,
    code: str,
    call: CallTool,
    *,
    limits: Limits | None = None,
    **options: Any,
) -> CodeResult:
    """Run one script; see `CodeRunner.run`, also for the options. `CodeRunner` is faster for more.

    Raises:
        MissingExtraError: the extra `code` is not installed.
        RequestError: `code` is not a text.
    """
    async with CodeRunner(limits=limits) as runner:
        return await runner.run(session, code, call, **options)


def _with_namespaces(code: str, names: ToolNames) -> str:
    """The script with `csv_` for `csv` where a server has this name and the module is not imported.

    A model knows the tools as `csv/query`, and a server with the name of a module is `csv_`.
    """
    servers = {name[:-1] for name in names.namespaces if name[:-1] in IMPORTABLE_MODULES}
    tree = _tree_of(code) if servers.intersection(_WORD.findall(code)) else None
    if tree is None:
        return code
    nodes = list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            servers -= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.arg):
            servers.discard(node.arg)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            servers.discard(node.id)
    ends = {
        (node.lineno, node.end_col_offset or 0): node.id.encode()
        for node in nodes
        if isinstance(node, ast.Name) and node.id in servers
    }
    # Python counts lines that end with a line feed, and bytes.
    lines = [line.encode() for line in re.split(r"(?<=\n)", code)]
    for (number, end), name in sorted(ends.items(), reverse=True):
        line = lines[number - 1]
        if line[:end].endswith(name):  # before Python 3.12, places inside f-strings may be wrong
            lines[number - 1] = line[:end] + b"_" + line[end:]
    return b"".join(lines).decode()


def _tools_in_script(
    tools: Iterable[Tool], names: ToolNames, code: str
) -> tuple[list[Tool], dict[str, tuple[str, ...]]]:
    """The permitted tools whose server and function are in the script.

    And each server in the script, to the functions of these tools: a call of the script may permit
    those of a server without one.
    """
    words = set(_WORD.findall(code))
    script_tools: list[Tool] = []
    functions: dict[str, tuple[str, ...]] = {
        namespace: () for namespace in names.namespaces if namespace in words
    }
    for tool in tools:
        namespace, function = names.function_of(tool.id)
        if {namespace, function} <= words and len(script_tools) < _MAX_STUB_TOOLS:
            script_tools.append(tool)
            functions[namespace] = (*functions[namespace], function)
    return script_tools, functions


def _unapprovable(
    view: View, tools: Iterable[Tool], names: ToolNames, code: str, grants: tuple[Grant, ...]
) -> ScriptError | None:
    """The error of a script with a call that needs approval each time, where nobody can be asked.

    Such a script would fail in the middle, after it had changed things.
    """
    called = _calls_in(code)
    for tool in tools:
        namespace, function = names.function_of(tool.id)
        line = called.get((namespace, function))
        if line is not None and always_needs_approval(view, tool, grants):
            return ScriptError("type", f"{namespace}.{function}: {NOBODY_TO_ASK}", line)
    return None


def _calls_in(code: str) -> dict[tuple[str, str], int]:
    """Server and function of each call in a script, with the line of the first."""
    tree = _tree_of(code)
    called: dict[tuple[str, str], int] = {}
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            called.setdefault((node.value.id, node.attr), node.lineno)
    return called


def _tree_of(code: str) -> ast.AST | None:
    """The script as a tree; None if it has none: the sandbox says what is wrong."""
    try:
        flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree = compile(code, "script", "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree if isinstance(tree, ast.AST) else None
