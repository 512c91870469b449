"""Protocol of a sandbox for scripts, its limits and its result types."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import PurePath
from typing import Any, Literal, Protocol

from ..errors import RequestError
from ..untrusted import MAX_SCRIPT_CHARS, MAX_SCRIPT_VALUES
from ..untrusted.value_count import TooLargeError, size_of_value

#: `syntax`: not Python, or a part of Python that the sandbox does not have. `type`: the script does
#: not match the stubs, and nothing has run. `runtime`: an exception that the script did not catch.
#: `limit`: a limit was reached. `sandbox`: the sandbox itself failed.
ErrorKind = Literal["syntax", "type", "runtime", "limit", "sandbox"]

#: Calls a tool: namespace, function, positional arguments, keyword arguments.
HostCall = Callable[[str, str, tuple[Any, ...], dict[str, Any]], Awaitable[Any]]
#: A function of the host that is not a tool: positional arguments, keyword arguments.
HostFunction = Callable[[tuple[Any, ...], dict[str, Any]], Awaitable[Any]]
#: Returns the message for an unknown name: namespace, function, and the function's argument or "".
ExplainUnknown = Callable[[str, str, str], str]

#: Types without a JSON form. Their text is used.
_TEXT_TYPES = (Decimal, PurePath, time, timedelta, timezone, Exception)
#: Most bits of an integer. Python can write some 14,000 bits as text; no JSON reader needs as many.
_MAX_BITS = 4_096


@dataclass(frozen=True, slots=True)
class ScriptError:
    """Why a script did not run or did not finish.

    Args:
        kind: see `ErrorKind`.
        message: what is wrong and what to write instead.
        line: line of the script, from 1; None if the error is not in a line.
        more: further errors of the check, each with its line.
    """

    kind: ErrorKind
    message: str
    line: int | None = None
    more: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON form, without empty fields."""
        form: dict[str, Any] = {"kind": self.kind, "message": self.message}
        if self.line is not None:
            form["line"] = self.line
        if self.more:
            form["more"] = list(self.more)
        return form


@dataclass(frozen=True, slots=True)
class Script:
    """A script, with the functions that it may call.

    Args:
        code: the source.
        stubs: stubs of the functions it may call, for the check.
        functions_by_server: each server in the script, to the functions in the script.
        call_tool: function that calls a tool.
        explain_unknown: function that explains an unknown name.
        host_functions: name to function, for functions without a server.
    """

    code: str
    stubs: str
    functions_by_server: Mapping[str, tuple[str, ...]]
    call_tool: HostCall
    explain_unknown: ExplainUnknown
    host_functions: Mapping[str, HostFunction] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScriptOutcome:
    """The outcome of a script.

    Args:
        value: value of the last expression or of `return`, as JSON; None without one, and after an
            error.
        output: printed text.
        error: the error; None if there was none.
    """

    value: Any
    output: str
    error: ScriptError | None = None


class Sandbox(Protocol):
    """Runs untrusted scripts. For one asyncio event loop."""

    async def run(self, script: Script, limits: Limits) -> ScriptOutcome:
        """Check a script against its stubs, then run it. Errors are in the outcome.

        Cancelling stops the script.
        """
        ...

    async def aclose(self) -> None:
        """End the processes that are kept ready for the next script."""
        ...


class NotJsonError(ValueError):
    """A value that JSON cannot represent."""


def as_json(
    value: object,
    *,
    strict: bool,
    max_values: int = MAX_SCRIPT_VALUES,
    max_chars: int = MAX_SCRIPT_CHARS,
) -> Any:
    """A value of a script as JSON. It is counted before it is copied.

    Args:
        value: value from the script.
        strict: whether dates, sets and bytes are refused. Otherwise they become texts and lists.
        max_values: most values, shared parts as often as they occur.
        max_chars: most characters.

    Raises:
        NotJsonError: it is too large or nested too deeply, or JSON has no such type.

    Example:
        >>> as_json((1, {"a": 2}), strict=True)
        [1, {'a': 2}]
    """
    try:
        size_of_value(value, max_values=max_values, max_chars=max_chars)
    except TooLargeError as error:
        raise NotJsonError(str(error)) from None
    return _json_form(value, strict=strict)


def _json_form(value: object, *, strict: bool) -> Any:
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise NotJsonError(f"an integer of more than {_MAX_BITS:,} bits")
    if isinstance(value, str) and not strict and not value.isascii():
        # Servers that cut texts may leave half of a surrogate pair, which UTF-8 cannot encode.
        return value.encode("utf-8", "replace").decode("utf-8")
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        finite = value - value == 0
        if finite or not strict:
            return value if finite else str(value)
        raise NotJsonError("nan and infinite numbers are not JSON")
    if isinstance(value, list | tuple):
        return [_json_form(item, strict=strict) for item in value]
    if isinstance(value, Mapping):
        return {
            _key(key, strict=strict): _json_form(item, strict=strict) for key, item in value.items()
        }
    if not strict and isinstance(value, set | frozenset):
        return [_json_form(item, strict=strict) for item in value]
    if not strict and isinstance(value, datetime | date):
        return value.isoformat()
    if not strict and isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if not strict and isinstance(value, _TEXT_TYPES):
        return str(value)
    hint = "; write `.isoformat()` behind it" if isinstance(value, datetime | date) else ""
    raise NotJsonError(f"a value of type {type(value).__name__} is not JSON{hint}")


def _key(key: object, *, strict: bool) -> str:
    if isinstance(key, str):
        return key
    if strict or not isinstance(key, int | float | bool | None):
        raise NotJsonError(f"a key of type {type(key).__name__} is not JSON; write str(key)")
    return str(key)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of time, memory and calls of one script.

    Args:
        seconds: computing time in seconds. Waiting for tools does not count.
        total_seconds: seconds from start to end, with waiting for tools.
        memory_bytes: memory in bytes.
        call_depth: depth of nested function calls.
        calls: number of tool calls.
        extracts: number of calls of `extract`.
        printed_chars: characters of printed output; more end the script.
        code_chars: characters of the script itself.

    Raises:
        RequestError: a limit is not above 0.
    """

    seconds: float = 10.0
    total_seconds: float = 300.0
    memory_bytes: int = 128_000_000
    call_depth: int = 200
    calls: int = 1_000
    extracts: int = 100
    printed_chars: int = 1_000_000
    code_chars: int = 50_000

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise RequestError(
                    f"limits.{limit.name}: must be a number above 0, not {value!r:.80}"
                )
