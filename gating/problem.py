"""Problems of rules, found when they are loaded."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..pattern import Pattern
from .compiled import CompiledGate
from .condition import Condition, Mask, Truth
from .constructors import all_of
from .gate import Gate
from .matcher import Rows
from .rule import Rule
from .satisfiable import satisfiable, simple

#: Tools named in one problem.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a permission rule.

    Args:
        kind: `unknown_scope`, `never_holds`, `conflict`, `cycle`, `after_nothing` or
            `concerns_nothing`; `docs/views.md` says what each means.
        rule: name or description of the rule.
        reason: one sentence.
        severity: `error` if tools can never be permitted, `warning` if a rule has no effect on the
            present catalog.
    """

    kind: str
    rule: str
    reason: str
    severity: str = "error"

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)

    def __str__(self) -> str:
        return f"rule {self.rule!r}: {self.reason}"


def rule_problems(gate: Gate) -> tuple[Problem, ...]:
    """Problems of the rules in any catalog."""
    return tuple(problem for rule in gate.rules for problem in _of_rule(rule, gate))


def catalog_problems(compiled: CompiledGate) -> tuple[Problem, ...]:
    """Problems of the rules with one catalog version."""
    return (*_idle(compiled), *_conflicts(compiled), *_blocked(compiled))


def _of_rule(rule: Rule, gate: Gate) -> Iterator[Problem]:
    needed = [] if rule.condition is None else list(simple(rule.condition))
    provided = [one for condition in needed if (one := condition.provided_by()) is not None]
    scopes = [name for kind, name in provided if kind == "scopes"]
    scopes += rule.provides.scopes if rule.provides else ()
    for scope in dict.fromkeys(scopes):
        if gate.scopes is not None and scope not in gate.scopes:
            known = ", ".join(sorted(gate.scopes)) or "none"
            yield Problem(
                "unknown_scope", rule.described(), f"no scope {scope!r}; use one of: {known}"
            )
    if rule.condition is not None and not satisfiable(rule.condition):
        yield Problem("never_holds", rule.described(), "what it needs can never hold")


def _idle(compiled: CompiledGate) -> Iterator[Problem]:
    reasons = {
        "condition": "it concerns no tool of the catalog",
        "provides": "what it provides, no tool of the catalog provides (letter case counts here)",
    }
    silent = {rule for rule, part in compiled.idle if part == "condition"}
    for rule, part in compiled.idle:
        if part == "condition" or rule not in silent:
            yield Problem("concerns_nothing", rule.described(), reasons[part], "warning")


def _conflicts(compiled: CompiledGate) -> Iterator[Problem]:
    """Rules about the same tools that can each hold, but not together."""
    if len(compiled.demands) < 2:
        return
    masks = np.stack([mask for _, _, mask in compiled.demands])
    rows = _first_rows(masks, compiled.by_id(np.ones(len(compiled.tools), np.bool_)))
    rivals = _rivals(compiled)
    found: set[tuple[int, ...]] = set()
    for row, concerned in zip(rows.tolist(), masks[:, rows].T, strict=True):
        demands = [compiled.demands[number] for number in np.flatnonzero(concerned).tolist()]
        places = tuple(dict.fromkeys(place for _, place, _ in demands))
        # Most sets end here; to decide the others takes far longer.
        if places in found or not any(rivals[place].intersection(places) for place in places):
            continue
        found.add(places)
        conditions = [compiled.nodes[place][0] for place in places]
        if all(map(satisfiable, conditions)) and not satisfiable(all_of(*conditions)):
            others = ", ".join(repr(rule.described()) for rule, _, _ in demands[1:])
            yield Problem(
                "conflict",
                demands[0][0].described(),
                f"with {others} it can never hold, for {compiled.tools[row].id!r}",
            )


def _first_rows(masks: NDArray[np.bool_], order: Rows) -> Rows:
    """For each combination of masks the first row that has it, in the given order.

    Args:
        masks: shape (m, n).
        order: all rows, shape (n,).
    """
    # Bits in words of eight bytes: rows of those are compared far faster than rows of truths.
    packed = np.packbits(masks[:, order], axis=0)
    words = np.zeros((-(-len(packed) // 8) * 8, len(order)), np.uint8)
    words[: len(packed)] = packed
    sets = np.ascontiguousarray(words.T).view(np.dtype((np.void, len(words))))
    _, first = np.unique(sets[:, 0], return_index=True)
    return order[np.sort(first)]


def _rivals(compiled: CompiledGate) -> dict[int, set[int]]:
    """For each required condition, the conditions that it may exclude, by position.

    Conditions with nothing in common can hold together if each of them can hold.
    """
    sharing: dict[Hashable, set[int]] = {}
    places = {place for _, place, _ in compiled.demands}
    for place in places:
        for part in simple(compiled.nodes[place][0]):
            subject = part.about()
            sharing.setdefault(part if subject is None else subject, set()).add(place)
    rivals: dict[int, set[int]] = {place: set() for place in places}
    for group in sharing.values():
        for place in group:
            rivals[place] |= group - {place}
    return rivals


def _blocked(compiled: CompiledGate) -> Iterator[Problem]:
    """Tools that need a call that can never be made."""
    free, callable_ = _possible_rows(compiled, None), _callable(compiled)
    told: set[Pattern | frozenset[int]] = set()
    for rule, place, mask in compiled.demands:
        for row in compiled.by_id(mask & free & ~callable_)[:_NAMED].tolist():
            pattern = _waits_for(compiled, compiled.nodes[place][0], row, callable_)
            if pattern is None or pattern in told:
                continue
            if not (compiled.meant(pattern) & free).any():
                told.add(pattern)
                there = "can ever be called" if compiled.meant(pattern).any() else "is there"
                yield Problem(
                    "after_nothing",
                    rule.described(),
                    f"it needs a call of {pattern.text!r}, but no matching tool {there}",
                    "warning",
                )
                continue
            cycle = _cycle(compiled, row, free, callable_)
            if cycle and frozenset(cycle) not in told:
                told.add(frozenset(cycle))
                path = " -> ".join(repr(compiled.tools[one].id) for one in [*cycle, cycle[0]])
                yield Problem("cycle", rule.described(), f"each needs a call of the next: {path}")


def _callable(compiled: CompiledGate) -> Mask:
    """Rows that can be called after some sequence of calls, with any scopes and facts."""
    reached = np.zeros(len(compiled.tools), np.bool_)
    while True:
        wider = _possible_rows(compiled, reached)
        if bool((wider == reached).all()):
            return reached
        reached = wider


def _possible_rows(compiled: CompiledGate, called: Mask | None) -> Mask:
    rows = np.ones(len(compiled.tools), np.bool_)
    for _, place, mask in compiled.demands:
        rows &= ~mask | _possible(compiled, compiled.nodes[place][0], called)[0]
    return rows


def _possible(compiled: CompiledGate, condition: Condition, called: Mask | None) -> Truth:
    """Whether a condition can hold, and can fail, if these rows may have been called.

    `called=None` means that any tool may have been called.
    """
    if parts := condition.composed_of():
        return condition.combine([_possible(compiled, part, called) for part in parts])
    return condition.possible(compiled, called)


def _waits_for(
    compiled: CompiledGate, condition: Condition, row: int, callable_: Mask
) -> Pattern | None:
    """The first call that a condition of this row needs and that can never be made.

    None if there is none.
    """
    possible, _ = _possible(compiled, condition, callable_)
    if possible is True or (not isinstance(possible, bool) and possible[row]):
        return None
    for pattern in condition.awaited():
        if not (compiled.meant(pattern) & callable_).any():
            return pattern
    return None


def _cycle(compiled: CompiledGate, row: int, free: Mask, callable_: Mask) -> list[int] | None:
    """Rows of which each needs a call of the next, and the last of the first.

    None if there are none.
    """
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
        meant = [] if pattern is None else compiled.by_id(compiled.meant(pattern) & free).tolist()
        step = meant[0] if meant else None
    return None if step is None else path[path.index(step) :]
