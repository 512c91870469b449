"""The embedded sandbox: pydantic-monty, a Python interpreter of its own in worker processes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtraError
from .diagnostics import is_certain, type_error
from .limits import Limits
from .sandbox import HostCall, HostFunction, NotPlainError, Outcome, Script, ScriptError, as_json

if TYPE_CHECKING:
    from pydantic_monty import AsyncMonty, MontyRuntimeError, MontySyntaxError

#: Scripts that run at the same time; each takes a process of some 34 MB while it runs.
_PROCESSES = 8
#: Seconds a script waits for a process.
_WAIT = 60.0
#: The library's own threads may still report to the interpreter when all processes have ended;
#: a program that exits at once is then aborted.
_SETTLE = 0.05
#: Turns between sandbox and host: a call takes up to three.
_TURNS = 4
_SLEEP = 10.0


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

    async def run(self, script: Script, limits: Limits) -> Outcome:
        """Check a script against its stubs, then run it."""
        if len(script.code) > limits.code:
            text = f"the script has {len(script.code):,} characters; at most {limits.code:,}"
            return Outcome(None, "", ScriptError("limit", text))
        try:
            async with asyncio.timeout(limits.total_seconds):
                return await self._run(script, limits)
        except TimeoutError:
            text = f"the script and its calls took longer than {limits.total_seconds:g} seconds"
            return Outcome(None, "", ScriptError("limit", text))

    async def _run(self, script: Script, limits: Limits) -> Outcome:
        from pydantic_monty import MontyTypingError

        try:
            return await self._fed(script, script.stubs, limits)
        except MontyTypingError as error:
            strict = error.display()
        if not is_certain(strict):
            try:
                return await self._fed(script, script.loose_stubs, limits)
            except MontyTypingError as error:
                strict = error.display()
        return Outcome(None, "", type_error(strict, script.code, script.unknown))

    async def _fed(self, script: Script, stubs: str, limits: Limits) -> Outcome:
        """Run with one set of stubs; raises MontyTypingError if the script does not fit them."""
        from pydantic_monty import (
            CollectString,
            MontyCrashedError,
            MontyRuntimeError,
            MontySyntaxError,
        )

        pool = await self._opened()
        printed = CollectString(limits.printed)
        calls = _Calls()
        checkout = pool.checkout(
            limits={
                "max_feed_duration_secs": limits.seconds,
                "max_memory": limits.memory,
                "max_recursion_depth": limits.depth,
                "max_suspensions": _TURNS * limits.calls + 100,
                "max_total_sleep_secs": _SLEEP,
            },
            type_check=self.type_check,
            type_check_stubs=stubs,
            type_check_format="json",
        )
        try:
            async with checkout as session:
                try:
                    value = await session.feed_run(
                        script.code,
                        external_lookup={
                            name: _namespace(name, script.call, calls) for name in script.namespaces
                        }
                        | {name: _function(one, calls) for name, one in script.functions.items()},
                        print_callback=printed,
                    )
                finally:
                    await calls.end()
            return Outcome(as_json(value, strict=False), printed.output)
        except TimeoutError:
            text = f"{_PROCESSES} scripts are running and none ended; run it again later"
            return Outcome(None, "", ScriptError("sandbox", text))
        except MontySyntaxError as error:
            return Outcome(None, "", _syntax(error))
        except MontyRuntimeError as error:
            return Outcome(None, printed.output, _runtime(error, limits))
        except MontyCrashedError as error:
            crash = ScriptError("sandbox", "the sandbox crashed; run a simpler script")
            if error.timed_out:
                crash = ScriptError("limit", f"the script worked longer than {limits.seconds:g} s")
            return Outcome(None, printed.output, crash)
        except NotPlainError as error:
            text = f"the last expression cannot be returned: {error}"
            return Outcome(None, printed.output, ScriptError("runtime", text))
        except (ValueError, RecursionError) as error:
            # Numbers too long to be written, and values nested too deep to leave the sandbox.
            text = f"the last expression cannot be returned: {str(error)[:200]}"
            return Outcome(None, printed.output, ScriptError("runtime", text))

    async def _opened(self) -> AsyncMonty:
        from pydantic_monty import AsyncMonty

        async with self._opening:
            if self._pool is None:
                pool = AsyncMonty(min_processes=1, max_processes=_PROCESSES, checkout_timeout=_WAIT)
                await pool.__aenter__()
                self._pool = pool
        return self._pool

    async def aclose(self) -> None:
        """End the processes."""
        async with self._opening:
            pool, self._pool = self._pool, None
            if pool is not None:
                await pool.__aexit__(None, None, None)
                await asyncio.sleep(_SETTLE)


class _Calls:
    """The calls of one script, each a task, so that none goes on after the script."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    async def make(self, call: Awaitable[Any]) -> Any:
        task = asyncio.ensure_future(call)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await task

    async def end(self) -> None:
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _namespace(server: str, call: HostCall, calls: _Calls) -> Any:
    """A server as an object of the sandbox: it has functions, and nothing else of the host."""
    from pydantic_monty import ClassInstance

    class Namespace(ClassInstance):
        def call_method(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return calls.make(call(server, name, args, kwargs))

    return Namespace(type(server, (), {})())


def _function(function: HostFunction, calls: _Calls) -> Any:
    async def called(*args: Any, **given: Any) -> Any:
        return await calls.make(function(args, given))

    return called


def _syntax(error: MontySyntaxError) -> ScriptError:
    frames = error.traceback()
    return ScriptError("syntax", error.display("msg")[:1_000], frames[-1].line if frames else None)


def _runtime(error: MontyRuntimeError, limits: Limits) -> ScriptError:
    frames, inner, text = error.traceback(), error.exception(), error.display("msg")[:2_000]
    line = frames[-1].line if frames else None
    if isinstance(inner, NotImplementedError) and "monty" in text:
        missing = text.rpartition("support ")[2] or text
        return ScriptError("syntax", f"the sandbox's Python lacks {missing}", line)
    if isinstance(inner, TimeoutError) and "time limit exceeded" in text:
        return ScriptError("limit", f"the script worked longer than {limits.seconds:g} seconds")
    if isinstance(inner, TimeoutError) and "sleep" in text:
        return ScriptError("limit", f"the script slept longer than {_SLEEP:g} seconds", line)
    if isinstance(inner, MemoryError):
        if text.endswith(f"> {limits.printed} bytes"):
            return ScriptError("limit", f"more than {limits.printed:,} characters were printed")
        return ScriptError("limit", f"more than {limits.memory:,} bytes of memory", line)
    if isinstance(inner, RecursionError):
        return ScriptError("limit", f"functions nested deeper than {limits.depth} calls", line)
    if isinstance(inner, RuntimeError) and text.startswith("suspension limit"):
        return ScriptError("limit", f"more than {limits.calls:,} calls of tools", line)
    return ScriptError("runtime", error.display("type-msg")[:2_000], line)
