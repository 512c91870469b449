"""Which errors of the type checker are certain enough to stop a script before it runs.

The checker knows less than the run does: a value that is a text or nothing may be a text here, and
a dict in a variable fits no TypedDict. What is not certain is left to the run, where each call is
checked against its schema.
"""

from __future__ import annotations

import re
from typing import Any

#: Errors that show in the script's own words, whatever its values are.
_ALWAYS = frozenset(
    {
        "invalid-key",
        "invalid-syntax",
        "missing-argument",
        "missing-typed-dict-key",
        "too-many-positional-arguments",
        "unknown-argument",
        "unresolved-import",
        "unresolved-reference",
        "unused-awaitable",
    }
)
#: Errors that are certain where a tool's result, or a call that was not awaited, is misused.
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
_UNION = re.compile(r" in union |\(subscripted object|\||\bUnknown\b")
_TYPES = re.compile(r"^(?:class )?(\w+)(?::$|\(TypedDict\)| = TypedDict)", re.MULTILINE)
_ARGUMENT = re.compile(
    r"Argument to bound method `_\w+\.\w+` is incorrect: Expected `(.+)`, found `(.+)`$"
    r"|Invalid argument to key .* with declared type `(.+)` on .*: value of type `(.+)`$"
)
_AWAITED = "CoroutineType["
_SCALAR = re.compile(r"(?:str|int|float|bool|bytes|None|Literal\[.*\])\*?$")
_NEVER_SENT = re.compile(r"(?:set|frozenset)\[|CoroutineType\[")
_CONTAINER = re.compile(r"(?:list|dict)\[")


def is_certain(row: dict[str, Any], source: str, stubs: str) -> bool:
    """Whether an error is one for sure, so that the script need not run.

    Args:
        row: of the checker's report.
        source: what the script has at its place.
        stubs: that the script was checked against.
    """
    rule, message = row.get("name"), str(row.get("message", ""))
    if rule in _ALWAYS:
        return "(subscripted object" not in message
    if rule == "invalid-argument-type":
        found = _ARGUMENT.match(message)
        if found is None or source.startswith("*"):
            return f"found `{_AWAITED}" in message
        return _never_fits(found[1] or found[3], found[2] or found[4])
    if rule not in _OF_RESULTS:
        return False
    if _AWAITED in message or message.startswith("Module `"):
        return True
    known = set(_TYPES.findall(stubs))
    return not _UNION.search(message) and bool(known.intersection(re.findall(r"\w+", message)))


def _never_fits(expected: str, found: str) -> bool:
    """Whether no value of the found type is one that the tool takes."""
    if _NEVER_SENT.match(found):
        return True
    if _UNION.search(found):
        return False
    if not _SCALAR.match(found):
        return bool(_SCALAR.match(expected) and _CONTAINER.match(found))
    if "Literal[" in expected and found.rstrip("*") in ("str", "int"):
        return False
    # 3.0 is an integer in JSON.
    return not (found.startswith("float") and "int" in expected)
