"""Which errors a value has against a JSON Schema, found with limited work.

References to other documents are not followed. Every keyword uses part of a budget of steps.
Regular expressions that could backtrack exponentially are skipped. The tool's server has to check
the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache
from time import thread_time
from typing import Any, NamedTuple

from jsonschema import validators
from jsonschema.exceptions import ValidationError
from referencing import Registry

_MAX_DIALECT_CHARS = 200
#: Maximum number of steps of one check. A step takes about a microsecond; a large real call takes
#: some thousands. The server has to check what is left.
MAX_STEPS = 40_000
#: Maximum seconds of processor time of one check, for work that costs more than its steps.
MAX_SECONDS = 0.04
#: Number of steps after which the time is checked again.
_CLOCK_INTERVAL = 200
#: Steps of a reference that is no pointer: the library searches the whole schema for its target.
#: As many as make the next check of the time due.
_REFERENCE_STEPS = _CLOCK_INTERVAL
#: Steps of one keyword of a schema.
_KEYWORD_STEPS = 4
#: Steps of one entry in the value of a keyword, such as a branch of `anyOf`.
_ENTRY_STEPS = 4
#: Steps of one error.
_ERROR_STEPS = 10
#: Characters that are compared, or written into an error, in one step.
_CHARS_A_STEP = 256
#: Maximum length of a text that is matched against a pattern; longer ones are not checked.
_MAX_TRIED_CHARS = 200
#: Maximum length of a pattern; longer ones are not checked.
_MAX_PATTERN_CHARS = 200
#: Maximum number of repetitions without a fixed count in a pattern; one more if it begins with `^`.
_MAX_REPETITIONS = 2
#: Comparisons of characters in one step, when a pattern is matched.
_COMPARISONS_A_STEP = 400
#: Steps to compile a pattern.
_COMPILE_STEPS = 400
#: A repetition in a pattern without escapes.
_REPETITION = re.compile(r"[*+?]|\{\d*,\d*\}")
_ESCAPED = re.compile(r"\\.", re.DOTALL)
#: Parts of a pattern that may cost too much: a repeated group, `(?` groups, a back-reference.
_UNBOUNDED = re.compile(r"\)[*+{]|\(\?|\\[1-9]")
#: Keywords that are not checked: their cost does not depend on the number of keywords alone.
_LEFT_TO_SERVER = ("unevaluatedItems", "unevaluatedProperties", "patternProperties")
#: Keywords whose value is a list of schemas, each of which is checked.
_BRANCH_KEYWORDS = ("allOf", "anyOf", "oneOf", "prefixItems", "items", "disallow", "extends")
#: Keywords that refer to another part of the schema.
_REFERENCE_KEYWORDS = ("$ref", "$dynamicRef", "$recursiveRef")

Errors = Iterator[ValidationError]


class _BudgetUsedUp(Exception):
    """The steps or the time of the check are used up."""


class _Steps:
    """The remaining steps of one check.

    Args:
        size: characters of the whole instance, as an upper limit.

    Attributes:
        remaining: steps that are left; the check stops below 0.
        instance_steps: steps of comparing the whole instance, or writing it into an error.
    """

    def __init__(self, size: int) -> None:
        self.remaining = MAX_STEPS
        self.instance_steps = size // _CHARS_A_STEP
        self._last_clock_check = self.remaining
        # Most checks end before the first look at the clock, which is a system call.
        self._deadline: float | None = None

    def take(self, steps: int) -> None:
        """Count steps.

        Raises:
            _BudgetUsedUp: the steps or the time of the check are used up.
        """
        self.remaining -= steps
        if self.remaining < 0:
            raise _BudgetUsedUp
        if self._last_clock_check - self.remaining >= _CLOCK_INTERVAL:
            self._last_clock_check, now = self.remaining, thread_time()
            if self._deadline is None:
                self._deadline = now + MAX_SECONDS
            elif now > self._deadline:
                raise _BudgetUsedUp


_steps: ContextVar[_Steps] = ContextVar("steps")


def prepared_validator(schema: Mapping[str, Any]) -> Any:
    """The library's validator of a schema; None if the library refuses the schema.

    Args:
        schema: JSON Schema of any draft. Unknown drafts are read as 2020-12.
    """
    checker = _checker(str(schema.get("$schema", ""))[:_MAX_DIALECT_CHARS])
    try:
        return checker(schema, registry=Registry())
    except Exception:  # noqa: BLE001
        # A wrong schema may raise any error in the libraries.
        return None


def first_errors(validator: Any, instance: object, most: int) -> list[ValidationError]:
    """The first errors of an instance, as far as the budget of steps allows.

    If the schema is wrong, has a missing or endless reference, or needs too many steps, the check
    stops. The errors found until then are returned.

    Args:
        validator: result of `prepared_validator`.
        instance: JSON of dicts, lists and scalars. The caller limits its size.
        most: maximum number of errors.
    """
    _steps.set(_Steps(_size(instance)))
    errors: list[ValidationError] = []
    if validator is None:
        return errors
    try:
        for error in validator.iter_errors(instance):
            errors.append(error)
            if len(errors) == most:
                break
    except Exception:  # noqa: BLE001
        # `_BudgetUsedUp`, or any error that a wrong schema causes in the libraries.
        return errors
    return errors


def _size(instance: object) -> int:
    """Approximate number of characters of an instance as JSON."""
    size, waiting = 0, [instance]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            size += sum(len(key) for key in value)
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
        else:
            size += len(value) if isinstance(value, str) else 4
    return size


@lru_cache(32)
def _checker(dialect: str) -> Any:
    base = validators.validator_for({"$schema": dialect}, default=validators.Draft202012Validator)
    keywords = {name: _with_budget(name, keyword) for name, keyword in base.VALIDATORS.items()}
    own = {"pattern": _pattern, "uniqueItems": _unique, "enum": _enum, "const": _same}
    keywords |= {name: _keyword_from(holds) for name, holds in own.items()}
    keywords |= dict.fromkeys(
        (name for name in _LEFT_TO_SERVER if name in keywords), _keyword_from(_accept_all)
    )
    keywords["additionalProperties"] = _additional
    return validators.extend(base, keywords)  # type: ignore[no-untyped-call]


def _with_budget(name: str, keyword: Callable[..., Errors | None]) -> Callable[..., Errors]:
    """A keyword of the library that uses steps of the budget."""
    an_entry = _ENTRY_STEPS if name in _BRANCH_KEYWORDS else 1
    refers = name in _REFERENCE_KEYWORDS

    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Errors:
        steps = _steps.get()
        entries = len(instance) if isinstance(instance, dict | list) else 0
        listed = len(value) if isinstance(value, dict | list) else 0
        steps.take(_KEYWORD_STEPS + entries + listed * an_entry)
        if refers and not str(value).startswith("#/"):
            steps.take(_REFERENCE_STEPS)
        for error in keyword(validator, value, instance, schema) or ():
            steps.take(_ERROR_STEPS + steps.instance_steps)
            yield error

    return check


def _keyword_from(holds: Callable[[Any, Any], bool]) -> Callable[..., Errors]:
    """A keyword made from a function that tells whether an instance satisfies it."""

    def check(*keyword_arguments: Any) -> Errors:
        _, value, instance, _ = keyword_arguments
        _steps.get().take(_KEYWORD_STEPS)
        if not holds(value, instance):
            _steps.get().take(_ERROR_STEPS)
            yield ValidationError("does not hold")

    return check


def _additional(validator: Any, value: Any, instance: Any, schema: Any) -> Errors:
    """`additionalProperties`; the library would try every pattern of `patternProperties` here."""
    if not isinstance(instance, dict) or schema.get("patternProperties"):
        return
    steps = _steps.get()
    steps.take(_KEYWORD_STEPS + len(instance))
    declared = schema.get("properties")
    properties = declared if isinstance(declared, dict) else {}
    extra = [key for key in instance if key not in properties]
    if value is False and extra:
        yield ValidationError("has a property that is not declared")
    elif isinstance(value, dict):
        for key in extra:
            steps.take(_ENTRY_STEPS)
            yield from validator.descend(instance[key], value, path=key)


def _accept_all(value: Any, instance: Any) -> bool:  # noqa: ARG001
    return True


def _unique(required: Any, instance: Any) -> bool:
    # The library compares every pair.
    if required is not True or not isinstance(instance, list):
        return True
    _steps.get().take(_ENTRY_STEPS * len(instance) + _steps.get().instance_steps)
    return len({_comparable_json(item) for item in instance}) == len(instance)


def _enum(choices: Any, instance: Any) -> bool:
    if not isinstance(choices, list):
        return True
    _steps.get().take(len(choices))
    if isinstance(instance, dict | list):
        instance_json = _comparable_json(instance)
        return any(
            isinstance(choice, dict | list) and _comparable_json(choice) == instance_json
            for choice in choices
        )
    return any(_same_scalar(choice, instance) for choice in choices)


def _same(value: Any, instance: Any) -> bool:
    """Equality of JSON, in which true is not 1."""
    if isinstance(value, dict | list) and isinstance(instance, dict | list):
        return _comparable_json(value) == _comparable_json(instance)
    return _same_scalar(value, instance)


def _same_scalar(value: Any, instance: Any) -> bool:
    if isinstance(value, dict | list) or isinstance(instance, dict | list):
        return False
    return bool(value == instance) and isinstance(value, bool) == isinstance(instance, bool)


def _comparable_json(value: Any) -> str:
    """The JSON text that is compared to find equal values."""
    text = json.dumps(value, sort_keys=True)
    _steps.get().take(_KEYWORD_STEPS + len(text) // 16)
    return text


def _pattern(pattern: Any, instance: Any) -> bool:
    if not isinstance(instance, str) or not isinstance(pattern, str):
        return True
    if len(instance) > _MAX_TRIED_CHARS or len(pattern) > _MAX_PATTERN_CHARS:
        return True
    _steps.get().take(_COMPILE_STEPS)
    safe = _safe_pattern(pattern)
    if safe is None:
        return True
    steps = len(instance) ** safe.degree // _COMPARISONS_A_STEP
    if steps > _steps.get().remaining:
        return True
    _steps.get().take(steps)
    return safe.compiled.search(instance) is not None


class _SafePattern(NamedTuple):
    """A pattern that takes at most `length ** degree` steps on a text.

    Attributes:
        compiled: the pattern.
        degree: number of repetitions without a fixed count, one more if it may start anywhere.
    """

    compiled: re.Pattern[str]
    degree: int


@lru_cache(1_024)
def _safe_pattern(pattern: str) -> _SafePattern | None:
    """The pattern, if its time is at most a low power of the text's length; otherwise None.

    No repetition of a group, no look-around, no reference back, few repetitions.
    """
    if _UNBOUNDED.search(pattern):
        return None
    anchored = pattern.startswith("^")
    repetitions = len(_REPETITION.findall(_ESCAPED.sub("_", pattern)))
    if repetitions > _MAX_REPETITIONS + anchored:
        return None
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return None
    return _SafePattern(compiled, repetitions + (not anchored))
