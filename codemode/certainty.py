"""Which errors of the type checker are certain enough to stop a script before it runs.

The checker knows less than the run. A value of type `str | None` may be a text here, a dict in a
variable matches no TypedDict, and a result may have further keys. Errors that are not certain are
ignored. The run checks each call against its schema.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

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
