"""Conditions as JSON: a table of one key, the kind of condition.

`scope` a name, or a list of names that are all needed; `after` a glob; `milestone` a name; `fact` a
name or `{name, equals}`; `annotation` a name or `{name, value}`; `predicate` a name; `all_of` and
`any_of` a list of conditions; `not` a condition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .. import registry
from ..errors import ConfigError
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
    after,
    all_of,
    annotation,
    any_of,
    fact,
    milestone,
    not_,
    predicate,
    requires_scope,
)
from .state import State

#: Conditions inside one another.
DEPTH = 32
Predicates = Mapping[str, Callable[[State], bool]]


def to_form(condition: Condition) -> dict[str, Any]:
    """The JSON form of a condition; a predicate is written by its name."""
    match condition:
        case Scope():
            return {"scope": condition.name}
        case After():
            return {"after": condition.pattern.text}
        case Milestone():
            return {"milestone": condition.name}
        case Fact(equals=None):
            return {"fact": condition.name}
        case Fact():
            return {"fact": {"name": condition.name, "equals": condition.equals}}
        case Annotation():
            return {"annotation": {"name": condition.name, "value": condition.value}}
        case Predicate():
            return {"predicate": condition.name}
        case AllOf():
            return {"all_of": [to_form(part) for part in condition.parts]}
        case AnyOf():
            return {"any_of": [to_form(part) for part in condition.parts]}
        case Not():
            return {"not": to_form(condition.part)}
    raise TypeError(condition)


def from_form(form: Any, predicates: Predicates | None = None) -> Condition:
    """The condition of a JSON form.

    Args:
        form: as described above.
        predicates: functions by the name that the form uses; others are looked up among the entry
            points of the group `shortlist.predicate`.

    Raises:
        ConfigError: no such condition; says what there is.
    """
    return _read(form, predicates or {}, 0)


def _read(form: Any, predicates: Predicates, depth: int) -> Condition:
    if depth > DEPTH:
        raise ConfigError(f"conditions nest deeper than {DEPTH}")
    if not isinstance(form, Mapping) or len(form) != 1:
        raise ConfigError(
            f"{form!r:.80} is no condition, which is a table of one key, "
            f"one of: {', '.join(_KINDS)}"
        )
    [(kind, value)] = form.items()
    if kind == "not":
        return not_(_read(value, predicates, depth + 1))
    if kind in ("all_of", "any_of"):
        if not isinstance(value, list | tuple) or not value:
            raise ConfigError(f"{kind}: a list of conditions, not {value!r:.80}")
        parts = [_read(part, predicates, depth + 1) for part in value]
        return all_of(*parts) if kind == "all_of" else any_of(*parts)
    if kind == "predicate":
        return predicate(_function(value, predicates), value)
    if kind not in _SIMPLE:
        raise ConfigError(f"no condition {kind!r:.80}; there are: {', '.join(_KINDS)}")
    return _SIMPLE[kind](value)


def _function(name: Any, predicates: Predicates) -> Callable[[State], bool]:
    if not isinstance(name, str) or not name:
        raise ConfigError(f"predicate: a name, not {name!r:.80}")
    if name in predicates:
        return predicates[name]
    function: Callable[[State], bool] = registry.load("predicate", name)
    return function


def _scope(value: Any) -> Condition:
    names = value if isinstance(value, list | tuple) else [value]
    return requires_scope(*names)


def _fact(value: Any) -> Condition:
    given = _fields("fact", value, ("name", "equals"))
    if "equals" in given and given["equals"] is None:
        raise ConfigError("fact: equals: a text, a number or a truth value, not null")
    return fact(**given)


def _annotation(value: Any) -> Condition:
    return annotation(**_fields("annotation", value, ("name", "value")))


def _fields(kind: str, value: Any, known: tuple[str, ...]) -> dict[str, Any]:
    given = {"name": value} if isinstance(value, str) else value
    if not isinstance(given, Mapping) or "name" not in given or set(given) - set(known):
        raise ConfigError(f"{kind}: a name, or a table of {' and '.join(known)}, not {value!r:.80}")
    return dict(given)


_SIMPLE: Mapping[Any, Callable[[Any], Condition]] = {
    "scope": _scope,
    "after": after,
    "milestone": milestone,
    "fact": _fact,
    "annotation": _annotation,
}
_KINDS = (*_SIMPLE, "predicate", "all_of", "any_of", "not")
