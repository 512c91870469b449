"""Errors of a script as messages with which a model can correct it; which errors are certain.

The checker knows less than the run. A value of type `str | None` may be a text here, a dict in a
variable matches no TypedDict, and a result may have further keys. Errors that are not certain are
ignored. The run checks each call against its schema.
"""

from __future__ import annotations

import builtins
import json
import re
from collections.abc import Sequence
from typing import Any

from .sandbox import Script, ScriptError
from .script_names import MODULES, nearest

#: Most errors in one message.
_MOST = 5
_METHOD = re.compile(r"`_([a-zA-Z]\w*)([.`])")
_CALLEE = re.compile(r"bound method `_(\w+)\.(\w+)`")
_CLASS = re.compile(r"type `_\w+` has no attribute")
_RESULT = re.compile(r"type `([A-Z]\w*)` has no attribute `(\w+)`")
_KEY = re.compile(r"TypedDict `(\w+)`$")
_CALLED = re.compile(r"(\w+)(?:\.(\w+))?")
_QUOTED = re.compile(r"`([\w.]+)`")
_WORD = re.compile(r"[^\W\d]\w*")
#: Kinds of errors that come first, because they explain others in the same line.
_FIRST = ("invalid-syntax", "unknown-argument", "too-many-positional-arguments", "invalid-key")
#: The checker's messages about a value of which another message names the wrong part.
_WHOLE = "Argument to bound method"


def type_error(found: str, script: Script) -> ScriptError | None:
    """A report of the type checker as one error; None if no error in it is certain.

    Args:
        found: the report as JSON.
        script: the checked script.
    """
    rows = certain(_rows(found), script.code, script.stubs)
    if not rows:
        return None
    inner = [one for one in rows if not message_of(one).startswith(_WHOLE)]
    places = {_line(one) for one in inner}
    # If a message names the wrong part, the message about the whole value adds nothing.
    told = [one for one in rows if one in inner or _line(one) not in places]
    told.sort(key=lambda one: (_line(one) or 0, one.get("name") not in _FIRST))
    said: dict[tuple[int | None, str], None] = {}
    for one in told:
        said[_line(one), _message(one, script)] = None
    first, *others = said
    more = [text if line is None else f"line {line}: {text}" for line, text in others[:_MOST]]
    if len(others) > _MOST:
        more.append(f"and {len(others) - _MOST} more")
    syntax = any(one.get("name") == "invalid-syntax" for one in told)
    return ScriptError("syntax" if syntax else "type", first[1], first[0], tuple(more))


def _rows(found: str) -> list[Row]:
    try:
        rows = json.loads(found)
    except ValueError:
        return [{"message": found[:1_000]}]
    return [one for one in rows if isinstance(one, dict)] if isinstance(rows, list) else []


def _line(row: Row) -> int | None:
    return span(row)[0][0] or None


def _message(row: Row, script: Script) -> str:
    message, name = message_of(row), row.get("name")
    there = source(row, script.code)[:80]
    if name == "unresolved-attribute":
        return _no_attribute(message, there, script)
    if name == "unresolved-reference" and (found := _CALLED.match(_rest(row, script.code))):
        return lacking_builtin(found[1]) or _no_name(found[1], found[2] or "", script)
    if name == "unresolved-import" and (found := _QUOTED.search(message)):
        return f"no module {found[1]!r} here; {module_hint(found[1])}"
    if name == "unused-awaitable":
        return f"`{there}` is not awaited; write `await` before it"
    if "CoroutineType[" in message:
        return f"`{there}`: a call was not awaited; write `await` before it"
    if name == "unknown-argument" and (found := _CALLEE.search(message)):
        return script.unknown(found[1], found[2], there.partition("=")[0].strip())
    if name == "too-many-positional-arguments":
        return "arguments are given by name: `function(name=value)`"
    if name == "invalid-key" and (found := _KEY.search(message)):
        return f"{message}; it has: {', '.join(_keys(found[1], script.stubs))}"
    if message.startswith(_WHOLE) and (found := _CALLEE.search(message)):
        wanted = message.partition(": ")[2]
        return f"{found[1]}.{found[2]}: `{there}` is wrong: {wanted}"
    return with_hint(_METHOD.sub(r"`\1\2", message).replace("bound method", "function"))


def _rest(row: Row, code: str) -> str:
    """The script's text from the position of an error to the end of its line."""
    return source({"location": row.get("location")}, code)


def _no_attribute(message: str, there: str, script: Script) -> str:
    """The message for an attribute that a server, a module or a result does not have."""
    if _CLASS.search(message) and (found := _CALLED.match(there)):
        return script.unknown(found[1], found[2] or "", "")
    if "CoroutineType[" in message:
        return f"`{there}`: a call was not awaited; write `await` before it"
    if found := _RESULT.search(message):
        keys = _keys(found[1], script.stubs)
        if found[2] in keys:
            return f"a {found[1]} is a dict; write [{found[2]!r}], not .{found[2]}"
        return f"a {found[1]} is a dict without .{found[2]}; it has: {', '.join(keys)}"
    if message.startswith("Module `") and (found := _CALLED.match(there)):
        # A server with the name of a module has another namespace.
        server = script.unknown(found[1], found[2] or "", "")
        if "did you mean" in server:
            return f"{message}; as a server: {server}"
    return with_hint(message)


def _no_name(name: str, attribute: str, script: Script) -> str:
    """The message for an undefined name."""
    said = script.unknown(name, attribute, "")
    words = set(_WORD.findall(script.code)) - {name}
    near = None if "did you mean" in said else nearest(name, sorted(words))
    return f"{said}; did you mean {near}?" if near else said


def _keys(name: str, stubs: str) -> list[str]:
    """The keys of a TypedDict in the stubs."""
    if found := re.search(rf"^class {name}\(TypedDict\):\n((?:    .*\n)+)", stubs, re.MULTILINE):
        return re.findall(r"^    (\w+):", found[1], re.MULTILINE)
    found = re.search(rf"^{name} = TypedDict\((.*)\)$", stubs, re.MULTILINE)
    return re.findall(r"'([^']+)':", found[1]) if found else []


#: One error in the checker's report.
Row = dict[str, Any]
#: Errors that do not depend on values.
_ALWAYS = frozenset(
    {
        "missing-argument",
        "too-many-positional-arguments",
        "unknown-argument",
        "unresolved-import",
        "unresolved-reference",
        "unused-awaitable",
    }
)
#: Errors that are certain if they concern a tool's result, or a call without `await`.
_OF_RESULTS = frozenset(
    {
        "call-non-callable",
        "invalid-await",
        "not-iterable",
        "not-subscriptable",
        "unresolved-attribute",
        "unsupported-operator",
    }
)
_DOUBT = re.compile(r" in union |\||\bUnknown\b|\bdict\[")
_TYPE_NAMES = re.compile(r"^(?:class )?(\w+)(?::$|\(TypedDict\)| = TypedDict)", re.MULTILINE)
_OF_TOOL = re.compile(
    r"Argument to bound method `_\w+\.\w+` is incorrect: Expected `(.+)`, found `(.+)`$"
)
_OF_KEY = re.compile(
    r"Invalid argument to key .* with declared type `(.+)` on .*: value of type `(.+)`$"
)
_NOT_AWAITED = "CoroutineType["
_SCALAR = re.compile(r"(?:str|int|float|bool|bytes|None|Literal\[.*\])\*?$")
_NEVER_SENT = re.compile(r"(?:set|frozenset)\[|CoroutineType\[")
_CONTAINER = re.compile(r"(?:list|dict)\[")


def certain(rows: Sequence[Row], code: str, stubs: str) -> list[Row]:
    """The errors that are certain, so that the script need not run.

    Args:
        rows: rows of the checker's report.
        code: the script.
        stubs: the stubs of the check.
    """
    types = set(_TYPE_NAMES.findall(stubs))
    arguments = [span(one) for one in rows if _OF_TOOL.match(message_of(one))]
    return [one for one in rows if _is_certain(one, code, types, arguments)]


def message_of(row: Row) -> str:
    """The checker's message."""
    return str(row.get("message", ""))[:1_000]


def span(row: Row) -> tuple[tuple[int, int], tuple[int, int]]:
    """Start and end as line and column, from 1; zeros if unknown. The end is exclusive."""
    found = []
    for name in ("location", "end_location"):
        place = row.get(name)
        place = place if isinstance(place, dict) else {}
        line, column = place.get("row"), place.get("column")
        known = isinstance(line, int) and isinstance(column, int)
        found.append((int(line), int(column)) if known and line and column else (0, 0))
    return found[0], found[1]


def source(row: Row, code: str) -> str:
    """The script's text from the position of an error to the end of the line."""
    (line, column), (last, end) = span(row)
    lines = code.splitlines()
    if not 0 < line <= len(lines):
        return ""
    return lines[line - 1][column - 1 : end - 1 if last == line else None]


def _is_certain(row: Row, code: str, types: set[str], arguments: Sequence[Any]) -> bool:
    rule, message = row.get("name"), message_of(row)
    if rule in _ALWAYS:
        return True
    if rule == "invalid-syntax":
        # In the sandbox, `return` ends a script. The checker does not know this.
        return not message.startswith("`return` statement outside")
    start, end = span(row)
    inside = any(first <= start and end <= last for first, last in arguments)
    if rule == "missing-typed-dict-key":
        return inside
    if rule == "invalid-key":
        return "Unknown key" in message and (inside or _only_read(row, code))
    if rule == "invalid-argument-type":
        if found := _OF_KEY.match(message):
            return inside and _never_fits(found[1], found[2])
        if found := _OF_TOOL.match(message):
            return not source(row, code).startswith("*") and _never_fits(found[1], found[2])
        return f"found `{_NOT_AWAITED}" in message
    if rule not in _OF_RESULTS:
        return False
    if _NOT_AWAITED in message or message.startswith("Module `"):
        return True
    return not _DOUBT.search(message) and bool(types.intersection(re.findall(r"\w+", message)))


def _only_read(row: Row, code: str) -> bool:
    """Whether the script reads a key by its name and never writes it."""
    if "(subscripted object" in message_of(row):
        return False
    found = re.fullmatch(r"""['"](.*)['"]""", source(row, code))
    if found is None:
        return False
    written = rf"""['"]{re.escape(found[1])}['"]\s*(?:\]\s*[^\s\w=]{{0,2}}=(?!=)|[:,])"""
    return re.search(written, code) is None


def _never_fits(expected: str, found: str) -> bool:
    """Whether the tool accepts no value of the found type."""
    if _NEVER_SENT.match(found):
        return True
    if re.search(r"\||\bUnknown\b", found):
        return False
    if not _SCALAR.match(found):
        return bool(_SCALAR.match(expected) and _CONTAINER.match(found))
    if "Literal[" in expected and found.rstrip("*") in ("str", "int"):
        return False
    # JSON Schema counts 3.0 as an integer.
    return not (found.startswith("float") and "int" in expected)


_NETWORK = "call a tool instead"
#: Module to what to write instead.
_MODULES = {
    "ast": "parse text with json.loads or re",
    "contextlib": "write try and except",
    "heapq": "write sorted(...)[:n]",
    "io": "csv.reader and csv.DictReader take text.splitlines()",
    "operator": "write a lambda",
    "statistics": "write sum(values) / len(values)",
    "zoneinfo": "write timezone(timedelta(hours=2))",
    **dict.fromkeys(("aiohttp", "httpx", "requests", "socket", "subprocess", "urllib"), _NETWORK),
}
#: Part of an error message to what to write instead.
_INSTEAD = {
    "yield": "collect the values in a list and return it",
    "'del'": "write values.pop(key)",
    "inheritance": "raise RuntimeError or ValueError; write functions and dicts",
    "async with": "call and await in a loop, or with asyncio.gather",
    "gather() does not": "catch errors in an async function of your own, and gather its calls",
    "Module `asyncio` has no member": "asyncio has gather, run and sleep here",
    "unexpected token `": "send the script without ``` around it",
    "callable replacement": "loop over re.finditer",
}
#: Names that other systems use to call tools.
_CALLERS = frozenset(
    "call_tool call_mcp_tool client execute mcp search_tools session tool tools".split()
)
_CALLS = "tools are functions of their servers: `await server.tool(name=value)`"
_MISSING_KEY = re.compile(r"AttributeError: 'dict' object has no attribute '(\w+)'")
_MISSING_METHOD = re.compile(
    r"AttributeError: (?:type object )?'(\w+)' (?:object )?has no attribute '(\w+)'"
)
_BUILTIN_TYPES = {one.__name__: one for one in (str, bytes, int, float, list, dict, set, tuple)}


def module_hint(module: str) -> str:
    """The message for a module that cannot be imported."""
    instead = _MODULES.get(module.partition(".")[0])
    return instead or f"there are: {', '.join(sorted(MODULES))}"


def name_hint(name: str) -> str:
    """A hint for an undefined name; empty if there is none."""
    return f"; {_CALLS}" if name in _CALLERS else ""


def with_hint(message: str) -> str:
    """A message of the sandbox, with a hint if there is one.

    Example:
        >>> with_hint("the sandbox's Python lacks the 'del' statement")
        "the sandbox's Python lacks the 'del' statement; write values.pop(key)"
    """
    for part, instead in _INSTEAD.items():
        if part in message:
            return f"{message}; {instead}"
    found = _MISSING_METHOD.match(message)
    if found and not found[2].startswith("_") and hasattr(_BUILTIN_TYPES.get(found[1]), found[2]):
        return (
            f"{message}; a method of {found[1]} can only be called here, not passed on: "
            f"write a lambda that calls .{found[2]}(...)"
        )
    if found := _MISSING_KEY.match(message):
        return f"{message}; a result is a dict: write [{found[1]!r}]"
    if message.startswith("TypeError: string indices"):
        return f"{message}; the value is a text: print it to see it, or parse it with json.loads"
    return message


def lacking_builtin(name: str) -> str | None:
    """The message for a builtin function that the sandbox does not have; None for other names."""
    if not hasattr(builtins, name):
        return None
    instead = "; files are read and written by tools" if name == "open" else ""
    return f"the sandbox's Python lacks {name!r}{instead}"
