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
from .script_names import IMPORTABLE_MODULES, nearest

#: Most errors in one message.
_MAX_ERRORS = 5
_SERVER_METHOD = re.compile(r"`_([a-zA-Z]\w*)([.`])")
_CALLED_TOOL = re.compile(r"bound method `_(\w+)\.(\w+)`")
_TYPED_DICT = re.compile(r"(?:TypedDict|Object of type) `(\w+)`")
_CALLED_NAME = re.compile(r"(\w+)(?:\.(\w+))?")
_WORD = re.compile(r"[^\W\d]\w*")
#: Kinds of errors that come first, because they explain others in the same line.
_RULES_SHOWN_FIRST = (
    "invalid-syntax",
    "unknown-argument",
    "too-many-positional-arguments",
    "invalid-key",
)
#: The checker's messages about a value of which another message names the wrong part.
_WHOLE_ARGUMENT_MESSAGE = "Argument to bound method"


def type_error(report: str, script: Script) -> ScriptError | None:
    """A report of the type checker as one error; None if no error in it is certain.

    Args:
        report: the report as JSON.
        script: the checked script.
    """
    rows = certain_rows(_parse_rows(report), script.code, script.stubs)
    if not rows:
        return None
    part_rows = [row for row in rows if not message_of(row).startswith(_WHOLE_ARGUMENT_MESSAGE)]
    part_lines = {_line_of(row) for row in part_rows}
    # If a message names the wrong part, the message about the whole value adds nothing.
    shown_rows = [row for row in rows if row in part_rows or _line_of(row) not in part_lines]
    shown_rows.sort(key=lambda row: (_line_of(row) or 0, row.get("name") not in _RULES_SHOWN_FIRST))
    messages: dict[tuple[int | None, str], None] = {}
    for row in shown_rows:
        messages[_line_of(row), _explain_row(row, script)] = None
    first_message, *other_messages = messages
    more_texts = [
        text if line is None else f"line {line}: {text}"
        for line, text in other_messages[:_MAX_ERRORS]
    ]
    if len(other_messages) > _MAX_ERRORS:
        more_texts.append(f"and {len(other_messages) - _MAX_ERRORS} more")
    syntax = any(row.get("name") == "invalid-syntax" for row in shown_rows)
    return ScriptError(
        "syntax" if syntax else "type", first_message[1], first_message[0], tuple(more_texts)
    )


def _parse_rows(report: str) -> list[ErrorRow]:
    try:
        rows = json.loads(report)
    except ValueError:
        return [{"message": report[:1_000]}]
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _line_of(row: ErrorRow) -> int | None:
    return error_span(row)[0][0] or None


def _explain_row(row: ErrorRow, script: Script) -> str:
    """The checker's message, with what it cannot know: other names, and what to write here."""
    message, name = message_of(row), row.get("name")
    source_text = error_source(row, script.code)[:80]
    if "CoroutineType[" in message:
        return f"`{source_text}`: a call is not awaited; write `await` before it"
    called = _CALLED_NAME.match(_rest_of_line(row, script.code))
    if name == "unresolved-reference" and called:
        return _explain_name(called[1], called[2] or "", script)
    if name == "unresolved-attribute" and called and "type `_" in message:
        return script.explain_unknown(called[1], called[2] or "", "")
    if name == "unknown-argument" and (match := _CALLED_TOOL.search(message)):
        return script.explain_unknown(match[1], match[2], source_text.partition("=")[0].strip())
    if name == "unresolved-import":
        return f"{message}; there are: {', '.join(sorted(IMPORTABLE_MODULES))}"
    if name in ("invalid-key", "unresolved-attribute") and (
        keys := _typed_dict_keys(message, script.stubs)
    ):
        return f"{message}; a dict with the keys: {', '.join(keys)}"
    if message.startswith(_WHOLE_ARGUMENT_MESSAGE):
        message = f"`{source_text}`: {message}"
    if message.startswith("Module `") and called:
        # A server with the name of a module has another namespace.
        server = script.explain_unknown(called[1], called[2] or "", "")
        if "did you mean" in server:
            return f"{message}; as a server: {server}"
    return with_hint(_SERVER_METHOD.sub(r"`\1\2", message).replace("bound method", "function"))


def _rest_of_line(row: ErrorRow, code: str) -> str:
    """The script's text from the position of an error to the end of its line."""
    return error_source({"location": row.get("location")}, code)


def _explain_name(name: str, attribute: str, script: Script) -> str:
    """The message for an undefined name."""
    if hasattr(builtins, name):
        return f"the sandbox's Python lacks {name!r}; files are read and written by tools"
    if name in IMPORTABLE_MODULES:
        return f"the module {name!r} is not imported: begin the script with `import {name}`"
    answer = script.explain_unknown(name, attribute, "")
    words = set(_WORD.findall(script.code)) - {name}
    similar = None if "did you mean" in answer else nearest(name, sorted(words))
    return f"{answer}; did you mean {similar}?" if similar else answer


def _typed_dict_keys(message: str, stubs: str) -> list[str]:
    """The keys of the TypedDict of the stubs that a message names."""
    named = _TYPED_DICT.search(message)
    if named is None:
        return []
    name = named[1]
    if match := re.search(rf"^class {name}\(TypedDict\):\n((?:    .*\n)+)", stubs, re.MULTILINE):
        return re.findall(r"^    (\w+):", match[1], re.MULTILINE)
    match = re.search(rf"^{name} = TypedDict\((.*)\)$", stubs, re.MULTILINE)
    return re.findall(r"'([^']+)':", match[1]) if match else []


#: One error in the checker's report.
ErrorRow = dict[str, Any]
#: Errors that do not depend on values.
_CERTAIN_RULES = frozenset(
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
_RESULT_RULES = frozenset(
    {
        "call-non-callable",
        "invalid-await",
        "not-iterable",
        "not-subscriptable",
        "unresolved-attribute",
        "unsupported-operator",
    }
)
_UNCERTAIN_TYPE = re.compile(r" in union |\||\bUnknown\b|\bdict\[")
_TYPE_NAMES = re.compile(r"^(?:class )?(\w+)(?::$|\(TypedDict\)| = TypedDict)", re.MULTILINE)
_WRONG_TOOL_ARGUMENT = re.compile(
    r"Argument to bound method `_\w+\.\w+` is incorrect: Expected `(.+)`, found `(.+)`$"
)
_WRONG_KEY_VALUE = re.compile(
    r"Invalid argument to key .* with declared type `(.+)` on .*: value of type `(.+)`$"
)
_UNAWAITED_TYPE = "CoroutineType["
_SCALAR_TYPE = re.compile(r"(?:str|int|float|bool|bytes|None|Literal\[.*\])\*?$")
_TYPE_NOT_JSON = re.compile(r"(?:set|frozenset)\[|CoroutineType\[")
_CONTAINER_TYPE = re.compile(r"(?:list|dict)\[")


def certain_rows(rows: Sequence[ErrorRow], code: str, stubs: str) -> list[ErrorRow]:
    """The errors that are certain, so that the script need not run.

    Args:
        rows: rows of the checker's report.
        code: the script.
        stubs: the stubs of the check.
    """
    types = set(_TYPE_NAMES.findall(stubs))
    argument_spans = [
        error_span(row) for row in rows if _WRONG_TOOL_ARGUMENT.match(message_of(row))
    ]
    return [row for row in rows if _is_certain(row, code, types, argument_spans)]


def message_of(row: ErrorRow) -> str:
    """The checker's message."""
    return str(row.get("message", ""))[:1_000]


def error_span(row: ErrorRow) -> tuple[tuple[int, int], tuple[int, int]]:
    """Start and end as line and column, from 1; zeros if unknown. The end is exclusive."""
    positions = []
    for name in ("location", "end_location"):
        place = row.get(name)
        place = place if isinstance(place, dict) else {}
        line, column = place.get("row"), place.get("column")
        has_position = isinstance(line, int) and isinstance(column, int)
        positions.append((int(line), int(column)) if has_position and line and column else (0, 0))
    return positions[0], positions[1]


def error_source(row: ErrorRow, code: str) -> str:
    """The script's text from the position of an error to the end of the line."""
    (line, column), (end_line, end_column) = error_span(row)
    lines = code.splitlines()
    if not 0 < line <= len(lines):
        return ""
    return lines[line - 1][column - 1 : end_column - 1 if end_line == line else None]


def _is_certain(row: ErrorRow, code: str, types: set[str], argument_spans: Sequence[Any]) -> bool:
    rule, message = row.get("name"), message_of(row)
    if rule in _CERTAIN_RULES:
        return True
    if rule == "invalid-syntax":
        # In the sandbox, `return` ends a script. The checker does not know this.
        return not message.startswith("`return` statement outside")
    start, end = error_span(row)
    inside = any(
        argument_start <= start and end <= argument_end
        for argument_start, argument_end in argument_spans
    )
    if rule == "missing-typed-dict-key":
        return inside
    if rule == "invalid-key":
        return "Unknown key" in message and (inside or _is_only_read(row, code))
    if rule == "invalid-argument-type":
        if match := _WRONG_KEY_VALUE.match(message):
            return inside and _never_fits(match[1], match[2])
        if match := _WRONG_TOOL_ARGUMENT.match(message):
            return not error_source(row, code).startswith("*") and _never_fits(match[1], match[2])
        return f"found `{_UNAWAITED_TYPE}" in message
    if rule not in _RESULT_RULES:
        return False
    if _UNAWAITED_TYPE in message or message.startswith("Module `"):
        return True
    return not _UNCERTAIN_TYPE.search(message) and bool(
        types.intersection(re.findall(r"\w+", message))
    )


def _is_only_read(row: ErrorRow, code: str) -> bool:
    """Whether the script reads a key by its name and never writes it."""
    if "(subscripted object" in message_of(row):
        return False
    key_match = re.fullmatch(r"""['"](.*)['"]""", error_source(row, code))
    if key_match is None:
        return False
    write_pattern = rf"""['"]{re.escape(key_match[1])}['"]\s*(?:\]\s*[^\s\w=]{{0,2}}=(?!=)|[:,])"""
    return re.search(write_pattern, code) is None


def _never_fits(expected: str, actual: str) -> bool:
    """Whether the tool accepts no value of the found type."""
    if _TYPE_NOT_JSON.match(actual):
        return True
    if re.search(r"\||\bUnknown\b", actual):
        return False
    if not _SCALAR_TYPE.match(actual):
        return bool(_SCALAR_TYPE.match(expected) and _CONTAINER_TYPE.match(actual))
    if "Literal[" in expected and actual.rstrip("*") in ("str", "int"):
        return False
    # JSON Schema counts 3.0 as an integer.
    return not (actual.startswith("float") and "int" in expected)


#: Part of an error message to what to write instead.
_HINTS = {
    "Too many positional arguments": "arguments are given by name: `function(name=value)`",
    "unexpected token `": "send the script without ``` around it",
    "Module `asyncio` has no member": "asyncio has gather, run and sleep here",
    "AttributeError: type object": "methods are only called here: write a lambda that calls it",
    "'dict' object has no attribute": "a result is a dict: write result['key']",
    "TypeError: string indices": "the value is a text: print it, or parse it with json.loads",
}
#: Names that other systems use to call tools.
_OTHER_CALL_NAMES = frozenset(
    "call_tool call_mcp_tool client execute mcp search_tools session tool tools".split()
)
_CALL_HINT = "tools are functions of their servers: `await server.tool(name=value)`"


def name_hint(name: str) -> str:
    """A hint for an undefined name; empty if there is none."""
    return f"; {_CALL_HINT}" if name in _OTHER_CALL_NAMES else ""


def with_hint(message: str) -> str:
    """A message of the sandbox, with a hint if there is one.

    Example:
        >>> with_hint("Got unexpected token `")
        'Got unexpected token `; send the script without ``` around it'
    """
    hints = (hint for part, hint in _HINTS.items() if part in message)
    return "; ".join([message, *hints])
