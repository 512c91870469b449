"""The process beside the sandbox: it reads a script's values, and sends them as counted JSON.

pydantic-monty makes Python values of what leaves the sandbox, in C code that holds the
interpreter's lock. A dict with 60,000 numbers of the same hash as keys takes it 48 s. A key
`t = (t, t)`, 60 times over, takes it for ever. In a process of its own nobody else waits, and a
timer of the operating system ends it.

Messages are lines of JSON over stdin and stdout. This file is imported without the rest of the
package, so that the process starts fast.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import sys
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from ..untrusted import MAX_DEPTH
from ..untrusted.json_bytes import read_json
from .sandbox import NotJsonError, as_json

if TYPE_CHECKING:
    from pydantic_monty import Monty, MontyRuntimeError, MontySession, MontySyntaxError

#: Seconds of computing time in which a value must be read. Then the process is ended.
_VALUE_TIMEOUT_S = 2.0
#: Most exchanges between sandbox and host. A call needs up to three.
_EXCHANGES_PER_CALL = 4
#: Most seconds for which the pool waits for its only process.
_CHECKOUT_TIMEOUT_S = 60.0
#: Text of a call without `await` that leaves the sandbox.
_UNAWAITED_CALL = re.compile(r"<coroutine (?:object \S+|external_future\(\d+\))>")
_READ_BYTES = 65_536
_encode_json = json.JSONEncoder(ensure_ascii=False).encode
AWAIT_ADVICE = "write `await` before each call, or `await asyncio.gather(*calls)`"
_ERROR_NAMES = frozenset("AttributeError TypeError ValueError PermissionError RuntimeError".split())
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


def main() -> None:
    """Run the scripts that arrive on stdin, one after the other, until it ends."""
    from pydantic_monty import Monty

    # What anything prints must not mix with messages.
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    channel = _Channel(sys.stdin.fileno(), output)
    if hasattr(signal, "SIGVTALRM"):
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
    with Monty(max_processes=1, checkout_timeout=_CHECKOUT_TIMEOUT_S) as pool:
        while (script := channel.receive()) is not None:
            if "code" not in script:
                continue  # the result of a call that the last script did not wait for
            outcome = _ScriptRun(script, channel).outcome(pool)
            channel.send({"end": outcome | {"resident": _resident_bytes()}})


def message_line(message: dict[str, Any]) -> bytes:
    """A message between the processes as a line. Texts may have halves of surrogate pairs."""
    return _encode_json(message).encode("utf-8", "surrogatepass") + b"\n"


def message_of(line: bytes) -> Any:
    """The message in a line."""
    return read_json(line.decode("utf-8", "surrogatepass"))


class _Channel:
    """Messages to and from the process that the script belongs to."""

    def __init__(self, descriptor: int, output: Any) -> None:
        self._descriptor = descriptor
        self._output = output
        #: Messages that were read, the next one last, and the beginning of a further one.
        self._lines: list[bytes] = []
        self._beginning = bytearray()

    def receive(self) -> Any:
        """The next message; None at the end."""
        while not self._lines:
            if not (chunk := os.read(self._descriptor, _READ_BYTES)):
                return None
            first, *others = chunk.split(b"\n")
            self._beginning += first
            if others:
                self._lines = [*others[-2::-1], bytes(self._beginning)]
                self._beginning = bytearray(others[-1])
        return message_of(self._lines.pop())

    def has_data_within(self, seconds: float) -> bool:
        """Whether a part of a message, or the end, arrives in time."""
        return bool(self._lines) or bool(select.select([self._descriptor], [], [], seconds)[0])

    def send(self, message: dict[str, Any]) -> None:
        rest = memoryview(message_line(message))
        while rest:
            rest = rest[self._output.write(rest) :]


class _ScriptRun:
    """One run of one script."""

    def __init__(self, script: dict[str, Any], channel: _Channel) -> None:
        from pydantic_monty import CollectString

        self._script = script
        self._channel = channel
        self._printed = CollectString(script["limits"]["printed_chars"])
        #: The name of a function in the sandbox to its server ("" without one) and name.
        self._functions = {name: ("", name) for name in script["host_functions"]}
        self._servers: dict[Any, str] = {}
        #: Calls of `asyncio.sleep` to the time at which each ends.
        self._sleep_ends: dict[int, float] = {}
        self._slept_seconds = 0.0
        self._lookup: dict[str, Any] = {name: _named(name) for name in script["host_functions"]}
        for server, names in script["servers"].items():
            functions = {name: _named(f"{server}__{name}") for name in names}
            namespace = _namespace(server, functions)
            self._servers[namespace.id] = server
            self._functions |= {f"{server}__{name}": (server, name) for name in names}
            self._lookup |= {server: namespace}
            self._lookup |= {function.__name__: function for function in functions.values()}

    def outcome(self, pool: Monty) -> dict[str, Any]:
        """What the script gave: `value`, or why there is none."""
        from pydantic_monty import MontyCrashedError, MontyRuntimeError, MontySyntaxError

        limits = self._script["limits"]
        checkout = pool.checkout(
            limits={
                "max_feed_duration_secs": limits["seconds"],
                "max_memory": limits["memory_bytes"],
                "max_recursion_depth": limits["call_depth"],
                "max_suspensions": _EXCHANGES_PER_CALL * limits["calls"] + 100,
            },
            os_policy={"sleep": "call_host"},
            type_check=self._script["type_check"],
            type_check_stubs=f"{self._script['stubs']}\n{_STUBS_OF_UNKNOWN_NAMES}",
            type_check_format="json",
        )
        try:
            with checkout as session:
                result = self._run(session)
        except MontySyntaxError as error:
            result = {"syntax": _syntax_problem(error)}
        except MontyRuntimeError as error:
            result = {"runtime": _runtime_problem(error)}
        except MontyCrashedError as error:
            result = {"crash": {"timed_out": error.timed_out}}
        except _SleptTooLongError as error:
            result = {"slept": error.line}
        except (ValueError, RecursionError) as error:
            # Values without a JSON form, too large, or nested too deeply to leave the sandbox.
            result = {"not_json": str(error)[:200]}
        return {**result, "output": self._printed.output}

    def _run(self, session: MontySession) -> dict[str, Any]:
        from pydantic_monty import MontyTypingError

        try:
            return {"value": self._run_to_end(session, skip_type_check=False)}
        except MontyTypingError as error:
            # Nothing has run.
            self._channel.send({"type_report": error.display()})
        if not (self._channel.receive() or {}).get("run"):
            return {"value": None}
        return {"value": self._run_to_end(session, skip_type_check=True)}

    def _run_to_end(self, session: MontySession, *, skip_type_check: bool) -> Any:
        """The value of the script as JSON."""
        from pydantic_monty import FutureSnapshot, MontyComplete, NameLookupSnapshot

        snapshot: Any = session.feed_start(
            self._script["code"],
            external_lookup=self._lookup,
            print_callback=self._printed,
            skip_type_check=skip_type_check,
        )
        while not isinstance(snapshot, MontyComplete):
            if isinstance(snapshot, FutureSnapshot):
                snapshot = snapshot.resume(self._settled(set(snapshot.pending_call_ids)))
            elif isinstance(snapshot, NameLookupSnapshot):
                snapshot = snapshot.resume_auto()
            elif snapshot.is_os_function:
                snapshot = self._use_system(snapshot)
            else:
                snapshot = self._call(snapshot)
        with _TimeLimit():
            return _json_value(snapshot.output, strict=False)

    def _call(self, snapshot: Any) -> Any:
        """Ask for a call, and go on without waiting for its result."""
        name = snapshot.function_name
        if snapshot.object_id is None:
            if name not in self._functions:
                return snapshot.resume_auto()
            server, name = self._functions[name]
        else:
            known_server = self._servers.get(snapshot.object_id)
            if known_server is None:  # such as the class of a server's object
                message = f"no function {name!r:.100} here"
                return snapshot.resume({"exc_type": "AttributeError", "message": message})
            server = known_server
        try:
            with _TimeLimit():
                is_tool = bool(server)
                args = [_json_value(value, strict=is_tool) for value in snapshot.args]
                kwargs = {
                    key: _json_value(value, strict=is_tool)
                    for key, value in snapshot.kwargs.items()
                }
        except (ValueError, RecursionError) as error:
            label = f"{server}.{name}" if server else name
            message = f"{label}: an argument cannot be sent: {str(error)[:200]}"
            return snapshot.resume({"exc_type": "ValueError", "message": message})
        self._channel.send(
            {
                "call": snapshot.call_id,
                "server": server,
                "name": name,
                "args": args,
                "kwargs": kwargs,
            }
        )
        return snapshot.resume({"future": ...})

    def _use_system(self, snapshot: Any) -> Any:
        """Sleep, or refuse anything else of the operating system."""
        if snapshot.function_name == "time.sleep":
            sleep(self._seconds_of(snapshot))
            return snapshot.resume({"return_value": None})
        if snapshot.function_name == "asyncio.sleep":
            self._sleep_ends[snapshot.call_id] = monotonic() + self._seconds_of(snapshot)
            return snapshot.resume({"future": ...})
        return snapshot.resume_auto()

    def _seconds_of(self, snapshot: Any) -> float:
        """The seconds that a call sleeps. All sleeps of a script together have a limit."""
        seconds = max(0.0, float(snapshot.args[0]))
        self._slept_seconds += seconds
        if self._slept_seconds > self._script["limits"]["total_seconds"]:
            code = self._script["code"].encode("utf-8", "surrogatepass")
            raise _SleptTooLongError(code[: snapshot.position.start].count(b"\n") + 1)
        return seconds

    def _settled(self, pending_ids: set[int]) -> dict[int, Any]:
        """The results of the next call or sleep that ends, of those that the script waits for."""
        ends = {call: end for call, end in self._sleep_ends.items() if call in pending_ids}
        if ends:
            next_call = min(ends, key=lambda call: (ends[call], call))
            if not self._channel.has_data_within(max(0.0, ends[next_call] - monotonic())):
                del self._sleep_ends[next_call]
                return {next_call: {"return_value": None}}
        while (answer := self._channel.receive()) is not None:
            if answer["call"] not in pending_ids:
                continue
            if "value" in answer:
                return {answer["call"]: {"return_value": answer["value"]}}
            kind = answer["error"] if answer["error"] in _ERROR_NAMES else "RuntimeError"
            return {answer["call"]: {"exc_type": kind, "message": answer["message"]}}
        raise SystemExit


class _SleptTooLongError(Exception):
    """The script wants to sleep longer than it may last, in this line of it."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class _TimeLimit:
    """Ends the process if the block takes longer than a value may take."""

    def __enter__(self) -> None:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_VIRTUAL, _VALUE_TIMEOUT_S)

    def __exit__(self, *error: object) -> None:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)


def _named(name: str) -> Any:
    """A function of this name. The sandbox finds a function that is a value by its name."""

    def function() -> None: ...

    function.__name__ = function.__qualname__ = name
    return function


def _namespace(server: str, functions: dict[str, Any]) -> Any:
    """A server as an object of the sandbox, with functions only."""
    from pydantic_monty import ClassInstance

    class Namespace(ClassInstance):
        def lookup_lazy_attrs(self, name: str) -> Any:
            if name not in functions:
                raise AttributeError(name)
            return functions[name]

    return Namespace(type(server, (), {"__module__": "servers"})())


def _json_value(value: Any, *, strict: bool) -> Any:
    """A value that left the sandbox as JSON. For functions of the host, types become names.

    Raises:
        NotJsonError: JSON has no such value, or it is too large.
    """
    if value is None or isinstance(value, bool | float):
        return as_json(value, strict=strict)
    return as_json(_PlainValues(with_types=not strict).plain(value), strict=strict)


class _PlainValues:
    """Replaces the objects of a script's classes by dicts. Parts that are shared stay shared."""

    def __init__(self, *, with_types: bool) -> None:
        self._with_types = with_types
        self._plain_values: dict[Any, Any] = {}

    def plain(self, value: Any, depth: int = 0) -> Any:
        from pydantic_monty import MontyClassProxy, MontyStdTypeProxy

        if isinstance(value, str):
            if len(value) < 200 and _UNAWAITED_CALL.fullmatch(value):
                raise NotJsonError(f"it has a call that was not awaited; {AWAIT_ADVICE}")
            return value
        if self._with_types and isinstance(value, type):
            return value.__name__
        if self._with_types and isinstance(value, MontyStdTypeProxy):
            return value.name
        is_object = isinstance(value, MontyClassProxy)
        if not is_object and not isinstance(value, list | tuple | dict):
            return value
        key = value.id if is_object else id(value)
        if key not in self._plain_values:
            if depth > MAX_DEPTH:
                raise NotJsonError(f"nested deeper than {MAX_DEPTH} levels")
            if is_object or isinstance(value, dict):
                fields = value.attributes if is_object else value
                plain: Any = {name: self.plain(item, depth + 1) for name, item in fields.items()}
            else:
                plain = [self.plain(item, depth + 1) for item in value]
            # The value is kept too: its id must not be used again.
            self._plain_values[key] = plain, value
        return self._plain_values[key][0]


def _syntax_problem(error: MontySyntaxError) -> dict[str, Any]:
    frames = error.traceback()
    return {"message": error.display("msg")[:1_000], "line": frames[-1].line if frames else None}


def _runtime_problem(error: MontyRuntimeError) -> dict[str, Any]:
    frames = error.traceback()
    return {
        "types": [kind.__name__ for kind in type(error.exception()).__mro__],
        "message": error.display("msg")[:2_000],
        "message_with_type": error.display("type-msg")[:2_000],
        "line": frames[-1].line if frames else None,
    }


def _resident_bytes() -> int:
    """Memory of the process; 0 where the system does not say. Its peak would be its parent's."""
    try:
        with Path("/proc/self/statm").open() as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
