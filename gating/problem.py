"""What is wrong with rules, found when they are loaded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .compiled import CompiledGate, Values
from .condition import After, AllOf, Annotation, AnyOf, Condition, Not, Scope, all_of
from .gate import Gate
from .matcher import Mask
from .pattern import Pattern
from .rule import Rule
from .satisfiable import satisfiable, simple

#: Tools named in one problem.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with rules.

    Args:
        kind: `unknown_scope`, `never_holds`, `conflict`, `cycle`, `after_nothing` or
            `concerns_nothing`; `docs/gate.md` says what each means.
        rule: the rule, as reports name it.
        reason: a sentence.
        severity: `error` where tools are held back for ever, `warning` where a rule has no effect
            on the present catalog.
    """

    kind: str
    rule: str
    reason: str
    severity: str = "error"

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "kind": self.kind,
            "rule": self.rule,
            "reason": self.reason,
            "severity": self.severity,
        }

    def __str__(self) -> str:
        return f"rule {self.rule!r}: {self.reason}"


def rule_problems(gate: Gate) -> tuple[Problem, ...]:
    """What is wrong with the rules in any catalog."""
    return tuple(problem for rule in gate.rules for problem in _of_rule(rule, gate))


def catalog_problems(compiled: CompiledGate) -> tuple[Problem, ...]:
    """What is wrong with the rules over one catalog version."""
    return (*_idle(compiled), *_conflicts(compiled), *_blocked(compiled))


def _of_rule(rule: Rule, gate: Gate) -> Iterator[Problem]:
    needed = [] if rule.condition is None else list(simple(rule.condition))
    scopes = [condition.name for condition in needed if isinstance(condition, Scope)]
    scopes += rule.provides.scopes if rule.provides else ()
    for scope in dict.fromkeys(scopes):
        if gate.scopes is not None and scope not in gate.scopes:
            known = ", ".join(sorted(gate.scopes)) or "none"
            yield Problem(
                "unknown_scope", rule.described(), f"no scope {scope!r}; there are: {known}"
            )
    if rule.condition is not None and not satisfiable(rule.condition):
        yield Problem("never_holds", rule.described(), "what it needs can never hold")


def _idle(compiled: CompiledGate) -> Iterator[Problem]:
    for rule, mask in compiled.concerned:
        if not mask.any():
            yield Problem(
                "concerns_nothing",
                rule.described(),
                "it concerns no tool of the catalog",
                "warning",
            )


def _conflicts(compiled: CompiledGate) -> Iterator[Problem]:
    """Rules that concern the same tools and can hold, but not together."""
    if len(compiled.demands) < 2:
        return
    packed = np.packbits(np.stack([mask for _, _, mask in compiled.demands]), axis=0).T
    _, rows = np.unique(np.ascontiguousarray(packed), axis=0, return_index=True)
    found: set[tuple[Condition, ...]] = set()
    for row in sorted(rows.tolist()):
        demands = [(rule, place) for rule, place, mask in compiled.demands if mask[row]]
        conditions = tuple(dict.fromkeys(compiled.nodes[place][0] for _, place in demands))
        if (
            len(conditions) > 1
            and conditions not in found
            and all(map(satisfiable, conditions))
            and not satisfiable(all_of(*conditions))
        ):
            found.add(conditions)
            others = ", ".join(repr(rule.described()) for rule, _ in demands[1:])
            yield Problem(
                "conflict",
                demands[0][0].described(),
                f"with {others} it can never hold, for {compiled.tools[row].id!r}",
            )


def _blocked(compiled: CompiledGate) -> Iterator[Problem]:
    """Tools that wait for a call that nothing can make."""
    free, callable_ = _possible_rows(compiled, None), _callable(compiled)
    told: set[Pattern | frozenset[int]] = set()
    for rule, place, mask in compiled.demands:
        for row in np.flatnonzero(mask & free & ~callable_)[:_NAMED].tolist():
            pattern = _waits_for(compiled, compiled.nodes[place][0], row, callable_)
            if pattern is None or pattern in told:
                continue
            if not (compiled.meant[pattern] & free).any():
                told.add(pattern)
                there = "can ever be called" if compiled.meant[pattern].any() else "is there"
                yield Problem(
                    "after_nothing",
                    rule.described(),
                    f"it waits for a call of {pattern.text!r}, and no tool it means {there}",
                    "warning",
                )
                continue
            cycle = _cycle(compiled, row, free, callable_)
            if cycle and frozenset(cycle) not in told:
                told.add(frozenset(cycle))
                path = " -> ".join(repr(compiled.tools[one].id) for one in [*cycle, cycle[0]])
                yield Problem(
                    "cycle", rule.described(), f"each waits for a call of the next: {path}"
                )


def _callable(compiled: CompiledGate) -> Mask:
    """Rows that some sequence of calls leads to, whatever scopes and facts it takes."""
    reached = np.zeros(len(compiled.tools), np.bool_)
    while True:
        wider = _possible_rows(compiled, reached)
        if bool((wider == reached).all()):
            return reached
        reached = wider


def _possible_rows(compiled: CompiledGate, called: Mask | None) -> Mask:
    rows = np.ones(len(compiled.tools), np.bool_)
    for _, place, mask in compiled.demands:
        rows &= ~mask | _possible(compiled, compiled.nodes[place][0], called)
    return rows


def _possible(
    compiled: CompiledGate, condition: Condition, called: Mask | None, holding: bool = True
) -> Values:
    """Whether a condition can come to hold, or to fail, once these rows may have been called.

    None stands for whatever calls it takes.
    """
    if isinstance(condition, Not):
        return _possible(compiled, condition.part, called, not holding)
    if isinstance(condition, AllOf | AnyOf):
        parts = [_possible(compiled, part, called, holding) for part in condition.parts]
        result = parts[0]
        for part in parts[1:]:
            result = result & part if isinstance(condition, AllOf) == holding else result | part
        return result
    if isinstance(condition, Annotation):
        return compiled.annotated[condition][0 if holding else 1]
    if isinstance(condition, After) and holding and called is not None:
        return bool((compiled.meant[condition.pattern] & called).any())
    return True


def _waits_for(
    compiled: CompiledGate, condition: Condition, row: int, callable_: Mask
) -> Pattern | None:
    """The first call that a condition of this row waits for in vain; None if it need not."""
    possible = _possible(compiled, condition, callable_)
    if possible is True or (not isinstance(possible, bool) and possible[row]):
        return None
    for pattern in _awaited(condition):
        if not (compiled.meant[pattern] & callable_).any():
            return pattern
    return None


def _awaited(condition: Condition, holding: bool = True) -> Iterator[Pattern]:
    """The calls it asks for, and not those it forbids."""
    if isinstance(condition, After) and holding:
        yield condition.pattern
    for part in condition.composed_of():
        yield from _awaited(part, holding != isinstance(condition, Not))


def _cycle(compiled: CompiledGate, row: int, free: Mask, callable_: Mask) -> list[int] | None:
    """Rows each of which waits for the next and the last for the first; None if there is an end."""
    path: list[int] = []
    step: int | None = row
    while step is not None and step not in path:
        path.append(step)
        waits = (
            _waits_for(compiled, compiled.nodes[place][0], step, callable_)
            for _, place, mask in compiled.demands
            if mask[step]
        )
        pattern = next((found for found in waits if found is not None), None)
        meant = [] if pattern is None else np.flatnonzero(compiled.meant[pattern] & free).tolist()
        step = meant[0] if meant else None
    return None if step is None else path[path.index(step) :]
