"""Errors of the type checker in words that help a model to mend its script."""

from __future__ import annotations

import json
import re
from typing import Any

from .names import MODULES
from .sandbox import ScriptError, Unknown

#: Errors told at once.
_MOST = 5
_METHOD = re.compile(r"`_(\w+)([.`])")
_CLASS = re.compile(r"type `_\w+` has no attribute")
_CALLED = re.compile(r"(\w+)(?:\.(\w+))?")
_MODULE = re.compile(r"module `([\w.]+)`")
#: Errors that only a dict written in place can have: they are right whatever else is wrong.
_CERTAIN = frozenset({"invalid-key", "missing-typed-dict-key"})
#: Said of a whole that was found wrong in a part.
_WHOLE = "Argument to bound method"


def is_certain(found: str) -> bool:
    """Whether a report has errors that a variable holding a dict cannot be the cause of.

    Args:
        found: the report, JSON.
    """
    return any(
        one.get("name") in _CERTAIN
        or (
            str(one.get("message", "")).startswith("Invalid argument to key")
            and "dict[" not in str(one.get("message", ""))
        )
        for one in _rows(found)
    )


def type_error(found: str, code: str, unknown: Unknown) -> ScriptError:
    """A report of the type checker as one error.

    Args:
        found: the report, JSON.
        code: the script.
        unknown: explains a function without a stub.
    """
    lines = code.splitlines()
    rows = _rows(found)
    inner = [one for one in rows if not str(one.get("message", "")).startswith(_WHOLE)]
    places = {_line(one) for one in inner}
    # Where a part is named as wrong, that the whole does not fit says nothing more.
    told = [one for one in rows if one in inner or _line(one) not in places]
    said: dict[tuple[int | None, str], None] = {}
    for one in told:
        said[_line(one), _message(one, lines, unknown)] = None
    first, *others = said or {(None, "the script does not fit the functions"): None}
    more = [text if line is None else f"line {line}: {text}" for line, text in others[:_MOST]]
    if len(others) > _MOST:
        more.append(f"and {len(others) - _MOST} more")
    syntax = any(one.get("name") == "invalid-syntax" for one in told)
    return ScriptError("syntax" if syntax else "type", first[1], first[0], tuple(more))


def _rows(found: str) -> list[dict[str, Any]]:
    try:
        rows = json.loads(found)
    except ValueError:
        return [{"message": found[:1_000]}]
    return [one for one in rows if isinstance(one, dict)] if isinstance(rows, list) else []


def _line(row: dict[str, Any]) -> int | None:
    place = row.get("location")
    line = place.get("row") if isinstance(place, dict) else None
    return line if isinstance(line, int) else None


def _message(row: dict[str, Any], lines: list[str], unknown: Unknown) -> str:
    message, name = str(row.get("message", ""))[:1_000], row.get("name")
    if name == "unresolved-attribute" and _CLASS.search(message):
        if found := _CALLED.match(_source(row, lines)):
            return unknown(found[1], found[2] or "")
    elif name == "unresolved-reference" and (found := _CALLED.match(_rest(row, lines))):
        return unknown(found[1], found[2] or "")
    if name == "unused-awaitable":
        return f"`{_source(row, lines)[:80]}` is not awaited; write `await` before it"
    if name == "unresolved-import" and (module := _MODULE.search(message)):
        return f"no module {module[1]!r} here; use one of: {', '.join(sorted(MODULES))}"
    if "`return` statement outside" in message:
        return "`return` outside of a function; end the script with an expression instead"
    message = _METHOD.sub(r"`\1\2", message).replace("bound method", "function")
    if name == "too-many-positional-arguments":
        return "arguments are given by name: `function(name=value)`"
    return message


def _source(row: dict[str, Any], lines: list[str]) -> str:
    """What the script has at a place that lies on one line."""
    start, end = row.get("location"), row.get("end_location")
    if not isinstance(start, dict) or not isinstance(end, dict) or start["row"] != end["row"]:
        return ""
    if not 0 < start["row"] <= len(lines):
        return ""
    return str(lines[start["row"] - 1][start["column"] - 1 : end["column"] - 1])


def _rest(row: dict[str, Any], lines: list[str]) -> str:
    """What the script has from a place to the end of its line."""
    start = row.get("location")
    if not isinstance(start, dict) or not 0 < start["row"] <= len(lines):
        return ""
    return str(lines[start["row"] - 1][start["column"] - 1 :])
