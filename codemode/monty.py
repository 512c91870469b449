"""The embedded sandbox: pydantic-monty, a separate Python interpreter in worker processes."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtraError
from .diagnostics import type_error, with_hint
from .sandbox import HostFunction, Limits, NotJsonError, Script, ScriptError, ScriptOutcome, as_json

if TYPE_CHECKING:
    from pydantic_monty import (
        AsyncMonty,
        AsyncMontySession,
        CollectString,
        MontyRuntimeError,
        MontySyntaxError,
    )

#: Most scripts that run at the same time. Each needs a process of some 34 MB.
MAX_RUNNING_SCRIPTS = 8
#: Most seconds that a script waits for a process.
_PROCESS_WAIT_SECONDS = 60.0
#: Threads of pydantic-monty may still call the interpreter after the processes have ended. A
#: program that exits at once would then be aborted.
_SETTLE_SECONDS = 0.05
#: Most exchanges between sandbox and host. A call needs up to three.
_EXCHANGES_PER_CALL = 4
#: Text of a call without `await` that leaves the sandbox.
_UNAWAITED_CALL = re.compile(r"<coroutine (?:object \S+|external_future\(\d+\))>")
_AWAIT_ADVICE = "write `await` before each call, or `await asyncio.gather(*calls)`"
#: Names that the sandbox has but its type checker does not know.
_STUBS_OF_UNKNOWN_NAMES = "".join(
    [f"{name}: Any\n" for name in ("filter", "format", "getattr", "hasattr", "map", "setattr")]
    + [
        f"class {name}Error({base}): ...\n"
        for base, names in (
            ("OSError", "FileExists FileNotFound IsADirectory NotADirectory Permission"),
            ("NameError", "UnboundLocal"),
            ("ValueError", "UnicodeDecode UnicodeEncode"),
            ("Exception", "Import ModuleNotFound"),
        )
        for name in names.split()
    ]
)


class MontySandbox:
    """Runs scripts with pydantic-monty: no files, network, environment or imports of the host.

    A process is kept ready after the first script. For one event loop of asyncio.

    Raises:
        MissingExtraError: the extra `code` is not installed.
    """

    #: Whether scripts are checked against their stubs before they run.
    type_check = True

    def __init__(self) -> None:
        try:
            import pydantic_monty  # noqa: F401
        except ImportError as missing:
            raise MissingExtraError("code mode", "code") from missing
        self._pool: AsyncMonty | None = None
        self._opening = asyncio.Lock()

    async def run(self, script: Script, limits: Limits) -> ScriptOutcome:
        """Check a script against its stubs, then run it."""
        if len(script.code) > limits.code_chars:
            text = f"the script has {len(script.code):,} characters; at most {limits.code_chars:,}"
            return ScriptOutcome(value=None, output="", error=ScriptError("limit", text))
        try:
            async with asyncio.timeout(limits.total_seconds):
                return await self._run(script, limits)
        except TimeoutError:
            text = f"the script and its calls took longer than {limits.total_seconds:g} seconds"
            return ScriptOutcome(value=None, output="", error=ScriptError("limit", text))

    async def _run(self, script: Script, limits: Limits) -> ScriptOutcome:
        from pydantic_monty import (
            CollectString,
            MontyCrashedError,
            MontyRuntimeError,
            MontySyntaxError,
        )

        pool = await self._open_pool()
        printed = CollectString(limits.printed_chars)
        calls = _CallTasks()
        checkout = pool.checkout(
            limits={
                "max_feed_duration_secs": limits.seconds,
                "max_memory": limits.memory_bytes,
                "max_recursion_depth": limits.call_depth,
                "max_suspensions": _EXCHANGES_PER_CALL * limits.calls + 100,
                "max_total_sleep_secs": limits.total_seconds,
            },
            os_policy={"sleep_system_max": math.inf},
            type_check=self.type_check,
            type_check_stubs=f"{script.stubs}\n{_STUBS_OF_UNKNOWN_NAMES}",
            type_check_format="json",
        )
        try:
            async with checkout as session:
                try:
                    value = await self._run_checked(session, script, calls, printed)
                finally:
                    unawaited = await calls.cancel_all()
            if unawaited:
                return ScriptOutcome(
                    value=None, output=printed.output, error=_unawaited_error(unawaited)
                )
            return ScriptOutcome(
                value=as_json(_without_class_proxies(value), strict=False), output=printed.output
            )
        except _TypeCheckError as error:
            return ScriptOutcome(value=None, output="", error=error.script_error)
        except TimeoutError:
            text = f"{MAX_RUNNING_SCRIPTS} scripts are running and none ended; run it again later"
            return ScriptOutcome(value=None, output="", error=ScriptError("sandbox", text))
        except MontySyntaxError as error:
            return ScriptOutcome(value=None, output="", error=_syntax_error(error))
        except MontyRuntimeError as error:
            return ScriptOutcome(
                value=None, output=printed.output, error=_runtime_error(error, limits)
            )
        except MontyCrashedError as error:
            crash = ScriptError("sandbox", "the sandbox crashed; run a simpler script")
            if error.timed_out:
                crash = ScriptError("limit", f"the script worked longer than {limits.seconds:g} s")
            return ScriptOutcome(value=None, output=printed.output, error=crash)
        except NotJsonError as error:
            text = f"the result cannot be returned: {error}"
            return ScriptOutcome(
                value=None, output=printed.output, error=ScriptError("runtime", text)
            )
        except (ValueError, RecursionError) as error:
            # Numbers that are too long, and values that are nested too deeply to leave the sandbox.
            text = f"the result cannot be returned: {str(error)[:200]}"
            return ScriptOutcome(
                value=None, output=printed.output, error=ScriptError("runtime", text)
            )

    async def _run_checked(
        self, session: AsyncMontySession, script: Script, calls: _CallTasks, printed: CollectString
    ) -> Any:
        """The value of the script. Raises _TypeCheckError if the check finds errors."""
        from pydantic_monty import MontyTypingError

        for with_type_check in (True, False):
            try:
                return await session.feed_run(
                    script.code,
                    external_lookup=_script_globals(script, calls),
                    print_callback=printed,
                    skip_type_check=not with_type_check,
                )
            except MontyTypingError as error:
                if script_error := type_error(error.display(), script):
                    raise _TypeCheckError(script_error) from None
        return None

    async def _open_pool(self) -> AsyncMonty:
        from pydantic_monty import AsyncMonty

        async with self._opening:
            if self._pool is None:
                pool = AsyncMonty(
                    min_processes=1,
                    max_processes=MAX_RUNNING_SCRIPTS,
                    checkout_timeout=_PROCESS_WAIT_SECONDS,
                )
                await pool.__aenter__()
                self._pool = pool
        return self._pool

    async def aclose(self) -> None:
        """End the processes."""
        async with self._opening:
            pool, self._pool = self._pool, None
            if pool is not None:
                await pool.__aexit__(None, None, None)
                await asyncio.sleep(_SETTLE_SECONDS)


class _CallTasks:
    """The calls of one script. Each is a task, so that none continues after the script."""

    def __init__(self) -> None:
        self._running: dict[asyncio.Task[Any], str] = {}

    async def run(self, name: str, call: Awaitable[Any]) -> Any:
        task = asyncio.ensure_future(call)
        self._running[task] = name
        task.add_done_callback(lambda finished_task: self._running.pop(finished_task, None))
        return await task

    async def cancel_all(self) -> list[str]:
        """Cancel the running calls. Returns their functions."""
        running = dict(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        return list(running.values())


class _TypeCheckError(Exception):
    """A script that does not match its stubs."""

    def __init__(self, script_error: ScriptError) -> None:
        super().__init__(script_error.message)
        self.script_error = script_error


def _script_globals(script: Script, calls: _CallTasks) -> dict[str, Any]:
    """Looks up a script's names: servers, functions, and functions of servers as values."""
    lookup = {
        name: _host_function(name, name, function, calls)
        for name, function in script.host_functions.items()
    }
    for server, names in script.functions_by_server.items():
        host_functions = {
            name: _host_function(
                f"{server}__{name}", f"{server}.{name}", _tool_function(script, server, name), calls
            )
            for name in names
        }
        lookup[server] = _namespace(script, server, host_functions, calls)
        lookup |= {function.__name__: function for function in host_functions.values()}
    return lookup


def _tool_function(script: Script, server: str, name: str) -> HostFunction:
    """A tool as a function of plain arguments."""

    def call_tool(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Awaitable[Any]:
        try:
            plain = {key: _without_class_proxies(value) for key, value in kwargs.items()}
        except NotJsonError as error:
            raise ValueError(f"{server}.{name}: an argument cannot be sent: {error}") from None
        return script.call_tool(server, name, args, plain)

    return call_tool


def _host_function(name: str, label: str, function: HostFunction, calls: _CallTasks) -> Any:
    """A function of the host. The sandbox finds a function that is a value by its name."""

    async def call_host(*args: Any, **kwargs: Any) -> Any:
        return await calls.run(label, function(args, kwargs))

    call_host.__name__ = call_host.__qualname__ = name
    return call_host


def _namespace(script: Script, server: str, functions: Mapping[str, Any], calls: _CallTasks) -> Any:
    """A server as an object of the sandbox, with functions only."""
    from pydantic_monty import ClassInstance

    class Namespace(ClassInstance):
        def call_method(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return calls.run(f"{server}.{name}", _tool_function(script, server, name)(args, kwargs))

        def lookup_lazy_attrs(self, name: str) -> Any:
            if name not in functions:
                raise AttributeError(name)
            return functions[name]

    return Namespace(type(server, (), {"__module__": "servers"})())


def _without_class_proxies(value: Any) -> Any:
    """A value in which dicts of fields replace the objects of the script's classes."""
    from pydantic_monty import MontyClassProxy

    if isinstance(value, str) and _UNAWAITED_CALL.fullmatch(value):
        raise NotJsonError(f"it has a call that was not awaited; {_AWAIT_ADVICE}")
    if isinstance(value, MontyClassProxy):
        return {name: _without_class_proxies(item) for name, item in value.attributes.items()}
    if isinstance(value, list | tuple):
        return [_without_class_proxies(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_class_proxies(item) for key, item in value.items()}
    return value


def _unawaited_error(functions: list[str]) -> ScriptError:
    names = ", ".join(dict.fromkeys(functions))
    text = (
        f"the script ended before its calls: {len(functions)} of {names} were cancelled; "
        f"{_AWAIT_ADVICE}"
    )
    return ScriptError("runtime", text)


def _syntax_error(error: MontySyntaxError) -> ScriptError:
    frames = error.traceback()
    return ScriptError("syntax", error.display("msg")[:1_000], frames[-1].line if frames else None)


def _runtime_error(error: MontyRuntimeError, limits: Limits) -> ScriptError:
    frames, inner, text = error.traceback(), error.exception(), error.display("msg")[:2_000]
    line = frames[-1].line if frames else None
    if isinstance(inner, NotImplementedError) and "monty" in text:
        feature = text.rpartition("support ")[2] or text
        return ScriptError("syntax", with_hint(f"the sandbox's Python lacks {feature}"), line)
    if isinstance(inner, TimeoutError) and "time limit exceeded" in text:
        return ScriptError("limit", f"the script worked longer than {limits.seconds:g} seconds")
    if isinstance(inner, TimeoutError) and "sleep" in text:
        text = f"the script slept longer than {limits.total_seconds:g} seconds"
        return ScriptError("limit", text, line)
    if isinstance(inner, MemoryError):
        if text.endswith(f"> {limits.printed_chars} bytes"):
            return ScriptError(
                "limit", f"more than {limits.printed_chars:,} characters were printed"
            )
        return ScriptError("limit", f"more than {limits.memory_bytes:,} bytes of memory", line)
    if isinstance(inner, RecursionError):
        return ScriptError("limit", f"functions nested deeper than {limits.call_depth} calls", line)
    if isinstance(inner, RuntimeError) and text.startswith("suspension limit"):
        return ScriptError("limit", f"more than {limits.calls:,} calls of tools", line)
    return ScriptError("runtime", with_hint(error.display("type-msg")[:2_000]), line)
