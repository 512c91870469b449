"""Converts errors of the type checker to messages with which a model can correct its script."""

from __future__ import annotations

import json
import re

from .certainty import Row, certain, message_of, source, span
from .hints import lacking_builtin, module_hint, with_hint
from .names import nearest
from .sandbox import Script, ScriptError

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
