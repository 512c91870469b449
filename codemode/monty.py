"""The embedded sandbox: pydantic-monty, a separate Python interpreter in worker processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from ..errors import MissingExtraError
from ..untrusted import MAX_MESSAGE_BYTES
from ..untrusted.value_count import is_small
from .diagnostics import type_error, with_hint
from .sandbox import Limits, Script, ScriptError, ScriptOutcome
from .script_process import AWAIT_ADVICE, message_line, message_of

#: Most scripts that run at the same time. Each needs two processes of some 60 MB together.
MAX_RUNNING_SCRIPTS = 8
#: Most seconds that a script waits for a process.
_PROCESS_WAIT_SECONDS = 60.0
#: Seconds in which an idle process must end.
_END_SECONDS = 2.0
#: Memory of a process after which it is not used again.
_MAX_KEPT_BYTES = 120_000_000
#: Variables that the process gets. It needs no secret of this one.
_PASSED_VARIABLES = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT", "TEMP", "TMP", "MONTY_BIN")
_PACKAGE_FOLDER = Path(__file__).parents[1]
#: Imports this package, wherever it lies and under whatever name of its folder.
_START_CODE = """
import importlib.util, json, sys
place = json.loads(sys.argv[1])
sys.path[:] = place["path"]
spec = importlib.util.spec_from_file_location(
    place["name"], place["file"], submodule_search_locations=[place["folder"]]
)
sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[spec.name])
importlib.import_module(f"{spec.name}.codemode.script_process").main()
"""


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
            import pydantic_monty  # noqa: F401 - the process of a script uses it
        except ImportError as missing:
            raise MissingExtraError("code mode", "code") from missing
        self._places = asyncio.Semaphore(MAX_RUNNING_SCRIPTS)
        self._processes: set[_ScriptProcess] = set()
        self._idle_processes: list[_ScriptProcess] = []

    async def run(self, script: Script, limits: Limits) -> ScriptOutcome:
        """Check a script against its stubs, then run it."""
        if len(script.code) > limits.code_chars:
            text = f"the script has {len(script.code):,} characters; at most {limits.code_chars:,}"
            return ScriptOutcome(value=None, output="", error=ScriptError("limit", text))
        try:
            async with asyncio.timeout(limits.total_seconds):
                try:
                    async with asyncio.timeout(_PROCESS_WAIT_SECONDS):
                        await self._places.acquire()
                except TimeoutError:
                    text = (
                        f"{MAX_RUNNING_SCRIPTS} scripts are running and none ended; run it again "
                        "later"
                    )
                    return _failure(ScriptError("sandbox", text))
                try:
                    async with self._process() as process:
                        return await process.run(script, limits, type_check=self.type_check)
                finally:
                    self._places.release()
        except TimeoutError:
            text = f"the script and its calls took longer than {limits.total_seconds:g} seconds"
            return _failure(ScriptError("limit", text))

    @asynccontextmanager
    async def _process(self) -> AsyncIterator[_ScriptProcess]:
        """A process for one script. One that cannot be used again is ended after the block."""
        process = self._idle_processes.pop() if self._idle_processes else None
        if process is None or process.has_ended:
            process = await _ScriptProcess.start()
            self._processes = {other for other in self._processes if not other.has_ended}
            self._processes.add(process)
        try:
            yield process
        except BaseException:
            process.kill()
            raise
        if process.may_run_another:
            self._idle_processes.append(process)
        else:
            process.kill()

    async def aclose(self) -> None:
        """End the processes."""
        processes, self._processes = self._processes, set()
        self._idle_processes.clear()
        await asyncio.gather(*[process.end() for process in processes])


class _ScriptProcess(asyncio.SubprocessProtocol):
    """A process that runs one script at a time, and this side of its messages."""

    def __init__(self) -> None:
        self._transport: asyncio.SubprocessTransport
        self._line = bytearray()
        self._exited = asyncio.Event()
        self._run: _RunningScript | None = None
        self._resident_bytes = 0

    @classmethod
    async def start(cls) -> _ScriptProcess:
        """A new process. It loads while the first script is sent to it."""
        place = {
            "name": __name__.partition(".")[0],
            "file": str(_PACKAGE_FOLDER / "__init__.py"),
            "folder": str(_PACKAGE_FOLDER),
            "path": sys.path,
        }
        _, protocol = await asyncio.get_running_loop().subprocess_exec(
            cls,
            *(sys.executable, "-I", "-c", _START_CODE, json.dumps(place)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ},
            start_new_session=True,
        )
        return protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The process has started; it may end before `start` returns."""
        self._transport = cast("asyncio.SubprocessTransport", transport)

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._exited.is_set()

    @property
    def may_run_another(self) -> bool:
        """Whether another script may use the process."""
        return not self.has_ended and self._resident_bytes < _MAX_KEPT_BYTES

    async def run(self, script: Script, limits: Limits, *, type_check: bool) -> ScriptOutcome:
        """The outcome of a script."""
        self._run = _RunningScript(script, self._write)
        try:
            message = {
                "code": script.code,
                "stubs": script.stubs,
                "servers": script.functions_by_server,
                "host_functions": list(script.host_functions),
                "limits": asdict(limits),
                "type_check": type_check,
            }
            self._write(message_line(message))
            end = await self._run.end
            self._resident_bytes = end.get("resident", 0)
        finally:
            unawaited, self._run = await self._run.cancel_calls(), None
        return _outcome(end, unawaited, limits)

    def _write(self, line: bytes) -> None:
        stdin = cast("asyncio.WriteTransport | None", self._transport.get_pipe_transport(0))
        if stdin is not None and not self.has_ended:
            stdin.write(line)

    def pipe_data_received(self, fd: int, data: bytes) -> None:  # noqa: ARG002
        """A part of the messages of the process."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._line += end
            line, self._line = self._line, bytearray()
            if self._run is not None:
                self._run.receive(line)
        self._line += rest
        if len(self._line) > MAX_MESSAGE_BYTES:
            self.kill()

    def process_exited(self) -> None:
        """The process has ended, perhaps in the middle of a script."""
        self._exited.set()
        self._transport.close()
        if self._run is not None:
            self._run.process_ended()

    def kill(self) -> None:
        """End the process and the sandbox's worker at once."""
        if not self.has_ended:
            with suppress(ProcessLookupError, PermissionError):
                if hasattr(os, "killpg"):
                    os.killpg(self._transport.get_pid(), signal.SIGKILL)
                else:
                    self._transport.kill()

    async def end(self) -> None:
        """End the process, and wait for its end."""
        if (stdin := self._transport.get_pipe_transport(0)) is not None:
            stdin.close()
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self._exited.wait()
        except TimeoutError:
            self.kill()
            await self._exited.wait()


class _RunningScript:
    """The messages of one script. Each of its calls is a task, so that none continues after it.

    Attributes:
        end: the last message of the script.
    """

    def __init__(self, script: Script, write: Callable[[bytes], None]) -> None:
        self._script = script
        self._write = write
        self._running_calls: dict[asyncio.Task[None], str] = {}
        self._type_error: ScriptError | None = None
        self.end: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

    def receive(self, line: bytes | bytearray) -> None:
        """Handle a message of the process."""
        message = message_of(bytes(line))
        if "call" in message:
            server, name = message["server"], message["name"]
            task = asyncio.ensure_future(self._answer_call(message))
            self._running_calls[task] = f"{server}.{name}" if server else name
            task.add_done_callback(lambda finished: self._running_calls.pop(finished, None))
        elif "type_report" in message:
            self._type_error = type_error(message["type_report"], self._script)
            self._write(message_line({"run": self._type_error is None}))
        elif not self.end.done():
            self.end.set_result(message["end"] | {"type_error": self._type_error})

    def process_ended(self) -> None:
        """The process ended before the script did."""
        if not self.end.done():
            self.end.set_result({"killed": True})

    async def cancel_calls(self) -> list[str]:
        """Cancel the running calls. Returns their functions."""
        running = dict(self._running_calls)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        return list(running.values())

    async def _answer_call(self, message: dict[str, Any]) -> None:
        answer: dict[str, Any] = {"call": message["call"]}
        try:
            answer["value"] = await self._call(message)
            if not is_small(answer["value"]):
                line = await asyncio.to_thread(message_line, answer)
                self._write(line)
                return
        except Exception as error:  # noqa: BLE001 - the script gets each as its own exception
            answer = {
                "call": message["call"],
                "error": type(error).__name__,
                "message": str(error),
            }
        self._write(message_line(answer))

    def _call(self, message: dict[str, Any]) -> Awaitable[Any]:
        server, name = message["server"], message["name"]
        args, kwargs = tuple(message["args"]), message["kwargs"]
        if server:
            return self._script.call_tool(server, name, args, kwargs)
        return self._script.host_functions[name](args, kwargs)


def _failure(error: ScriptError, output: str = "") -> ScriptOutcome:
    return ScriptOutcome(value=None, output=output, error=error)


def _outcome(end: dict[str, Any], unawaited: list[str], limits: Limits) -> ScriptOutcome:
    """The outcome that the last message of a process means."""
    output = end.get("output", "")
    if (error := end.get("type_error")) is not None:
        return _failure(error)
    if "syntax" in end:
        problem = end["syntax"]
        return _failure(ScriptError("syntax", problem["message"], problem["line"]))
    if "runtime" in end:
        return _failure(_runtime_error(end["runtime"], limits), output)
    if "crash" in end:
        crash = ScriptError("sandbox", "the sandbox crashed; run a simpler script")
        if end["crash"]["timed_out"]:
            crash = ScriptError("limit", f"the script worked longer than {limits.seconds:g} s")
        return _failure(crash, output)
    if "slept" in end:
        text = f"the script slept longer than {limits.total_seconds:g} seconds"
        return _failure(ScriptError("limit", text, end["slept"]), output)
    if "killed" in end:
        text = "a value of the script takes too long to be read; return or pass a simpler one"
        return _failure(ScriptError("limit", text))
    if unawaited:
        return _failure(_unawaited_error(unawaited), output)
    if "not_json" in end:
        text = f"the result cannot be returned: {end['not_json']}"
        return _failure(ScriptError("runtime", text), output)
    return ScriptOutcome(value=end["value"], output=output)


def _unawaited_error(functions: list[str]) -> ScriptError:
    names = ", ".join(dict.fromkeys(functions))
    text = (
        f"the script ended before its calls: {len(functions)} of {names} were cancelled; "
        f"{AWAIT_ADVICE}"
    )
    return ScriptError("runtime", text)


def _runtime_error(problem: dict[str, Any], limits: Limits) -> ScriptError:
    types, text, line = problem["types"], problem["message"], problem["line"]
    if "NotImplementedError" in types and "monty" in text:
        feature = text.rpartition("support ")[2] or text
        return ScriptError("syntax", with_hint(f"the sandbox's Python lacks {feature}"), line)
    if "TimeoutError" in types and "time limit exceeded" in text:
        return ScriptError("limit", f"the script worked longer than {limits.seconds:g} seconds")
    if "MemoryError" in types:
        if text.endswith(f"> {limits.printed_chars} bytes"):
            return ScriptError(
                "limit", f"more than {limits.printed_chars:,} characters were printed"
            )
        return ScriptError("limit", f"more than {limits.memory_bytes:,} bytes of memory", line)
    if "RecursionError" in types:
        return ScriptError("limit", f"functions nested deeper than {limits.call_depth} calls", line)
    if "RuntimeError" in types and text.startswith("suspension limit"):
        return ScriptError("limit", f"more than {limits.calls:,} calls of tools", line)
    return ScriptError("runtime", with_hint(problem["message_with_type"]), line)
