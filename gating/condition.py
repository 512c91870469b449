"""Conditions of rules: the kinds, the functions that make them, and how their JSON form is read.

To add a kind, write a class derived from `Condition` and add it to `CONDITION_KINDS`.
"""
# ruff: noqa: D102 - `Condition` says what each method of a kind does.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from .. import registry
from ..catalog.pattern import Pattern
from ..errors import ConfigError
from .state import Scalar, State, is_scalar, json_key

#: How deep conditions may nest in JSON.
MAX_NESTING = 32
#: Kinds of refusal a condition may give. The first is easiest for the agent to change.
REFUSAL_KINDS = ("precondition", "scope", "predicate_error", "annotation")

#: One boolean for each row of a catalog version, shape (n,).
Mask = NDArray[np.bool_]
#: One boolean for all tools, or one for each row.
Values = bool | Mask
#: Whether a condition holds and whether it fails: for all tools at once, or one value per row.
#: Both are false when that is unknown. `not_` of unknown is unknown, so unknown never grants.
Truth = tuple[Values, Values]
YES: Truth = (True, False)
NO: Truth = (False, True)
UNKNOWN: Truth = (False, False)


class ConditionInput(Protocol):
    """The state and the catalog that a condition is evaluated in; `GateEvaluation` is one.

    Attributes:
        state: state of the agent.
        called: whether a tool that a pattern matches was called.
        reached: whether a milestone was reached.
        annotated: rows whose annotation has a value.
        truth: the truth of another condition.
    """

    @property
    def state(self) -> State: ...
    def called(self, pattern: Pattern) -> Truth: ...
    def reached(self, milestone: str) -> Truth: ...
    def annotated(self, name: str, value: Scalar) -> Mask: ...
    def truth(self, condition: Condition) -> Truth: ...


class Unanswered(Exception):
    """Raised by `Condition.evaluate`: the answer is unknown, for the reason given."""


class Condition:
    """The base class of conditions of rules: immutable, compared and hashed by value.

    Attributes:
        key: the key of its JSON form.
        refusal: the kind of refusal when it does not hold, one of `REFUSAL_KINDS`.
        reads_calls: whether the earlier calls or the milestones of a state can change it.

    Example:
        >>> from shortlist.gating import Condition, requires_scope
        >>> isinstance(requires_scope("mail:send"), Condition)
        True
    """

    __slots__ = ()
    key: ClassVar[str]
    refusal: ClassVar[str] = "precondition"
    reads_calls: ClassVar[bool] = True

    @classmethod
    def parse(cls, value: Any, depth: int) -> Condition:
        """The condition of a JSON form `{key: value}` that is nested so deep.

        Raises:
            ConfigError: the value is wrong.

        Example:
            >>> from shortlist.gating import milestone
            >>> type(milestone("confirmed")).parse("paid", 0).describe()
            "the milestone 'paid'"
        """
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """JSON form: `{key: value}`."""
        raise NotImplementedError

    def evaluate(self, request: ConditionInput) -> Truth:
        """Whether it holds and whether it fails. An exception means unknown.

        Example:
            >>> from types import SimpleNamespace
            >>> from shortlist import State
            >>> from shortlist.gating import requires_scope
            >>> request = SimpleNamespace(state=State(scopes={"mail:send"}))
            >>> requires_scope("mail:send").evaluate(request)    # holds, fails
            (True, False)
        """
        raise NotImplementedError

    def describe(self) -> str:
        """What the condition requires, in words that follow "needs".

        Example:
            >>> from shortlist.gating import milestone
            >>> milestone("confirmed").describe()
            "the milestone 'confirmed'"
        """
        raise NotImplementedError

    def describe_negated(self) -> str:
        """What the opposite of the condition requires, in words that follow "needs".

        Example:
            >>> from shortlist.gating import requires_scope
            >>> requires_scope("mail:send").describe_negated()
            "the scope 'mail:send' not to be granted"
        """
        return f"the opposite of {self.clause()}"

    def clause(self) -> str:
        """`describe`, in the form used inside another condition.

        Example:
            >>> from shortlist.gating import all_of, milestone, requires_scope
            >>> all_of(requires_scope("pay"), milestone("confirmed")).clause()
            "(the scope 'pay' and the milestone 'confirmed')"
        """
        return self.describe()

    def label(self) -> str:
        """The name of the condition in error reports.

        Example:
            >>> from shortlist.gating import requires_scope
            >>> requires_scope("mail:send").label()
            'mail:send'
        """
        return str(self.to_dict()[self.key])

    def provided_by(self) -> tuple[str, str] | None:
        """Kind and name in `Provides` that make the condition hold; None if nothing does.

        Example:
            >>> from shortlist.gating import requires_scope
            >>> requires_scope("mail:send").provided_by()
            ('scopes', 'mail:send')
        """
        return None

    def composed_of(self) -> tuple[Condition, ...]:
        """The inner conditions; empty for a simple one.

        Example:
            >>> from shortlist.gating import all_of, milestone, requires_scope
            >>> len(all_of(requires_scope("pay"), milestone("confirmed")).composed_of())
            2
        """
        return ()


def simple_conditions(condition: Condition) -> list[Condition]:
    """The simple conditions that a condition is composed of, in order, with repetitions."""
    parts = condition.composed_of()
    return [simple for part in parts for simple in simple_conditions(part)] or [condition]


def parse_condition(form: Any, depth: int = 0) -> Condition:
    """The condition of a JSON form: a table of one key, the kind of condition.

    Args:
        form: such as `{"scope": "github:write"}`; `docs/gate.md` lists every kind.
        depth: how deep the form is nested.

    Raises:
        ConfigError: no such condition; lists the kinds.
    """
    if depth > MAX_NESTING:
        raise ConfigError(f"conditions nest deeper than {MAX_NESTING}")
    if not isinstance(form, Mapping) or len(form) != 1:
        raise ConfigError(
            f"{form!r:.80} is no condition, which is a table of one key, one of: "
            f"{', '.join(CONDITION_KINDS)}"
        )
    [(key, value)] = form.items()
    if key not in CONDITION_KINDS:
        raise ConfigError(f"no condition {key!r:.80}; use one of: {', '.join(CONDITION_KINDS)}")
    return CONDITION_KINDS[key].parse(value, depth)


@dataclass(frozen=True, slots=True)
class _Named(Condition):
    """The agent's state has a name, such as a scope. JSON: the name."""

    name: str
    provided_kind: ClassVar[str]

    def __post_init__(self) -> None:
        _check_name(self.key, self.name)

    @classmethod
    def parse(cls, value: Any, depth: int) -> Condition:  # noqa: ARG003
        return cls(value)

    def to_dict(self) -> dict[str, Any]:
        return {self.key: self.name}

    def describe(self) -> str:
        return f"the {self.key} {self.name!r}"

    def provided_by(self) -> tuple[str, str]:
        return self.provided_kind, self.name


@dataclass(frozen=True, slots=True)
class Scope(_Named):
    """The agent was granted a scope. JSON: a name, or a list of names that are all needed."""

    key = "scope"
    refusal = "scope"
    reads_calls = False
    provided_kind = "scopes"

    @classmethod
    def parse(cls, value: Any, depth: int) -> Condition:  # noqa: ARG003
        return requires_scope(*(value if isinstance(value, list | tuple) else [value]))

    def describe_negated(self) -> str:
        return f"the scope {self.name!r} not to be granted"

    def evaluate(self, request: ConditionInput) -> Truth:
        return YES if self.name in request.state.scopes else NO


@dataclass(frozen=True, slots=True)
class Milestone(_Named):
    """The agent reached a milestone. JSON: a name."""

    key = "milestone"
    provided_kind = "milestones"

    def describe_negated(self) -> str:
        return f"the milestone {self.name!r} not to be reached yet"

    def evaluate(self, request: ConditionInput) -> Truth:
        return request.reached(self.name)


@dataclass(frozen=True, slots=True)
class After(Condition):
    """A tool that matches the pattern was called. JSON: a glob.

    It holds when a call matches exactly. It fails when no call matches even if letter case and
    character width are ignored. In between it is unknown, so that it grants nothing.
    """

    key = "after"
    pattern: Pattern

    @classmethod
    def parse(cls, value: Any, depth: int) -> Condition:  # noqa: ARG003
        return After(Pattern(value))

    def to_dict(self) -> dict[str, Any]:
        return {"after": self.pattern.text}

    def describe(self) -> str:
        return f"a call of {self.pattern.text!r} first"

    def describe_negated(self) -> str:
        return f"no earlier call of {self.pattern.text!r}"

    def evaluate(self, request: ConditionInput) -> Truth:
        return request.called(self.pattern)


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
    def parse(cls, value: Any, depth: int) -> Condition:  # noqa: ARG003
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
    def parse(cls, value: Any, depth: int) -> Condition:  # noqa: ARG003
        return cls(**_fields("annotation", value, ("name", "value")))

    def to_dict(self) -> dict[str, Any]:
        return {"annotation": {"name": self.name, "value": self.value}}

    def describe(self) -> str:
        return f"the annotation {self.name!r} to be {_json_literal(self.value)}"

    def describe_negated(self) -> str:
        return f"the annotation {self.name!r} not to be {_json_literal(self.value)}"

    def evaluate(self, request: ConditionInput) -> Truth:
        mask = request.annotated(self.name, self.value)
        return mask, ~mask


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
    def parse(cls, value: Any, depth: int) -> Condition:  # noqa: ARG003
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
    def parse(cls, value: Any, depth: int) -> Condition:
        if not isinstance(value, list | tuple) or not value:
            raise ConfigError(f"{cls.key}: a list of conditions, not {value!r:.80}")
        return joined(cls, tuple(parse_condition(part, depth + 1) for part in value))

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


@dataclass(frozen=True, slots=True)
class AllOf(Several):
    """Every part holds. JSON: a list of conditions."""

    key = "all_of"
    joining_word = " and "
    negated_joining_word = " or "

    def evaluate(self, request: ConditionInput) -> Truth:
        return _truth_of_all([request.truth(part) for part in self.parts])


@dataclass(frozen=True, slots=True)
class AnyOf(Several):
    """At least one part holds. JSON: a list of conditions."""

    key = "any_of"
    joining_word = " or "
    negated_joining_word = " and "

    def evaluate(self, request: ConditionInput) -> Truth:
        truths = [request.truth(part) for part in self.parts]
        fails, holds = _truth_of_all([(fails, holds) for holds, fails in truths])
        return holds, fails


@dataclass(frozen=True, slots=True)
class Not(Condition):
    """The part fails. JSON: a condition."""

    key = "not"
    part: Condition

    def __post_init__(self) -> None:
        _check_parts("not_", (self.part,))

    @classmethod
    def parse(cls, value: Any, depth: int) -> Condition:
        return cls(parse_condition(value, depth + 1))

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

    def evaluate(self, request: ConditionInput) -> Truth:
        holds, fails = request.truth(self.part)
        return fails, holds


#: Every kind of condition by its key in JSON.
CONDITION_KINDS: dict[str, type[Condition]] = {
    kind.key: kind
    for kind in (Scope, After, Milestone, Fact, Annotation, Predicate, AllOf, AnyOf, Not)
}


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
