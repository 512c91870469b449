"""JSON Schema validation whose work is bounded, for schemas that come from strangers.

No reference leaves the schema, every keyword counts against a budget, and a pattern that could
backtrack without end is not tried: what cannot be checked here is left to the tool's server, which
checks it anyway.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from typing import Any

from jsonschema import validators
from jsonschema.exceptions import ValidationError
from referencing import Registry

#: Steps taken before the rest is left to the server: one for each keyword met and for each entry
#: of the list or object it is met at; a large real call takes some hundreds.
MAX_STEPS = 50_000
# Steps that comparing two lists or objects counts as.
_DEEP = 1_000
# Characters of a text a pattern is tried on, of the pattern, and repetitions without a fixed count
# in it: at most a few million steps.
_TRIED_CHARS, _PATTERN_CHARS, _REPETITIONS = 200, 200, 2
_VARIABLE = re.compile(r"(?<!\\)(?:[*+]|\{\d*,\d*\}|\?)")
_UNBOUNDED = re.compile(r"\)[*+{]|\(\?|\\[1-9]")
# Keywords whose cost does not show in the number of keywords met.
_LEFT_TO_SERVER = ("unevaluatedItems", "unevaluatedProperties", "patternProperties")

Errors = Iterator[ValidationError]


class _TooMuch(Exception):
    """The budget of steps is spent."""


class _Steps:
    def __init__(self) -> None:
        self.left = MAX_STEPS

    def take(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise _TooMuch


_steps: ContextVar[_Steps] = ContextVar("steps")


def first_errors(schema: Mapping[str, Any], instance: object, most: int) -> list[ValidationError]:
    """What the schema has against an instance, as far as it can be found within bounds.

    A schema that is itself wrong, refers to what is not there or to itself without end, or asks
    for too much ends the search; what was found until then stands.

    Args:
        schema: of any draft; drafts that are not known are read as 2020-12.
        instance: JSON made of dicts, lists and scalars, bounded by the caller.
        most: errors to stop at.
    """
    _steps.set(_Steps())
    found: list[ValidationError] = []
    try:
        checker = _checker(str(schema.get("$schema", "")))(schema, registry=Registry())
        for error in checker.iter_errors(instance):
            found.append(error)
            if len(found) == most:
                break
    except Exception:  # noqa: BLE001
        # Whatever a wrong schema raises, in the library or in a library below it.
        return found
    return found


@cache
def _checker(dialect: str) -> Any:
    base = validators.validator_for({"$schema": dialect}, default=validators.Draft202012Validator)
    known = {name: _counted(keyword) for name, keyword in base.VALIDATORS.items()}
    own = {"pattern": _pattern, "uniqueItems": _unique, "enum": _enum, "const": _same}
    known |= {name: _own(holds) for name, holds in own.items()}
    known |= dict.fromkeys((name for name in _LEFT_TO_SERVER if name in known), _own(_anything))
    return validators.extend(base, known)  # type: ignore[no-untyped-call]


def _counted(keyword: Callable[..., Errors | None]) -> Callable[..., Errors]:
    """A keyword of the library that costs steps."""

    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Errors:
        entries = len(instance) if isinstance(instance, dict | list) else 0
        _steps.get().take(1 + entries)
        yield from keyword(validator, value, instance, schema) or ()

    return check


def _own(holds: Callable[[Any, Any], bool]) -> Callable[..., Errors]:
    """A keyword from what says whether its value holds of an instance."""

    def check(*at: Any) -> Errors:
        _, value, instance, _ = at
        _steps.get().take(1)
        if not holds(value, instance):
            yield ValidationError("does not hold")

    return check


def _anything(value: Any, instance: Any) -> bool:  # noqa: ARG001
    return True


def _unique(wanted: Any, instance: Any) -> bool:
    # The library compares every pair.
    if wanted is not True or not isinstance(instance, list):
        return True
    _steps.get().take(len(instance))
    return len({json.dumps(one, sort_keys=True) for one in instance}) == len(instance)


def _enum(choices: Any, instance: Any) -> bool:
    return not isinstance(choices, list) or any(_same(choice, instance) for choice in choices)


def _same(value: Any, instance: Any) -> bool:
    """Equality of JSON, in which true is not 1."""
    if isinstance(value, dict | list) and isinstance(instance, dict | list):
        _steps.get().take(_DEEP)
        return json.dumps(value, sort_keys=True) == json.dumps(instance, sort_keys=True)
    _steps.get().take(1)
    return bool(value == instance) and isinstance(value, bool) == isinstance(instance, bool)


def _pattern(pattern: Any, instance: Any) -> bool:
    if not isinstance(instance, str) or not isinstance(pattern, str):
        return True
    if len(instance) > _TRIED_CHARS or not _harmless(pattern):
        return True
    return re.search(pattern, instance) is not None


@cache
def _harmless(pattern: str) -> bool:
    """Whether a pattern's time is bounded by a low power of the text's length.

    No repetition of a group, no look-around, no reference back, few repetitions.
    """
    if len(pattern) > _PATTERN_CHARS or _UNBOUNDED.search(pattern):
        return False
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return len(_VARIABLE.findall(pattern)) <= _REPETITIONS + pattern.startswith("^")
