"""The kinds of conditions of a rule, and the functions that make them.

To add a kind, write one class derived from `Condition` under the decorator `register`, here or in a
package of your own; nothing else changes. Code makes conditions with the functions
at the end of this file.
"""
# ruff: noqa: ARG003, D102 - `Condition` says what each method of a kind does.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from .. import registry
from ..catalog.pattern import Pattern
from ..errors import ConfigError
from .condition import (
    NO,
    YES,
    CatalogView,
    Condition,
    ConditionInput,
    ConditionReader,
    Mask,
    Truth,
    Unanswered,
    register,
)
from .state import Scalar, State, is_scalar, json_key


@dataclass(frozen=True, slots=True)
class _StateMember(Condition):
    """The agent's state has a name in one of its sets.

    Args:
        name: the name.

    Attributes:
        state_field: the set, a field of `State`.
    """

    name: str
    state_field: ClassVar[str]

    def __post_init__(self) -> None:
        _check_name(self.key, self.name)

    @classmethod
    def parse(cls, value: Any, read: ConditionReader) -> Condition:
        return cls(value)

    def to_dict(self) -> dict[str, Any]:
        return {self.key: self.name}

    def describe(self) -> str:
        return f"the {self.key} {self.name!r}"

    def state_member(self) -> tuple[str, str]:
        return self.state_field, self.name

    def evaluate(self, request: ConditionInput) -> Truth:
        return YES if self.name in getattr(request.state, self.state_field) else NO


@register
@dataclass(frozen=True, slots=True)
class Scope(_StateMember):
    """The agent was granted a scope. JSON: a name, or a list of names that are all needed."""

    key = "scope"
    refusal = "scope"
    reads_calls = False
    state_field = "scopes"

    def describe_negated(self) -> str:
        return f"the scope {self.name!r} not to be granted"

    @classmethod
    def parse(cls, value: Any, read: ConditionReader) -> Condition:
        names = value if isinstance(value, list | tuple) else [value]
        return joined(AllOf, tuple(Scope(name) for name in names))


@register
@dataclass(frozen=True, slots=True)
class After(Condition):
    """A tool that matches the pattern was called. JSON: a glob.

    It holds when a call matches exactly. It fails when no call matches even if letter case and
    character width are ignored. In between it is unknown, so that it grants nothing.
    """

    key = "after"
    pattern: Pattern

    @classmethod
    def parse(cls, value: Any, read: ConditionReader) -> Condition:
        return After(Pattern(value))

    def to_dict(self) -> dict[str, Any]:
        return {"after": self.pattern.text}

    def describe(self) -> str:
        return f"a call of {self.pattern.text!r} first"

    def describe_negated(self) -> str:
        return f"no earlier call of {self.pattern.text!r}"

    def evaluate(self, request: ConditionInput) -> Truth:
        return request.called(self.pattern)

    def unlocked_by(self, catalog: CatalogView) -> Mask | None:
        return catalog.rows_matching(self.pattern)

    def patterns(self) -> tuple[Pattern, ...]:
        return (self.pattern,)


@register
@dataclass(frozen=True, slots=True)
class Milestone(_StateMember):
    """The agent reached a milestone. JSON: a name."""

    key = "milestone"
    state_field = "milestones"

    def describe_negated(self) -> str:
        return f"the milestone {self.name!r} not to be reached yet"


@register
@dataclass(frozen=True, slots=True)
class Fact(Condition):
    """A fact is known and not false, or it has the value `equals`.

    JSON: a name, or a table of name and equals. Values are compared as JSON compares them: the
    number 1 is not the truth value `true`.

    Args:
        name: name of the fact.
        equals: the value that it must have; None if any value but false is enough.

    Attributes:
        comparison_key: `equals` as `json_key` gives it; None without a value.
    """

    key = "fact"
    reads_calls = False
    name: str
    equals: Scalar | None = field(default=None, compare=False)
    comparison_key: tuple[bool, Scalar] | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_name("fact", self.name)
        if self.equals is not None:
            _check_value(f"fact {self.name!r}: equals", self.equals)
        comparison_key = None if self.equals is None else json_key(self.equals)
        object.__setattr__(self, "comparison_key", comparison_key)

    @classmethod
    def parse(cls, value: Any, read: ConditionReader) -> Condition:
        fields = _fields("fact", value, ("name", "equals"))
        if "equals" in fields and fields["equals"] is None:
            raise ConfigError("fact: equals: a text, a number or a truth value, not null")
        return cls(**fields)

    def to_dict(self) -> dict[str, Any]:
        return {
            "fact": self.name if self.equals is None else {"name": self.name, "equals": self.equals}
        }

    def describe(self) -> str:
        value = "" if self.equals is None else f" to be {_json_literal(self.equals)}"
        return f"the fact {self.name!r}{value}"

    def describe_negated(self) -> str:
        if self.equals is None:
            return f"the fact {self.name!r} to be unknown or false"
        return f"the fact {self.name!r} not to be {_json_literal(self.equals)}"

    def evaluate(self, request: ConditionInput) -> Truth:
        value = request.state.facts.get(self.name)
        if value is None or self.comparison_key is None:
            return NO if value is None or value is False else YES
        return YES if json_key(value) == self.comparison_key else NO

    def provided_by(self) -> tuple[str, str]:
        return "facts", self.name


@register
@dataclass(frozen=True, slots=True)
class Annotation(Condition):
    """The tool has this annotation. JSON: a name, or a table of name and value.

    The hints of MCP (`readOnlyHint`, `destructiveHint`, `idempotentHint` and `openWorldHint`) have
    their default values if a server leaves them out. Annotations come from the server: use such a
    condition only for servers you trust.

    Args:
        name: name of the annotation.
        value: the value that it must have.

    Attributes:
        comparison_key: `value` as `json_key` gives it.
    """

    key = "annotation"
    refusal = "annotation"
    reads_calls = False
    name: str
    value: Scalar = field(default=True, compare=False)
    comparison_key: tuple[bool, Scalar] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_name("annotation", self.name)
        _check_value(f"annotation {self.name!r}: value", self.value)
        object.__setattr__(self, "comparison_key", json_key(self.value))

    @classmethod
    def parse(cls, value: Any, read: ConditionReader) -> Condition:
        return cls(**_fields("annotation", value, ("name", "value")))

    def to_dict(self) -> dict[str, Any]:
        return {"annotation": {"name": self.name, "value": self.value}}

    def describe(self) -> str:
        return f"the annotation {self.name!r} to be {_json_literal(self.value)}"

    def describe_negated(self) -> str:
        return f"the annotation {self.name!r} not to be {_json_literal(self.value)}"

    def evaluate(self, request: ConditionInput) -> Truth:
        return self.fixed_truth(request.catalog)

    def fixed_truth(self, catalog: CatalogView) -> Truth:
        mask = catalog.annotated(self.name, self.value)
        return mask, ~mask


@register
@dataclass(frozen=True, slots=True)
class Predicate(Condition):
    """A function of the state returns `True`. JSON: its name.

    If it raises, or returns anything but `True` or `False`, the condition is unknown.
    """

    key = "predicate"
    name: str
    function: Callable[[State], bool]

    def __post_init__(self) -> None:
        _check_name("predicate", self.name)
        if not callable(self.function):
            raise ConfigError(f"predicate {self.name!r}: {self.function!r:.80} is no function")

    @classmethod
    def parse(cls, value: Any, read: ConditionReader) -> Condition:
        if not isinstance(value, str) or not value:
            raise ConfigError(f"predicate: a name, not {value!r:.80}")
        function = registry.load("predicate", value)
        return cls(value, function)

    def to_dict(self) -> dict[str, Any]:
        return {"predicate": self.name}

    def describe(self) -> str:
        return f"the predicate {self.name!r} to hold"

    def describe_negated(self) -> str:
        return f"the predicate {self.name!r} not to hold"

    def evaluate(self, request: ConditionInput) -> Truth:
        answer = self.function(request.state)
        if not isinstance(answer, bool | np.bool_):
            raise Unanswered(f"answered {type(answer).__name__}, not True or False")
        return YES if answer else NO


@dataclass(frozen=True, slots=True)
class Several(Condition):
    """Several conditions combined by "and" or "or".

    Args:
        parts: the conditions, at least one.

    Attributes:
        joining_word: stands between the parts in a description.
        negated_joining_word: stands between the negated parts.
    """

    parts: tuple[Condition, ...]
    joining_word: ClassVar[str]
    negated_joining_word: ClassVar[str]

    def __post_init__(self) -> None:
        _check_parts(self.key, self.parts)

    @classmethod
    def parse(cls, value: Any, read: ConditionReader) -> Condition:
        if not isinstance(value, list | tuple) or not value:
            raise ConfigError(f"{cls.key}: a list of conditions, not {value!r:.80}")
        return joined(cls, tuple(map(read, value)))

    def to_dict(self) -> dict[str, Any]:
        return {self.key: [part.to_dict() for part in self.parts]}

    def describe(self) -> str:
        return self.joining_word.join(part.clause() for part in self.parts)

    def describe_negated(self) -> str:
        return self.negated_joining_word.join(Not(part).clause() for part in self.parts)

    def clause(self) -> str:
        return f"({self.describe()})"

    def composed_of(self) -> tuple[Condition, ...]:
        return self.parts


@register
@dataclass(frozen=True, slots=True)
class AllOf(Several):
    """Every part holds. JSON: a list of conditions."""

    key = "all_of"
    joining_word = " and "
    negated_joining_word = " or "

    def combine(self, parts: Sequence[Truth]) -> Truth:
        return _truth_of_all(parts)


@register
@dataclass(frozen=True, slots=True)
class AnyOf(Several):
    """At least one part holds. JSON: a list of conditions."""

    key = "any_of"
    joining_word = " or "
    negated_joining_word = " and "

    def combine(self, parts: Sequence[Truth]) -> Truth:
        fails, holds = _truth_of_all([(fails, holds) for holds, fails in parts])
        return holds, fails


@register
@dataclass(frozen=True, slots=True)
class Not(Condition):
    """The part fails. JSON: a condition."""

    key = "not"
    part: Condition

    def __post_init__(self) -> None:
        _check_parts("not_", (self.part,))

    @classmethod
    def parse(cls, value: Any, read: ConditionReader) -> Condition:
        return cls(read(value))

    def to_dict(self) -> dict[str, Any]:
        return {"not": self.part.to_dict()}

    def describe(self) -> str:
        return self.part.describe_negated()

    def describe_negated(self) -> str:
        return self.part.describe()

    def clause(self) -> str:
        several = isinstance(self.part, Several) and len(self.part.parts) > 1
        return f"({self.describe()})" if several else self.describe()

    def composed_of(self) -> tuple[Condition, ...]:
        return (self.part,)

    def combine(self, parts: Sequence[Truth]) -> Truth:
        holds, fails = parts[0]
        return fails, holds


def joined(kind: type[Several], parts: tuple[Condition, ...]) -> Condition:
    """Join several conditions into one. A single one is returned unchanged."""
    condition = kind(parts)
    return parts[0] if len(parts) == 1 else condition


def _truth_of_all(parts: Sequence[Truth]) -> Truth:
    holds, fails = parts[0]
    for also_holds, also_fails in parts[1:]:
        holds, fails = holds & also_holds, fails | also_fails
    return holds, fails


def _json_literal(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _fields(key: str, value: Any, permitted: tuple[str, ...]) -> dict[str, Any]:
    fields = {"name": value} if isinstance(value, str) else value
    if not isinstance(fields, Mapping) or "name" not in fields or set(fields) - set(permitted):
        raise ConfigError(
            f"{key}: a name, or a table of {' and '.join(permitted)}, not {value!r:.80}"
        )
    return dict(fields)


def _check_name(label: str, name: object) -> None:
    if not isinstance(name, str) or not name.strip():
        raise ConfigError(f"{label}: {name!r:.80} is no name")


def _check_value(label: str, value: object) -> None:
    if not is_scalar(value):
        raise ConfigError(f"{label}: {value!r:.80}; a text, a finite number or a truth value")


def _check_parts(label: str, parts: tuple[Condition, ...]) -> None:
    if not parts:
        raise ConfigError(f"{label}: holds no condition")
    if bad := [part for part in parts if not isinstance(part, Condition)]:
        raise ConfigError(f"{label}: {bad[0]!r:.80} is no condition")


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
        "the fact 'suspended' to be unknown or false"
    """
    return Not(condition)
