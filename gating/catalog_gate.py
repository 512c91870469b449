"""The gate over one catalog version: row masks of its rules, and their conditions in one state."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..catalog import Tool
from ..catalog.pattern import Pattern
from ..retrieval.id_lookup import Names
from .argument import may_apply
from .condition import (
    NO,
    UNKNOWN,
    YES,
    After,
    AllOf,
    AnyOf,
    Condition,
    Mask,
    Truth,
    Unanswered,
    simple_conditions,
)
from .matcher import Matcher, Rows
from .rules import FIELDS_OF_PROVIDES, Gate, Rule
from .state import Scalar, State

_LOG = logging.getLogger(__name__)
_ERROR_TEXT = 200
_NO_TOOL = "it concerns no tool of the catalog"
_NO_PROVIDER = "what it provides, no tool of the catalog provides (letter case counts here)"


@dataclass(frozen=True, slots=True)
class RuleProblem:
    """A problem of a permission rule with the present catalog.

    Args:
        kind: `after_nothing` or `concerns_nothing`; `docs/views.md` says what each means.
        rule: name or description of the rule.
        reason: one sentence.
    """

    kind: str
    rule: str
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)

    def __str__(self) -> str:
        return f"rule {self.rule!r}: {self.reason}"


class RuleRows(NamedTuple):
    """A rule and the rows of its tools, shape (n,)."""

    rule: Rule
    rows: Mask


class CatalogGate:
    """The rules of a gate as masks over the rows of a catalog version; never changed once made.

    Args:
        gate: the rules.
        tools: tools of the version, in order of row.
        names: their rows by id.

    Attributes:
        rows: tool id to row.
        matcher: finds the rows of patterns and annotations.
        demands: the rules whose condition some tools have to satisfy, in the gate's order. The
            selectors match these tools exactly or folded.
        call_rules: the rules about single calls, likewise.
        providers: kind and name of something that calls provide, such as `scopes` and `mail:send`,
            to the rows of the tools that provide it.
        problems: the problems of the rules with this version.
    """

    def __init__(self, gate: Gate, tools: Sequence[Tool], names: Names) -> None:
        self.tools = tools
        self.names = names
        self.rows: Mapping[str, int] = names.rows
        self.demands: list[RuleRows] = []
        self.call_rules: list[RuleRows] = []
        self.providers: dict[tuple[str, str], Mask] = {}
        # A condition to the rows that need not satisfy it.
        self._unconcerned_rows: dict[Condition, Mask] = {}
        self._unlocking_rows: dict[Condition, Rows | None] = {}
        self.matcher = Matcher(tools)
        problems = [problem for rule in gate.rules for problem in self._add(rule)]
        self.problems = (*problems, *self._missing_call_problems())
        self.matcher.free_tables()

    def evaluate(self, state: State) -> GateEvaluation:
        """The gate's conditions in a state."""
        return GateEvaluation(self, state)

    def permitted_rows(self, evaluation: GateEvaluation) -> Mask | None:
        """Rows that all rules permit, shape (n,); None for all rows."""
        permitted: Mask | None = None
        for condition, unconcerned in self._unconcerned_rows.items():
            holds, _ = evaluation.truth(condition)
            if holds is True:
                continue
            passing = unconcerned if holds is False else unconcerned | holds
            permitted = passing if permitted is None else permitted & passing
        return permitted

    def rows_unlocking(self, condition: Condition) -> Rows | None:
        """Rows whose call makes a simple condition hold, by id; None if no call does."""
        if condition not in self._unlocking_rows:
            if isinstance(condition, After):
                mask: Mask | None = self.matcher.rows_matching(condition.pattern)
            else:
                provided = condition.provided_by()
                mask = None if provided is None else self.providers.get(provided)
            rows = None if mask is None else self.names.rows_in_id_order(mask)
            self._unlocking_rows[condition] = rows
        return self._unlocking_rows[condition]

    def after_call(self, state: State, tool_id: str) -> State:
        """The state after a call of this tool, with the milestones that rules say it reaches."""
        row = self.rows.get(tool_id)
        reached = [
            name
            for (kind, name), mask in self.providers.items()
            if kind == "milestones" and row is not None and mask[row]
        ]
        return state.after_call(tool_id).reached(*reached)

    def waits_for_calls(self, tool_id: str) -> bool:
        """Whether the outcome of a call may change what a rule says about this tool.

        True if a rule for the tool requires earlier calls, milestones or a predicate, or a scope or
        a fact that a call provides.
        """
        row = self.rows.get(tool_id)
        return row is not None and any(
            part.reads_calls or part.provided_by() in self.providers
            for rule, rows in self.demands
            if rows[row] and rule.condition is not None
            for part in simple_conditions(rule.condition)
        )

    def rules_for_call(self, row: int, arguments: Mapping[str, Any] | None = None) -> list[Rule]:
        """The rules that ask for approval of a call of a row, or deny it.

        Args:
            row: row of the tool.
            arguments: arguments of the call; None for the rules about any call.
        """
        return [
            rule
            for rule, rows in self.call_rules
            if rows[row] and (arguments is None or may_apply(rule.when, arguments))
        ]

    def _add(self, rule: Rule) -> Iterator[RuleProblem]:
        rows = self.matcher.rows_of_rule(rule, folded=True)
        stops_calls = rule.condition is not None or rule.concerns_single_calls
        if stops_calls and not rows.any():
            yield RuleProblem("concerns_nothing", rule.described(), _NO_TOOL)
        elif rule.condition is not None:
            self.demands.append(RuleRows(rule, rows))
            others = self._unconcerned_rows.get(rule.condition)
            self._unconcerned_rows[rule.condition] = ~rows if others is None else others & ~rows
            for part in simple_conditions(rule.condition):
                if isinstance(part, After):
                    # Cached now: the matcher's tables are freed after the last rule.
                    self.matcher.rows_matching(part.pattern, folded=True)
        elif stops_calls:
            self.call_rules.append(RuleRows(rule, rows))
        if rule.provides is None:
            return
        providing = self.matcher.rows_of_rule(rule)
        if not providing.any() and (rows.any() or not stops_calls):
            yield RuleProblem("concerns_nothing", rule.described(), _NO_PROVIDER)
        for kind in FIELDS_OF_PROVIDES:
            for name in getattr(rule.provides, kind):
                earlier = self.providers.get((kind, name))
                self.providers[kind, name] = providing if earlier is None else earlier | providing

    def _missing_call_problems(self) -> Iterator[RuleProblem]:
        """Conditions that cannot hold, because the catalog lacks the tool whose call they need."""
        reported: set[Pattern] = set()
        for rule, _ in self.demands:
            patterns = () if rule.condition is None else self._missing_calls(rule.condition)
            if patterns and patterns[0] not in reported:
                reported.add(patterns[0])
                reason = f"it needs a call of {patterns[0].text!r}, but no matching tool is there"
                yield RuleProblem("after_nothing", rule.described(), reason)

    def _missing_calls(self, condition: Condition) -> tuple[Pattern, ...]:
        """Patterns of required calls that no tool matches; empty if it can hold without them."""
        if isinstance(condition, After):
            return (
                () if self.matcher.rows_matching(condition.pattern).any() else (condition.pattern,)
            )
        parts = [self._missing_calls(part) for part in condition.composed_of()]
        if isinstance(condition, AllOf) or (isinstance(condition, AnyOf) and all(parts)):
            return tuple(pattern for patterns in parts for pattern in patterns)
        return ()


class GateEvaluation:
    """The conditions of a gate over a catalog version, each evaluated once in one state.

    Args:
        gate: the gate over the catalog version.
        state: state of the agent.

    Attributes:
        failed_conditions: conditions that could not be evaluated. The log says why.
        uncertain: patterns and milestones whose truth depends on calls with an unknown outcome, to
            the ids of these calls' tools.
    """

    def __init__(self, gate: CatalogGate, state: State) -> None:
        self.gate = gate
        self.state = state
        self.failed_conditions: set[Condition] = set()
        self.uncertain: dict[Pattern | str, tuple[str, ...]] = {}
        self._truths: dict[Condition, Truth] = {}

    def truth(self, condition: Condition) -> Truth:
        """Whether a condition holds and whether it fails; both false if it has no answer."""
        truth = self._truths.get(condition)
        if truth is None:
            truth = self._truths[condition] = self._evaluate(condition)
        return truth

    def holds(self, condition: Condition, row: int) -> bool:
        """Whether a condition holds for a row."""
        holds, _ = self.truth(condition)
        return holds if isinstance(holds, bool) else bool(holds[row])

    def called(self, pattern: Pattern) -> Truth:
        """Whether a tool that the pattern matches was called.

        It holds if one matches exactly. It fails if none matches even folded, see `pattern.fold`.
        Otherwise it is unknown, as it is after a call whose outcome is unknown.
        """
        perhaps_called = tuple(
            tool_id for tool_id in self.state.unknown if pattern.matches_id(tool_id, folded=True)
        )
        if not self.state.called and not perhaps_called:
            return NO
        if self._is_called(pattern, folded=False):
            return YES
        if perhaps_called:
            self.uncertain[pattern] = perhaps_called
            return UNKNOWN
        return UNKNOWN if self._is_called(pattern, folded=True) else NO

    def reached(self, milestone: str) -> Truth:
        """Whether a milestone was reached; unknown if a call with an unknown outcome reaches it."""
        if milestone in self.state.milestones:
            return YES
        mask = self.gate.providers.get(("milestones", milestone))
        rows = self.gate.rows
        tool_ids = tuple(
            tool_id
            for tool_id in self.state.unknown
            if mask is not None and tool_id in rows and mask[rows[tool_id]]
        )
        if not tool_ids:
            return NO
        self.uncertain[milestone] = tool_ids
        return UNKNOWN

    def annotated(self, name: str, value: Scalar) -> Mask:
        """Rows whose annotation has this value, shape (n,)."""
        return self.gate.matcher.annotated(name, value)

    def _is_called(self, pattern: Pattern, *, folded: bool) -> bool:
        rows, removed_ids = self._called_tools
        mask = self.gate.matcher.rows_matching(pattern, folded=folded)
        return bool(mask[rows].any()) or any(
            pattern.matches_id(tool_id, folded=folded) for tool_id in removed_ids
        )

    @cached_property
    def _called_tools(self) -> tuple[Rows, tuple[str, ...]]:
        """Rows of the called tools in the catalog, and ids of those no longer in it."""
        rows = self.gate.rows
        called_rows = [rows[tool_id] for tool_id in self.state.called if tool_id in rows]
        removed_ids = tuple(tool_id for tool_id in self.state.called if tool_id not in rows)
        return np.array(called_rows, np.intp), removed_ids

    def _evaluate(self, condition: Condition) -> Truth:
        try:
            return condition.evaluate(self)
        except Unanswered as error:
            text = str(error)
        except Exception as error:  # noqa: BLE001 - any error must deny
            text = f"raised {type(error).__name__}: {error}"
            _LOG.debug("%s raised", condition.describe(), exc_info=True)
        self.failed_conditions.add(condition)
        # Only here: the text of an exception may hold an address with a password.
        _LOG.warning("%s %r %s", condition.key, condition.label(), text[:_ERROR_TEXT])
        return UNKNOWN
