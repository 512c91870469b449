"""Condition: the base class of conditions, and how their JSON form is read.

The kinds themselves are in `condition_kinds`.
"""
# ruff: noqa: ARG002 - defaults of methods that a kind may define.

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..catalog.pattern import Pattern
from ..errors import ConfigError
from .state import Scalar, State

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

#: Reads a nested condition from its JSON form.
ConditionReader = Callable[[Any], "Condition"]
_Kind = TypeVar("_Kind", bound="type[Condition]")


class CatalogView(Protocol):
    """The information about a catalog version that conditions can use. `CompiledGate` has it.

    Rows are those of the index.

    Attributes:
        providers: kind and name in `Provides` to the rows of the tools that provide it.
        rows_matching: rows that a pattern matches exactly.
        annotated: rows whose annotation has a value.
    """

    @property
    def providers(self) -> Mapping[tuple[str, str], Mask]: ...  # noqa: D102
    def rows_matching(self, pattern: Pattern) -> Mask: ...  # noqa: D102
    def annotated(self, name: str, value: Scalar) -> Mask: ...  # noqa: D102


class ConditionInput(Protocol):
    """The state and the catalog that a condition is evaluated in. `GateEvaluation` has them.

    Attributes:
        state: state of the agent.
        catalog: the catalog version.
        called: whether a tool that a pattern matches was called.
    """

    @property
    def state(self) -> State: ...  # noqa: D102
    @property
    def catalog(self) -> CatalogView: ...  # noqa: D102
    def called(self, pattern: Pattern) -> Truth: ...  # noqa: D102


class Unanswered(Exception):
    """Raised by `Condition.evaluate`: the answer is unknown, for the reason given."""


class Condition:
    """The base class of conditions of rules.

    A kind is an immutable class that is compared and hashed by value. It defines `key`, `parse`,
    `to_dict`, `describe` and `evaluate`; everything else has a default.

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
    def parse(cls, value: Any, read: ConditionReader) -> Condition:
        """The condition of a JSON form `{key: value}`.

        Args:
            value: value from the JSON form.
            read: function that reads a nested condition from its JSON form.

        Raises:
            ConfigError: the value is wrong.

        Example:
            >>> from shortlist.gating.condition import parse_condition
            >>> parse_condition({"scope": "mail:send"}).describe()
            "the scope 'mail:send'"
        """
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """JSON form: `{key: value}`."""
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
            >>> from shortlist.gating import milestone
            >>> milestone("confirmed").describe_negated()
            "the milestone 'confirmed' not to be reached yet"
        """
        return f"the opposite of {self.clause()}"

    def label(self) -> str:
        """The name of the condition in error reports.

        Example:
            >>> from shortlist.gating import milestone
            >>> milestone("confirmed").label()
            'confirmed'
        """
        return str(self.to_dict()[self.key])

    def clause(self) -> str:
        """`describe`, in the form used inside another condition.

        Example:
            >>> from shortlist.gating import any_of, fact
            >>> any_of(fact("trial"), fact("paid")).clause()
            "(the fact 'trial' or the fact 'paid')"
        """
        return self.describe()

    def evaluate(self, request: ConditionInput) -> Truth:
        """Whether it holds and whether it fails. An exception means unknown.

        Example:
            >>> from shortlist import Engine, Gate, Tool
            >>> from shortlist.gating.compiled_gate import CompiledGate
            >>> from shortlist.gating import State, requires_scope
            >>> tool = Tool("read", "mail", annotations={"readOnlyHint": True})
            >>> index = Engine.from_tools([tool], tiers=["lexical"]).view().admission.index
            >>> compiled = CompiledGate(Gate(), index.tools, index.names)
            >>> requires_scope("a").evaluate(compiled.evaluate(State(scopes={"a"})))
            (True, False)
        """
        raise NotImplementedError

    def state_member(self) -> tuple[str, str] | None:
        """Field of `State` and name, if the condition holds exactly when the field has the name.

        The gate then looks the name up, which is faster than `evaluate`. None for all others.

        Example:
            >>> from shortlist.gating import requires_scope
            >>> requires_scope("mail:send").state_member()
            ('scopes', 'mail:send')
        """
        return None

    def fixed_truth(self, catalog: CatalogView) -> Truth | None:
        """The truth if it is the same in every state; None if it depends on the state.

        The gate then asks once per catalog version and does not call `evaluate`.

        Example:
            >>> from shortlist import Engine, Gate, Tool
            >>> from shortlist.gating.compiled_gate import CompiledGate
            >>> from shortlist.gating import annotation
            >>> tool = Tool("read", "mail", annotations={"readOnlyHint": True})
            >>> index = Engine.from_tools([tool], tiers=["lexical"]).view().admission.index
            >>> compiled = CompiledGate(Gate(), index.tools, index.names)
            >>> holds, fails = annotation("readOnlyHint").fixed_truth(compiled)
            >>> holds.tolist(), fails.tolist()
            ([True], [False])
        """
        return None

    def provided_by(self) -> tuple[str, str] | None:
        """Kind and name in `Provides` that make the condition hold; None if nothing does.

        Example:
            >>> from shortlist.gating import milestone
            >>> milestone("confirmed").provided_by()
            ('milestones', 'confirmed')
        """
        return self.state_member()

    def unlocked_by(self, catalog: CatalogView) -> Mask | None:
        """Rows of the tools whose call makes the condition hold, shape (n,); None if none does.

        Example:
            >>> from shortlist import Engine, Gate, Tool
            >>> from shortlist.gating.compiled_gate import CompiledGate
            >>> from shortlist.gating import after
            >>> tool = Tool("read", "mail", annotations={"readOnlyHint": True})
            >>> index = Engine.from_tools([tool], tiers=["lexical"]).view().admission.index
            >>> compiled = CompiledGate(Gate(), index.tools, index.names)
            >>> after("mail/*").unlocked_by(compiled).tolist()
            [True]
        """
        provided = self.provided_by()
        return None if provided is None else catalog.providers.get(provided)

    def patterns(self) -> tuple[Pattern, ...]:
        """The patterns that `evaluate` passes to `ConditionInput.called`, without its parts'.

        Example:
            >>> from shortlist.gating import after
            >>> [pattern.text for pattern in after("mail/read_*").patterns()]
            ['mail/read_*']
        """
        return ()

    def composed_of(self) -> tuple[Condition, ...]:
        """The inner conditions of this condition; empty for a simple one.

        Example:
            >>> from shortlist.gating import all_of, fact
            >>> len(all_of(fact("trial"), fact("paid")).composed_of())
            2
        """
        return ()

    def combine(self, parts: Sequence[Truth]) -> Truth:
        """The truth of the condition from the truths of its inner conditions.

        Example:
            >>> from shortlist.gating import all_of, fact
            >>> all_of(fact("trial"), fact("paid")).combine([(True, False), (False, True)])
            (False, True)
        """
        raise NotImplementedError


def simple_conditions(condition: Condition) -> Iterator[Condition]:
    """The simple conditions that a condition is composed of, in order, with repetitions."""
    parts = condition.composed_of()
    if not parts:
        yield condition
    for part in parts:
        yield from simple_conditions(part)


#: Every kind of condition by its key.
CONDITION_KINDS: dict[str, type[Condition]] = {}


def register(kind: _Kind) -> _Kind:
    """Make a kind of condition known to declarations (TOML and JSON); a class decorator."""
    if kind.key in CONDITION_KINDS or kind.refusal not in REFUSAL_KINDS:
        raise TypeError(f"{kind.__name__}: key {kind.key!r} is taken, or {kind.refusal!r} unknown")
    CONDITION_KINDS[kind.key] = kind
    return kind


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
    return CONDITION_KINDS[key].parse(value, lambda part: parse_condition(part, depth + 1))
