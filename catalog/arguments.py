"""Checks a call's arguments against the tool's schema, with messages that a model can act on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from jsonschema.exceptions import ValidationError, best_match

from .bounded import first_errors

#: Problems told at once.
MAX_PROBLEMS = 5
#: Values in one call's arguments.
MAX_VALUES = 20_000
_SHOWN = 80
_CHOICES, _CHOICE = 12, 30
_COMPARED, _BRANCHES = 100, 64
_NAME = 40
_MAX_DEPTH = 80


@dataclass(frozen=True, slots=True)
class ArgumentProblem:
    """One problem of a call's arguments.

    Args:
        path: JSON pointer to the value; empty for the arguments as a whole.
        expected: what the schema requires there.
        got: the actual value, shortened.

    Example:
        >>> from shortlist import Engine, Tool
        >>> schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        >>> view = Engine.from_tools([Tool("add", "math", "", schema)], tiers=["lexical"]).view()
        >>> [str(problem) for problem in view.check("add", {"n": "one"}).problems]
        ['/n: expected integer, got "one"']
    """

    path: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"{self.path or 'arguments'}: expected {self.expected}, got {self.got}"

    def to_dict(self) -> dict[str, str]:
        """JSON form."""
        return {"path": self.path, "expected": self.expected, "got": self.got}


def argument_problems(schema: Mapping[str, Any], arguments: object) -> tuple[ArgumentProblem, ...]:
    """Problems of a call's arguments, the most useful first, at most `MAX_PROBLEMS`.

    Args:
        schema: a tool's input schema, of any draft.
        arguments: arguments from the model.
    """
    if not isinstance(arguments, Mapping):
        return (ArgumentProblem("", "an object", _shown(arguments)),)
    if not _within(arguments):
        return (ArgumentProblem("", f"at most {MAX_VALUES:,} values", "more"),)
    found = first_errors(schema, _plain(arguments), MAX_PROBLEMS)
    told = dict.fromkeys(_problem(error) for error in found)
    return tuple(told)


def _problem(error: ValidationError) -> ArgumentProblem:
    """The problem that is easiest to correct. Of alternatives, the one that fits best."""
    if error.context:
        error = best_match([_trimmed(error)]) or error
    path = [str(part) for part in error.absolute_path]
    instance, value = error.instance, error.validator_value
    got = _shown(instance)
    keyword = str(error.validator)
    if keyword == "required":
        missing = _missing(error)
        return ArgumentProblem(_pointer([*path, missing]), _described(error, missing), "nothing")
    if keyword == "additionalProperties" and isinstance(instance, Mapping):
        declared = error.schema.get("properties") if isinstance(error.schema, dict) else None
        known = [str(name) for name in declared] if isinstance(declared, dict) else []
        there = set(known)
        extra = next((str(key) for key in instance if key not in there), "")
        # Comparing takes the product of the lengths, for every name.
        short = [name for name in known[:_COMPARED] if len(name) <= _NAME]
        near = get_close_matches(extra, short, n=1) if len(extra) <= _NAME else ()
        hint = f"; did you mean {near[0]!r}?" if near else ""
        names = ", ".join(f"{name!s:.{_SHOWN}}" for name in known[:_CHOICES]) or "none"
        return ArgumentProblem(
            _pointer([*path, extra]), f"no such parameter (known: {names}){hint}", "it"
        )
    return ArgumentProblem(_pointer(path), _expected(keyword, value), got)


def _trimmed(error: ValidationError) -> ValidationError:
    """The error with few branches per alternative, because branches are compared in pairs."""
    waiting = [error]
    while waiting:
        one = waiting.pop()
        one.context = (one.context or [])[:_BRANCHES]
        waiting += one.context
    return error


def _missing(error: ValidationError) -> str:
    wanted = error.validator_value if isinstance(error.validator_value, list) else []
    return next(
        (str(name) for name in wanted if f"{name!r} is a required property" == error.message),
        "?",
    )


def _described(error: ValidationError, name: str) -> str:
    schema = error.schema if isinstance(error.schema, dict) else {}
    properties = schema.get("properties", {})
    one = properties.get(name) if isinstance(properties, dict) else None
    kind = one.get("type") if isinstance(one, dict) else None
    return f"{_expected('type', kind)} (required)" if kind else "a value (required)"


def _expected(keyword: str, value: Any) -> str:
    if keyword == "type":
        kinds = value if isinstance(value, list) else [value]
        return " or ".join(f"{kind!s:.{_SHOWN}}" for kind in kinds[:_CHOICES])
    if keyword == "enum" and isinstance(value, list):
        more = ", ..." if len(value) > _CHOICES else ""
        return "one of " + ", ".join(_shown(one, _CHOICE) for one in value[:_CHOICES]) + more
    if keyword == "const":
        return _shown(value)
    words = {
        "minimum": "at least",
        "maximum": "at most",
        "exclusiveMinimum": "more than",
        "exclusiveMaximum": "less than",
        "multipleOf": "a multiple of",
        "pattern": "a text that matches",
        "minLength": "characters, at least",
        "maxLength": "characters, at most",
        "minItems": "items, at least",
        "maxItems": "items, at most",
    }
    if keyword in words:
        return f"{words[keyword]} {_shown(value)}"
    if keyword == "uniqueItems":
        return "no item twice"
    return f"what {keyword!r} asks for"


def _shown(value: object, most: int = _SHOWN) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= most else text[: most - 3] + "..."


def _pointer(path: Sequence[str]) -> str:
    escaped = (part.replace("~", "~0").replace("/", "~1") for part in path)
    return "".join(f"/{part[:_SHOWN]}" for part in escaped)


def _within(arguments: object) -> bool:
    """Whether the values are few enough and not nested too deep."""
    left, waiting = MAX_VALUES, [(arguments, 0)]
    while waiting:
        value, depth = waiting.pop()
        left -= 1
        if left < 0 or depth > _MAX_DEPTH:
            return False
        if isinstance(value, Mapping):
            waiting.extend((one, depth + 1) for one in value.values())
        elif isinstance(value, list | tuple):
            waiting.extend((one, depth + 1) for one in value)
    return True


def _plain(value: Any) -> Any:
    """Mappings and tuples as dicts and lists, which the checker requires."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value
