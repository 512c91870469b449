"""Conditions in words."""

from __future__ import annotations

from .condition import (
    After,
    AllOf,
    Annotation,
    AnyOf,
    Condition,
    Fact,
    Milestone,
    Not,
    Predicate,
    Scope,
)
from .state import Scalar


def wording(condition: Condition) -> str:
    """What a condition asks for, to follow the word "needs"."""
    match condition:
        case Scope():
            return f"the scope {condition.name!r}"
        case After():
            return f"a call of {condition.pattern.text!r} first"
        case Milestone():
            return f"the milestone {condition.name!r}"
        case Fact(equals=None):
            return f"the fact {condition.name!r}"
        case Fact():
            return f"the fact {condition.name!r} to be {_value(condition.equals)}"
        case Annotation():
            return f"the annotation {condition.name!r} to be {_value(condition.value)}"
        case Predicate():
            return f"the predicate {condition.name!r} to hold"
        case AllOf():
            return " and ".join(map(clause, condition.parts))
        case AnyOf():
            return " or ".join(map(clause, condition.parts))
        case Not():
            return f"not {clause(condition.part)}"
    raise TypeError(condition)


def clause(condition: Condition) -> str:
    """A condition inside another, in brackets where it is composed itself."""
    text = wording(condition)
    return f"({text})" if isinstance(condition, AllOf | AnyOf) else text


def _value(value: Scalar | None) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)
