"""Rules as row masks for one catalog version. Each request evaluates every condition once."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..catalog import Tool
from ..catalog.pattern import Pattern
from ..retrieval.id_lookup import Names
from .argument import may_apply
from .condition import NO, UNKNOWN, YES, Condition, Mask, Truth, Unanswered, simple_conditions
from .matcher import Matcher, Rows
from .rules import FIELDS_OF_PROVIDES, Gate, Rule
from .state import Scalar, State

_LOG = logging.getLogger(__name__)
_ERROR_TEXT = 200


class Demand(NamedTuple):
    """A rule whose condition some tools have to satisfy.

    Attributes:
        rule: the rule.
        condition_place: place of its condition in `CompiledGate.conditions`.
        mask: rows of these tools, shape (n,): the rule's selectors match them exactly or folded.
    """

    rule: Rule
    condition_place: int
    mask: Mask


class CompiledGate:
    """Rules as masks over the rows of a catalog version; never changed once made.

    Equal conditions are evaluated once, whatever the number of rules and tools that have them.

    Args:
        gate: the rules.
        tools: tools of the version, in order of row.
        names: their rows by id.

    Attributes:
        rows: tool id to row.
        conditions: every condition of the rules, each after its parts.
        condition_places: each condition's place in `conditions`.
        demands: the rules whose condition some tools have to satisfy, in the gate's order.
        call_rules: the rules about single calls, each with the rows of its tools, shape (n,).
        idle_rules: rules that match no tool, with the part that has no effect: `condition`, `calls`
            or `provides`.
        providers: kind and name of something that calls provide, such as `scopes` and `mail:send`,
            to the rows of the tools that provide it.
        looked_up_names: field of `State` to the names that conditions look up in it, each with the
            place of its condition.
        fixed_truths: place and truth of each condition that no state changes.
        evaluated_conditions: each other condition, after its parts, with its place and the places
            of its parts.
    """

    def __init__(self, gate: Gate, tools: Sequence[Tool], names: Names) -> None:
        self.gate = gate
        self.tools = tools
        self.names = names
        self.rows: Mapping[str, int] = names.rows
        self.conditions: list[Condition] = []
        self.condition_places: dict[Condition, int] = {}
        self.demands: list[Demand] = []
        self.call_rules: list[tuple[Rule, Mask]] = []
        self.idle_rules: list[tuple[Rule, str]] = []
        self.providers: dict[tuple[str, str], Mask] = {}
        self.looked_up_names: dict[str, list[tuple[str, int]]] = {}
        self.fixed_truths: list[tuple[int, Truth]] = []
        self.evaluated_conditions: list[tuple[Condition, int, tuple[int, ...]]] = []
        # Place of a condition to the rows that need not satisfy it.
        self._unconcerned_rows: dict[int, Mask] = {}
        self._unlocking_by_condition: dict[Condition, Rows | None] = {}
        self._matcher = Matcher(tools)
        for rule in gate.rules:
            self._add(rule)
        for condition, place in self.condition_places.items():
            self._classify(condition, place)
        self._matcher.free_tables()

    def evaluate(self, state: State) -> GateEvaluation:
        """The gate's conditions in a state."""
        return GateEvaluation(self, state)

    def permitted_rows(self, truths: Sequence[Truth]) -> Mask | None:
        """Rows that all rules permit, shape (n,); None for all rows."""
        permitted: Mask | None = None
        for place, unconcerned in self._unconcerned_rows.items():
            holds, _ = truths[place]
            if holds is True:
                continue
            passing = unconcerned if holds is False else unconcerned | holds
            permitted = passing if permitted is None else permitted & passing
        return permitted

    def rows_matching(self, pattern: Pattern, *, folded: bool = False) -> Mask:
        """Rows a pattern matches, shape (n,); see `Matcher.rows_matching`."""
        return self._matcher.rows_matching(pattern, folded=folded)

    def annotated(self, name: str, value: Scalar) -> Mask:
        """Rows whose annotation has this value, shape (n,)."""
        return self._matcher.annotated(name, value)

    def granted(self, glob: str) -> Rows:
        """Rows that a glob of a request matches exactly; none if it is no pattern."""
        return self._matcher.granted(glob)

    def rows_unlocking(self, condition: Condition) -> Rows | None:
        """Rows whose call makes a simple condition hold, by id; None if no call does."""
        if condition not in self._unlocking_by_condition:
            unlocking_rows = condition.unlocked_by(self)
            self._unlocking_by_condition[condition] = (
                None if unlocking_rows is None else self.names.rows_in_id_order(unlocking_rows)
            )
        return self._unlocking_by_condition[condition]

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
            for demand in self.demands
            if demand.mask[row] and demand.rule.condition is not None
            for part in simple_conditions(demand.rule.condition)
        )

    def rules_for_call(self, row: int, arguments: Mapping[str, Any]) -> list[Rule]:
        """The rules that ask for approval of a call of a row with these arguments, or deny it."""
        return [
            rule for rule, mask in self.call_rules if mask[row] and may_apply(rule.when, arguments)
        ]

    def _add(self, rule: Rule) -> None:
        if rule.condition is not None:
            mask = self._matcher.rows_of_rule(rule, folded=True)
            if mask.any():
                place = self._place(rule.condition)
                self.demands.append(Demand(rule, place, mask))
                unconcerned = self._unconcerned_rows.get(place)
                self._unconcerned_rows[place] = (
                    ~mask if unconcerned is None else unconcerned & ~mask
                )
            else:
                self.idle_rules.append((rule, "condition"))
        if rule.concerns_single_calls:
            mask = self._matcher.rows_of_rule(rule, folded=True)
            if mask.any():
                self.call_rules.append((rule, mask))
            else:
                self.idle_rules.append((rule, "calls"))
        if rule.provides is not None:
            mask = self._matcher.rows_of_rule(rule)
            if not mask.any():
                self.idle_rules.append((rule, "provides"))
            for kind in FIELDS_OF_PROVIDES:
                for name in getattr(rule.provides, kind):
                    provider_rows = self.providers.get((kind, name))
                    self.providers[kind, name] = (
                        mask if provider_rows is None else provider_rows | mask
                    )

    def _place(self, condition: Condition) -> int:
        if condition not in self.condition_places:
            for part in condition.composed_of():
                self._place(part)
            self.condition_places[condition] = len(self.conditions)
            self.conditions.append(condition)
        return self.condition_places[condition]

    def _classify(self, condition: Condition, place: int) -> None:
        """Record how a condition is evaluated: looked up, fixed for the catalog, or evaluated."""
        if (member := condition.state_member()) is not None:
            state_field, name = member
            self.looked_up_names.setdefault(state_field, []).append((name, place))
        elif (truth := condition.fixed_truth(self)) is not None:
            self.fixed_truths.append((place, truth))
        else:
            part_places = tuple(self.condition_places[part] for part in condition.composed_of())
            self.evaluated_conditions.append((condition, place, part_places))
        for pattern in condition.patterns():
            # Cached now: the matcher's tables are freed after the last rule.
            self.rows_matching(pattern, folded=True)


class GateEvaluation:
    """Every condition of a compiled gate, evaluated in one state.

    Args:
        catalog: the gate over a catalog version.
        state: state of the agent.

    Attributes:
        truths: the truth of each condition, in the order of `CompiledGate.conditions`.
        failed_conditions: conditions that could not be evaluated. The log says why.
        uncertain: patterns and milestones whose truth depends on calls with an unknown outcome, to
            the ids of these calls' tools.
    """

    def __init__(self, catalog: CompiledGate, state: State) -> None:
        self.catalog = catalog
        self.state = state
        self.failed_conditions: set[Condition] = set()
        self.uncertain: dict[Pattern | str, tuple[str, ...]] = {}
        self.truths: list[Truth] = [NO] * len(catalog.conditions)
        truths = self.truths
        for state_field, names in catalog.looked_up_names.items():
            names_in_state = getattr(state, state_field)
            for name, place in names:
                if name in names_in_state:
                    truths[place] = YES
                elif state_field == "milestones" and self._is_perhaps_reached(name):
                    truths[place] = UNKNOWN
        for place, truth in catalog.fixed_truths:
            truths[place] = truth
        for condition, place, part_places in catalog.evaluated_conditions:
            if part_places:
                truths[place] = condition.combine([truths[part] for part in part_places])
            else:
                truths[place] = self._evaluate_condition(condition)

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
        rows, removed_ids = self._called_tools
        exact, folded = (
            self.catalog.rows_matching(pattern),
            self.catalog.rows_matching(pattern, folded=True),
        )
        if bool(exact[rows].any()) or any(map(pattern.matches_id, removed_ids)):
            return YES
        if perhaps_called:
            self.uncertain[pattern] = perhaps_called
            return UNKNOWN
        if folded is not exact and bool(folded[rows].any()):
            return UNKNOWN
        return (
            UNKNOWN
            if any(pattern.matches_id(tool_id, folded=True) for tool_id in removed_ids)
            else NO
        )

    def _is_perhaps_reached(self, milestone: str) -> bool:
        """Whether a call with an unknown outcome reaches a milestone if it succeeded."""
        mask = self.catalog.providers.get(("milestones", milestone))
        if mask is None or not self.state.unknown:
            return False
        rows = self.catalog.rows
        tool_ids = tuple(name for name in self.state.unknown if name in rows and mask[rows[name]])
        if tool_ids:
            self.uncertain[milestone] = tool_ids
        return bool(tool_ids)

    @cached_property
    def _called_tools(self) -> tuple[Rows, tuple[str, ...]]:
        """Rows of the called tools in the catalog, and ids of those no longer in it."""
        rows = self.catalog.rows
        called_rows = [rows[tool_id] for tool_id in self.state.called if tool_id in rows]
        removed_ids = tuple(tool_id for tool_id in self.state.called if tool_id not in rows)
        return np.array(called_rows, np.intp), removed_ids

    def _evaluate_condition(self, condition: Condition) -> Truth:
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
