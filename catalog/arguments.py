"""Reads a call's arguments, and says in clear messages where they do not fit the tool's schema."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from jsonschema.exceptions import ValidationError, best_match

from ..untrusted.json_bytes import read_json
from .schema_check import first_errors, prepared_validator

#: Maximum number of problems in one answer.
MAX_PROBLEMS = 5
#: Maximum number of values in one call's arguments.
MAX_VALUES = 20_000
#: Maximum number of errors that are searched for values with another reading.
_MAX_CORRECTIONS = 200
#: `got` of a problem with an argument that is not in the schema.
_UNKNOWN = "unknown"
_SHOWN_CHARS = 80
_MAX_CHOICES, _CHOICE_CHARS = 12, 30
_MAX_NAMES_COMPARED, _MAX_BRANCHES = 100, 64
_MAX_NAME_CHARS = 40
_MAX_DEPTH = 80


@dataclass(frozen=True, slots=True)
class ArgumentProblem:
    """One problem of a call's arguments.

    Args:
        path: JSON pointer to the value; empty for the arguments as a whole.
        expected: what the schema requires there.
        got: the actual value as JSON, shortened. `unknown` is an argument that the schema does not
            list: then `expected` is the name that was probably meant, or the names that it lists.

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
        if self.got == _UNKNOWN:
            is_list = self.expected.startswith(("one of ", "nothing"))
            hint = f"expected {self.expected}" if is_list else f"did you mean {self.expected}?"
            return f"{self.path}: unknown; {hint}"
        return f"{self.path or 'arguments'}: expected {self.expected}, got {self.got}"

    def to_dict(self) -> dict[str, str]:
        """JSON form."""
        return {"path": self.path, "expected": self.expected, "got": self.got}


def problems_sentence(problems: Iterable[ArgumentProblem]) -> str:
    """What is wrong with a call's arguments, as a sentence."""
    text = "; ".join(map(str, problems))
    return f"The arguments do not fit: {text}{'' if text.endswith('?') else '.'}"


def argument_problems(schema: Mapping[str, Any], arguments: object) -> tuple[ArgumentProblem, ...]:
    """Problems of a call's arguments, the most useful first, at most `MAX_PROBLEMS`.

    Args:
        schema: a tool's input schema, of any draft.
        arguments: arguments from the model.
    """
    return ArgumentCheck(schema).problems(arguments)


class ArgumentCheck:
    """`argument_problems` for one schema, prepared once.

    Args:
        schema: a tool's input schema, of any draft.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._validator = prepared_validator(schema)

    def read(self, arguments: object) -> tuple[object, tuple[ArgumentProblem, ...]]:
        """The arguments as the schema reads them, see `arguments_as_meant`, and their problems."""
        problems = self.problems(arguments)
        if not problems or not isinstance(arguments, Mapping):
            return arguments, problems
        meant = arguments_as_meant(self._schema, arguments)
        return meant, problems if meant is arguments else self.problems(meant)

    def problems(self, arguments: object) -> tuple[ArgumentProblem, ...]:
        """Problems of a call's arguments, the most useful first, at most `MAX_PROBLEMS`."""
        if not isinstance(arguments, Mapping):
            return (ArgumentProblem("", "an object", short_json(arguments)),)
        if not _is_within_limits(arguments):
            return (ArgumentProblem("", f"at most {MAX_VALUES:,} values", "more"),)
        errors = first_errors(self._validator, _to_dicts_and_lists(arguments), MAX_PROBLEMS)
        problems = dict.fromkeys(_problem_of(error) for error in errors)
        problems |= dict.fromkeys(_misnamed_arguments(errors))
        return tuple(problems)[:MAX_PROBLEMS]


def read_arguments(arguments: object) -> tuple[object, ArgumentProblem | None]:
    """The arguments of a call as a JSON value, from the form in which a provider gives them.

    Args:
        arguments: an object, its JSON text, or None or an empty text for no arguments.

    Returns:
        The value, `{}` for no arguments, and None; or for a text that is not JSON the text and the
        problem.
    """
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return {}, None
    if not isinstance(arguments, str):
        return arguments, None
    try:
        # Models write line breaks into texts as they are.
        value = read_json(arguments, strict=False, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        is_cut = error.pos >= len(arguments.rstrip()) or error.msg.startswith("Unterminated string")
        if is_cut:
            shown = short_json(arguments[-_CUT_END_CHARS:])
            return arguments, ArgumentProblem("", _COMPLETE_JSON, f"text cut off after {shown}")
        reason = f"text that is not JSON at character {error.pos + 1:,}: {error.msg}"
        return arguments, ArgumentProblem("", "a JSON object", reason)
    except ValueError as error:
        reason = f"text that cannot be read as JSON: {error!s:.{_SHOWN_CHARS}}"
        return arguments, ArgumentProblem("", "a JSON object", reason)
    return ({} if value is None else value), None


_COMPLETE_JSON = "a complete JSON object, closed with }"
#: Characters shown of the end of a text that was cut off.
_CUT_END_CHARS = 40


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def arguments_as_meant(
    schema: Mapping[str, Any], arguments: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The arguments as the schema reads them, where it allows one reading.

    A `null` that it does not allow means absent: some clients send one for every argument that the
    model left out. A text in place of a number, a truth value, a list or an object is read as JSON
    if that gives a value of the only type that fits. The same object is returned if nothing
    changes.

    Args:
        schema: a tool's input schema, of any draft.
        arguments: arguments from the model.

    Example:
        >>> schema = {"properties": {"n": {"type": "integer"}, "to": {"type": ["string", "null"]}}}
        >>> arguments_as_meant(schema, {"n": "2", "to": None})
        {'n': 2, 'to': None}
        >>> arguments_as_meant(schema, {"n": None, "to": "2"})
        {'to': '2'}
    """
    if not _is_within_limits(arguments):
        return arguments
    instance = _to_dicts_and_lists(arguments)
    has_changed = False
    for error in first_errors(prepared_validator(schema), instance, _MAX_CORRECTIONS):
        path = list(error.absolute_path)
        if not path:
            continue
        parent = instance
        for part in path[:-1]:
            parent = parent[part]
        if error.instance is None and isinstance(path[-1], str):
            # Several keywords may refuse the same value.
            parent.pop(path[-1], None)
            has_changed = True
        elif isinstance(error.instance, str):
            for value in _values_in_text(error.instance, _types_allowed(error)):
                parent[path[-1]] = value
                has_changed = True
    return instance if has_changed else arguments


def _types_allowed(error: ValidationError) -> frozenset[str]:
    """The types that would fit, if the type is all that is wrong; otherwise empty."""
    errors = [error]
    if error.validator in ("anyOf", "oneOf"):
        errors = error.context or []
    types: set[str] = set()
    for type_error in errors:
        listed = type_error.validator_value
        names = listed if isinstance(listed, list) else [listed]
        is_about_value = type_error.absolute_path == error.absolute_path
        if type_error.validator != "type" or not is_about_value:
            return frozenset()
        types.update(name for name in names if isinstance(name, str))
    return frozenset(types)


def _values_in_text(text: str, types: frozenset[str]) -> list[Any]:
    """The JSON value that a text holds, if it is of one of the types; otherwise empty."""
    if not types:
        return []
    try:
        value = read_json(text, strict=False, parse_constant=_refuse_constant)
    except ValueError:
        return []
    names = _JSON_TYPES.get(type(value), ())
    return [value] if not types.isdisjoint(names) else []


#: Type of a value to its types in a schema. `null` and texts are not read from a text.
_JSON_TYPES: Mapping[type, tuple[str, ...]] = {
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    list: ("array",),
    dict: ("object",),
}


def _problem_of(error: ValidationError) -> ArgumentProblem:
    """The problem that is easiest to correct. Of alternatives, the one that fits best."""
    if error.context:
        # `best_match` raises TypeError where a server's `type` is neither a text nor a list.
        with suppress(TypeError):
            error = best_match([_trim_branches(error)]) or error
    path = [str(part) for part in error.absolute_path]
    instance, value = error.instance, error.validator_value
    actual = short_json(instance)
    keyword = str(error.validator)
    if keyword == "required":
        missing = _missing_name(error)
        return ArgumentProblem(
            _pointer([*path, missing]), _expected_property(error, missing), "nothing"
        )
    if keyword == "additionalProperties" and isinstance(instance, Mapping):
        unknown = _unknown_names(error)
        if unknown:
            return _unknown_argument(error, unknown)
    return ArgumentProblem(_pointer(path), _expected_value(keyword, value), actual)


#: Keywords with which an object may have names that `properties` does not list.
_KEYWORDS_WITH_OTHER_NAMES = (
    "additionalProperties",
    "patternProperties",
    "$ref",
    "allOf",
    "anyOf",
    "oneOf",
)


def _misnamed_arguments(errors: Iterable[ValidationError]) -> Iterator[ArgumentProblem]:
    """The problem of an unknown name beside each missing one, though the schema may permit it."""
    for error in errors:
        schema = error.schema if isinstance(error.schema, dict) else {}
        may_have_others = any(schema.get(keyword) for keyword in _KEYWORDS_WITH_OTHER_NAMES)
        if error.validator == "required" and not may_have_others:
            unknown = _unknown_names(error) if _declared_names(error) else []
            if unknown:
                yield _unknown_argument(error, unknown)


def _object_of(error: ValidationError) -> Mapping[str, Any]:
    return error.instance if isinstance(error.instance, Mapping) else {}


def _unknown_names(error: ValidationError) -> list[str]:
    """The names in an object that its schema does not list."""
    declared = set(_declared_names(error))
    return [str(key) for key in _object_of(error) if key not in declared]


def _declared_names(error: ValidationError) -> list[str]:
    declared = error.schema.get("properties") if isinstance(error.schema, dict) else None
    return [str(name) for name in declared] if isinstance(declared, dict) else []


def _unknown_argument(error: ValidationError, unknown: Sequence[str]) -> ArgumentProblem:
    """The problem of an object's first unknown name, with the name that was probably meant."""
    name, names = unknown[0], _declared_names(error)
    required = error.schema.get("required") if isinstance(error.schema, dict) else None
    required = required if isinstance(required, list) else []
    missing = [key for key in names if key in required and key not in _object_of(error)]
    # Comparing takes the product of the lengths, for every name.
    short = [key for key in names[:_MAX_NAMES_COMPARED] if len(key) <= _MAX_NAME_CHARS]
    meant = get_close_matches(name, short, n=1) if len(name) <= _MAX_NAME_CHARS else []
    if not meant and len(missing) == len(unknown) == 1:
        meant = missing
    listed = ", ".join(f"{key!s:.{_SHOWN_CHARS}}" for key in names[:_MAX_CHOICES])
    expected = meant[0][:_SHOWN_CHARS] if meant else f"one of {listed}" if names else "nothing"
    path = [str(part) for part in error.absolute_path]
    return ArgumentProblem(_pointer([*path, name]), expected, _UNKNOWN)


def _trim_branches(error: ValidationError) -> ValidationError:
    """The error with few branches per alternative, because branches are compared in pairs."""
    waiting = [error]
    while waiting:
        current = waiting.pop()
        current.context = (current.context or [])[:_MAX_BRANCHES]
        waiting += current.context
    return error


def _missing_name(error: ValidationError) -> str:
    required = error.validator_value if isinstance(error.validator_value, list) else []
    return next(
        (str(name) for name in required if f"{name!r} is a required property" == error.message),
        "?",
    )


def _expected_property(error: ValidationError, name: str) -> str:
    schema = error.schema if isinstance(error.schema, dict) else {}
    properties = schema.get("properties", {})
    property_schema = properties.get(name) if isinstance(properties, dict) else None
    kind = property_schema.get("type") if isinstance(property_schema, dict) else None
    return f"{_expected_value('type', kind)} (required)" if kind else "a value (required)"


def _expected_value(keyword: str, value: Any) -> str:
    if keyword == "type":
        kinds = value if isinstance(value, list) else [value]
        return " or ".join(f"{kind!s:.{_SHOWN_CHARS}}" for kind in kinds[:_MAX_CHOICES])
    if keyword == "enum" and isinstance(value, list):
        choices = ", ".join(short_json(choice, _CHOICE_CHARS) for choice in value[:_MAX_CHOICES])
        return f"one of {choices}{', ...' if len(value) > _MAX_CHOICES else ''}"
    if keyword == "const":
        return short_json(value)
    words = {
        "minimum": "at least",
        "maximum": "at most",
        "exclusiveMinimum": "more than",
        "exclusiveMaximum": "less than",
        "multipleOf": "a multiple of",
        "pattern": "a text that matches",
    }
    if keyword in words:
        return f"{words[keyword]} {short_json(value)}"
    counts = {
        "minLength": "at least {} characters",
        "maxLength": "at most {} characters",
        "minItems": "at least {} items",
        "maxItems": "at most {} items",
    }
    if keyword in counts:
        return counts[keyword].format(short_json(value))
    if keyword == "uniqueItems":
        return "no item twice"
    return f"a value that fits {keyword!r} of the schema"


def short_json(value: object, most: int = _SHOWN_CHARS) -> str:
    """A value as JSON for a message, cut to a number of characters."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= most else text[: most - 3] + "..."


def _pointer(path: Sequence[str]) -> str:
    escaped = (part.replace("~", "~0").replace("/", "~1") for part in path)
    return "".join(f"/{part[:_SHOWN_CHARS]}" for part in escaped)


def _is_within_limits(arguments: object) -> bool:
    """Whether the values are few enough and not nested too deep."""
    values_left, waiting = MAX_VALUES, [(arguments, 0)]
    while waiting:
        value, depth = waiting.pop()
        values_left -= 1
        if values_left < 0 or depth > _MAX_DEPTH:
            return False
        if isinstance(value, Mapping):
            waiting.extend((item, depth + 1) for item in value.values())
        elif isinstance(value, list | tuple):
            waiting.extend((item, depth + 1) for item in value)
    return True


def _to_dicts_and_lists(value: Any) -> Any:
    """Mappings and tuples as dicts and lists, which the checker requires."""
    if isinstance(value, Mapping):
        return {str(key): _to_dicts_and_lists(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_dicts_and_lists(item) for item in value]
    return value
