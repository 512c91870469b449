"""The functions that code makes conditions with."""

from __future__ import annotations

from collections.abc import Callable

from .condition import Condition
from .conditions import (
    After,
    AllOf,
    Annotation,
    AnyOf,
    Fact,
    Milestone,
    Not,
    Predicate,
    Scope,
    joined,
)
from .pattern import Pattern
from .state import Scalar, State


def requires_scope(*scopes: str) -> Condition:
    """The agent was granted every one of these scopes.

    Raises:
        ConfigError: no scope, or one that is no text.
    """
    return all_of(*(Scope(scope) for scope in scopes))


def after(pattern: str) -> Condition:
    """A tool that matches the glob (see `Pattern`) was called.

    Raises:
        ConfigError: no such pattern.
    """
    return After(Pattern(pattern))


def milestone(name: str) -> Condition:
    """The agent reached this milestone.

    Raises:
        ConfigError: no name.
    """
    return Milestone(name)


def fact(name: str, equals: Scalar | None = None) -> Condition:
    """A fact is known and not false; or, with `equals`, has that value.

    Raises:
        ConfigError: no name, or no text, finite number or truth value.
    """
    return Fact(name, equals)


def annotation(name: str, value: Scalar = True) -> Condition:
    """The tool is annotated so, as in `annotation("readOnlyHint", True)`; see `Annotation`.

    Raises:
        ConfigError: no name, or no text, finite number or truth value.
    """
    return Annotation(name, value)


def predicate(function: Callable[[State], bool], name: str | None = None) -> Condition:
    """A function of the state returns `True`; the name stands for it in files and refusals.

    `False` denies. So does an exception or any other value, with the reason `predicate_error`. The
    function is called once a request, however many tools it decides on, and must not block.

    Args:
        function: of the state.
        name: its own name when absent.

    Raises:
        ConfigError: no function.
    """
    return Predicate(name or str(getattr(function, "__name__", "")), function)


def all_of(*conditions: Condition) -> Condition:
    """Every condition holds.

    Raises:
        ConfigError: none is given, or one is no condition.
    """
    return joined(AllOf, conditions)


def any_of(*conditions: Condition) -> Condition:
    """At least one condition holds.

    Raises:
        ConfigError: none is given, or one is no condition.
    """
    return joined(AnyOf, conditions)


def not_(condition: Condition) -> Condition:
    """The condition fails.

    Raises:
        ConfigError: it is no condition.
    """
    return Not(condition)
