"""Hints for parts of Python that the sandbox does not have."""

from __future__ import annotations

import builtins
import re

from .names import MODULES

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
