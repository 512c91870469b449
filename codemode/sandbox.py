"""What runs scripts: a protocol, and what comes back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import PurePath
from typing import Any, Literal, Protocol

from .limits import Limits

#: `syntax`: no Python, or a part of it that the sandbox lacks. `type`: the script does not fit the
#: stubs; nothing has run. `runtime`: an exception that the script did not catch. `limit`: a limit
#: was reached. `sandbox`: the sandbox itself failed.
ErrorKind = Literal["syntax", "type", "runtime", "limit", "sandbox"]

#: Calls a tool: namespace, function, positional arguments, keyword arguments.
HostCall = Callable[[str, str, tuple[Any, ...], dict[str, Any]], Awaitable[Any]]
#: A function of the host that is no tool: positional arguments, keyword arguments.
HostFunction = Callable[[tuple[Any, ...], dict[str, Any]], Awaitable[Any]]
#: What is said of a name that is not there: namespace, function, and the function's argument or "".
Unknown = Callable[[str, str, str], str]

_DEPTH = 100
#: Values without a form of their own in JSON, whose text says what they are.
_AS_TEXT = (Decimal, PurePath, time, timedelta, timezone, Exception)
#: Python writes integers up to some 14,000 bits; no reader of JSON needs as many.
_BITS = 4_096


@dataclass(frozen=True, slots=True)
class ScriptError:
    """Why a script was not run, or did not end.

    Args:
        kind: see `ErrorKind`.
        message: what was wrong, and what would be right.
        line: of the script, from 1; None where no line is to blame.
        more: further errors found before the script ran, each with its line.
    """

    kind: ErrorKind
    message: str
    line: int | None = None
    more: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON form; empty parts left out."""
        held: dict[str, Any] = {"kind": self.kind, "message": self.message}
        if self.line is not None:
            held["line"] = self.line
        if self.more:
            held["more"] = list(self.more)
        return held


@dataclass(frozen=True, slots=True)
class Script:
    """A script with what it may use.

    Args:
        code: the source.
        stubs: of the functions it may call, for the check before it runs.
        servers: name of each server it names, to the functions of it that it names.
        call: calls a tool.
        unknown: explains a name that is not there.
        functions: by name, those that belong to no server.
    """

    code: str
    stubs: str
    servers: Mapping[str, tuple[str, ...]]
    call: HostCall
    unknown: Unknown
    functions: Mapping[str, HostFunction] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a script came to.

    Args:
        value: of its last expression or of `return`, as JSON; None without one, and after an error.
        output: what it printed.
        error: None if it ended by itself.
    """

    value: Any
    output: str
    error: ScriptError | None = None


class Sandbox(Protocol):
    """Runs scripts that nobody trusts, for one event loop of asyncio."""

    async def run(self, script: Script, limits: Limits) -> Outcome:
        """Check a script against its stubs, then run it. What goes wrong is in the outcome.

        Cancelling stops the script.
        """
        ...

    async def aclose(self) -> None:
        """Free what is kept ready for the next script."""
        ...


class NotPlainError(ValueError):
    """A value that JSON does not have."""


def as_json(value: object, *, strict: bool, depth: int = 0) -> Any:
    """A value of a script as JSON.

    Args:
        value: what the script gave.
        strict: whether dates, sets and bytes are refused; without it they become texts and lists.
        depth: of the value in the whole.

    Raises:
        NotPlainError: nested too deep, or of a type that JSON does not have.
    """
    if depth > _DEPTH:
        raise NotPlainError(f"nested deeper than {_DEPTH} levels")
    if isinstance(value, int) and value.bit_length() > _BITS:
        raise NotPlainError(f"an integer of more than {_BITS:,} bits")
    if isinstance(value, str) and not strict and not value.isascii():
        # Half of a pair of surrogates, as servers leave it that cut texts; UTF-8 has none.
        return value.encode("utf-8", "replace").decode("utf-8")
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        finite = value - value == 0
        if finite or not strict:
            return value if finite else str(value)
        raise NotPlainError("nan and infinite numbers are not JSON")
    if isinstance(value, list | tuple):
        return [as_json(one, strict=strict, depth=depth + 1) for one in value]
    if isinstance(value, Mapping):
        return {
            _key(key, strict=strict): as_json(one, strict=strict, depth=depth + 1)
            for key, one in value.items()
        }
    if not strict and isinstance(value, set | frozenset):
        return [as_json(one, strict=strict, depth=depth + 1) for one in value]
    if not strict and isinstance(value, datetime | date):
        return value.isoformat()
    if not strict and isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if not strict and isinstance(value, _AS_TEXT):
        return str(value)
    hint = "; write `.isoformat()` behind it" if isinstance(value, datetime | date) else ""
    raise NotPlainError(f"a value of type {type(value).__name__} is not JSON{hint}")


def _key(key: object, *, strict: bool) -> str:
    if isinstance(key, str):
        return key
    if strict or not isinstance(key, int | float | bool | None):
        raise NotPlainError(f"a key of type {type(key).__name__} is not JSON; write str(key)")
    return str(key)
