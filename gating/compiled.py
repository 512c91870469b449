"""A gate held against one catalog version, so that a request costs one look per condition."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..catalog import Tool
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
    json_key,
)
from .gate import Gate
from .matcher import Mask, Matcher, Matching
from .pattern import Pattern
from .rule import Rule
from .state import State

_LOG = logging.getLogger(__name__)
_ERROR_TEXT = 200

Values = bool | NDArray[np.bool_]
#: Whether a condition holds, and whether it fails: one truth value for every tool or one for each.
#: Neither is true where a predicate gave no answer, so that no `not_` makes a permission of that.
Truth = tuple[Values, Values]
_YES: Truth = (True, False)
_NO: Truth = (False, True)


class CompiledGate:
    """Rules as masks over the rows of a catalog version; says the same for ever once made.

    Conditions equal by value are one, whatever the number of rules and tools that ask for them.

    Args:
        gate: the rules.
        tools: of the version, in order of row.
        rows: tool id to row.
        matcher: says which rows rules mean; one over all tools when absent.
    """

    def __init__(
        self,
        gate: Gate,
        tools: Sequence[Tool],
        rows: Mapping[str, int],
        matcher: Matching | None = None,
    ) -> None:
        self.gate = gate
        self.tools = tools
        self.rows = rows
        matcher = Matcher(tools) if matcher is None else matcher
        #: Every condition and where its parts are in this list, parts first.
        self.nodes: list[tuple[Condition, tuple[int, ...]]] = []
        self.places: dict[Condition, int] = {}
        #: Rules that ask for something, with the place of what they ask and the rows they concern.
        self.demands: list[tuple[Rule, int, Mask]] = []
        #: Every rule with the rows it concerns.
        self.concerned: list[tuple[Rule, Mask]] = []
        #: (kind, name) of what rules say is provided to the rows that provide it.
        self.providers: dict[tuple[str, str], Mask] = {}
        spared: dict[int, Mask] = {}
        for rule in gate.rules:
            mask = matcher.concerned(rule)
            self.concerned.append((rule, mask))
            if rule.condition is not None and mask.any():
                place = self._place(rule.condition)
                self.demands.append((rule, place, mask))
                spared[place] = spared[place] & ~mask if place in spared else ~mask
            self._note_provided(rule, mask)
        self._spared = tuple(spared.items())
        self._leading: dict[Condition, NDArray[np.intp] | None] = {}
        conditions = self.places
        self.meant: Mapping[Pattern, Mask] = {
            condition.pattern: matcher.meant(condition.pattern)
            for condition in conditions
            if isinstance(condition, After)
        }
        #: Name of each scope and milestone that is asked for, and where, beside what has it.
        self.scopes = [(one.name, at) for one, at in conditions.items() if isinstance(one, Scope)]
        self.milestones = [
            (one.name, at) for one, at in conditions.items() if isinstance(one, Milestone)
        ]
        #: Rows of the tools that are annotated so, and of those that are not.
        self.annotated: dict[Annotation, tuple[Mask, Mask]] = {}
        #: Where annotations are asked for, and what the tools say.
        self.marked: list[tuple[int, Truth]] = []
        for one, at in conditions.items():
            if isinstance(one, Annotation):
                marked = matcher.annotated(one)
                self.annotated[one] = marked, ~marked
                self.marked.append((at, self.annotated[one]))
        #: The other conditions, parts first, with where they and their parts are.
        self.others = [
            (one, at, self.nodes[at][1])
            for one, at in conditions.items()
            if not isinstance(one, Scope | Milestone | Annotation)
        ]

    def holding(self, state: State) -> Evaluation:
        """The gate's conditions in a state."""
        return Evaluation(self, state)

    def admitted(self, truths: Sequence[Truth]) -> Mask | None:
        """Rows whose every demand holds, shape (n,); None for all of them."""
        admitted: Mask | None = None
        for place, spared in self._spared:
            holds = truths[place][0]
            if holds is True:
                continue
            passing = spared if holds is False else spared | holds
            admitted = passing if admitted is None else admitted & passing
        return admitted

    def leading_to(self, condition: Condition) -> NDArray[np.intp] | None:
        """Rows a call of which leads to a simple condition's holding; None where no call does."""
        if condition not in self._leading:
            leading: Mask | None = None
            match condition:
                case After():
                    leading = self.meant[condition.pattern]
                case Scope():
                    leading = self.providers.get(("scopes", condition.name))
                case Milestone():
                    leading = self.providers.get(("milestones", condition.name))
                case Fact():
                    leading = self.providers.get(("facts", condition.name))
            self._leading[condition] = None if leading is None else np.flatnonzero(leading)
        return self._leading[condition]

    def after_call(self, state: State, tool_id: str) -> State:
        """The state after a call of this tool, with the milestones that rules say it reaches."""
        row = self.rows.get(tool_id)
        reached = [
            name
            for (kind, name), mask in self.providers.items()
            if kind == "milestones" and row is not None and mask[row]
        ]
        return state.after_call(tool_id).reached(*reached)

    def _place(self, condition: Condition) -> int:
        if condition not in self.places:
            parts = tuple(self._place(part) for part in condition.composed_of())
            self.places[condition] = len(self.nodes)
            self.nodes.append((condition, parts))
        return self.places[condition]

    def _note_provided(self, rule: Rule, mask: Mask) -> None:
        if rule.provides is None:
            return
        for kind in ("scopes", "milestones", "facts"):
            for name in getattr(rule.provides, kind):
                known = self.providers.get((kind, name))
                self.providers[kind, name] = mask if known is None else known | mask


class Evaluation:
    """Every condition of a compiled gate, held against one state.

    Args:
        compiled: the gate over a catalog version.
        state: what the agent holds.

    Attributes:
        truths: for each node of the gate, whether it holds and whether it fails.
        errors: name of each predicate that could not say, to what went wrong.
    """

    def __init__(self, compiled: CompiledGate, state: State) -> None:
        self.compiled = compiled
        self.state = state
        self.errors: dict[str, str] = {}
        self.truths: list[Truth] = [_NO] * len(compiled.nodes)
        truths, scopes, milestones = self.truths, state.scopes, state.milestones
        for name, at in compiled.scopes:
            if name in scopes:
                truths[at] = _YES
        for name, at in compiled.milestones:
            if name in milestones:
                truths[at] = _YES
        for at, truth in compiled.marked:
            truths[at] = truth
        for condition, at, parts in compiled.others:
            truths[at] = self._truth(condition, [truths[part] for part in parts])

    @cached_property
    def _called(self) -> tuple[NDArray[np.intp], tuple[str, ...]]:
        """Rows of the called tools the catalog has, and ids of those it has no longer."""
        rows = self.compiled.rows
        known = [rows[tool_id] for tool_id in self.state.called if tool_id in rows]
        gone = tuple(tool_id for tool_id in self.state.called if tool_id not in rows)
        return np.array(known, np.intp), gone

    def _truth(self, condition: Condition, parts: Sequence[Truth]) -> Truth:
        match condition:
            case Fact():
                return _YES if self._is_known(condition) else _NO
            case After():
                return _YES if self._was_called(condition.pattern) else _NO
            case Predicate():
                return self._consulted(condition)
            case AllOf():
                return _both(parts)
            case AnyOf():
                fails, holds = _both([(fails, holds) for holds, fails in parts])
                return holds, fails
            case Not():
                holds_not, fails_not = parts[0]
                return fails_not, holds_not
        raise TypeError(condition)

    def _was_called(self, pattern: Pattern) -> bool:
        if not self.state.called:
            return False
        known, gone = self._called
        if bool(self.compiled.meant[pattern][known].any()):
            return True
        return any(pattern.matches_id(tool_id) for tool_id in gone)

    def _is_known(self, condition: Fact) -> bool:
        value = self.state.facts.get(condition.name)
        if value is None:
            return False
        return value is not False if condition.key is None else json_key(value) == condition.key

    def _consulted(self, condition: Predicate) -> Truth:
        try:
            answer = condition.function(self.state)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must deny
            _LOG.debug("predicate %r raised", condition.name, exc_info=True)
            return self._unsaid(condition, f"raised {type(error).__name__}: {error}")
        if isinstance(answer, bool | np.bool_):
            return _YES if answer else _NO
        return self._unsaid(condition, f"answered {type(answer).__name__}, not True or False")

    def _unsaid(self, condition: Predicate, what: str) -> Truth:
        self.errors[condition.name] = what[:_ERROR_TEXT]
        _LOG.warning("predicate %r %s", condition.name, self.errors[condition.name])
        return False, False


def _both(parts: Sequence[Truth]) -> Truth:
    holds, fails = parts[0]
    for also_holds, also_fails in parts[1:]:
        holds, fails = holds & also_holds, fails | also_fails
    return holds, fails
