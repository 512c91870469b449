"""Functions that make conditions."""

from __future__ import annotations

from collections.abc import Callable

from ..pattern import Pattern
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
from .state import Scalar, State


def requires_scope(*scopes: str) -> Condition:
    """A condition: the agent was granted all these scopes.

    Raises:
        ConfigError: there is no scope, or a scope is not a text.

    Example:
        >>> from shortlist.gating import requires_scope
        >>> requires_scope("mail:send").describe()
        "the scope 'mail:send'"
    """
    return all_of(*(Scope(scope) for scope in scopes))


def after(pattern: str) -> Condition:
    """A condition: a tool that matches the glob was called successfully.

    Raises:
        ConfigError: it is not a valid glob.

    Example:
        >>> from shortlist.gating import after
        >>> after("mail/read_*").describe()
        "a call of 'mail/read_*' first"
    """
    return After(Pattern(pattern))


def milestone(name: str) -> Condition:
    """A condition: the agent reached this milestone.

    Raises:
        ConfigError: no name.

    Example:
        >>> from shortlist.gating import milestone
        >>> milestone("plan_confirmed").describe()
        "the milestone 'plan_confirmed'"
    """
    return Milestone(name)


def fact(name: str, equals: Scalar | None = None) -> Condition:
    """A condition: a fact is known and not false, or with `equals`, has that value.

    Raises:
        ConfigError: no name, or no text, finite number or truth value.

    Example:
        >>> from shortlist.gating import fact
        >>> fact("plan", equals="paid").to_dict()
        {'fact': {'name': 'plan', 'equals': 'paid'}}
    """
    return Fact(name, equals)


def annotation(name: str, value: Scalar = True) -> Condition:
    """A condition: the tool has this annotation.

    Raises:
        ConfigError: no name, or no text, finite number or truth value.

    Example:
        >>> from shortlist.gating import Rule, annotation
        >>> Rule(annotation("readOnlyHint", True), server="github").described()
        'for server github'
    """
    return Annotation(name, value)


def predicate(function: Callable[[State], bool], name: str | None = None) -> Condition:
    """A condition: your function of the state returns `True`.

    Files and refusals show the condition by its name.

    `False` denies. An exception or any other value denies too, with the reason `predicate_error`.
    The function is called once per view, for all tools together, and must not block.

    Args:
        function: takes the `State`, returns True or False.
        name: name in files and refusals; the name of the function when absent.

    Raises:
        ConfigError: it is not callable.

    Example:
        >>> from shortlist.gating import predicate
        >>> def has_paid(state):
        ...     return state.facts.get("plan") == "paid"
        >>> predicate(has_paid).to_dict()
        {'predicate': 'has_paid'}
    """
    return Predicate(name or str(getattr(function, "__name__", "")), function)


def all_of(*conditions: Condition) -> Condition:
    """A condition: all these conditions hold.

    Raises:
        ConfigError: none is given, or one is no condition.

    Example:
        >>> from shortlist.gating import after, all_of, requires_scope
        >>> all_of(requires_scope("mail:send"), after("mail/read_*")).describe()
        "the scope 'mail:send' and a call of 'mail/read_*' first"
    """
    return joined(AllOf, conditions)


def any_of(*conditions: Condition) -> Condition:
    """A condition: at least one of these conditions holds.

    Raises:
        ConfigError: none is given, or one is no condition.

    Example:
        >>> from shortlist.gating import any_of, fact, requires_scope
        >>> any_of(requires_scope("admin"), fact("trial")).describe()
        "the scope 'admin' or the fact 'trial'"
    """
    return joined(AnyOf, conditions)


def not_(condition: Condition) -> Condition:
    """A condition: this condition does not hold.

    Raises:
        ConfigError: it is not a condition.

    Example:
        >>> from shortlist.gating import fact, not_
        >>> not_(fact("suspended")).describe()
        "not the fact 'suspended'"
    """
    return Not(condition)
