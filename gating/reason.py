"""Why the rules hold a tool back, and which admitted tools lead to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..retrieval.refusal import Refusal
from .compiled import Evaluation, Values
from .condition import (
    AllOf,
    Annotation,
    AnyOf,
    Condition,
    Not,
    Predicate,
    Scope,
)
from .form import to_form
from .matcher import Mask
from .satisfiable import simple
from .wording import clause, wording

#: Tools named as leading to another, at most.
UNLOCKING = 5
# What the agent can mend by itself first, what nothing in the state mends last.
_HARDNESS = ("precondition", "scope", "predicate_error", "annotation")


@dataclass(frozen=True, slots=True)
class _Lack:
    """What keeps a condition from holding.

    Args:
        kind: of refusal.
        conditions: the simple conditions that do not hold.
        unlocking: rows of admitted tools that lead to its holding; None where something that no
            tool leads to is lacking.
    """

    kind: str
    conditions: tuple[Condition, ...]
    unlocking: NDArray[np.intp] | None


class Reasons:
    """Why rules hold tools back from one request.

    Args:
        evaluation: the gate's conditions in the agent's state.
        admitted: rows the request may use, whatever else was decided, shape (n,).
    """

    def __init__(self, evaluation: Evaluation, admitted: Mask) -> None:
        self._evaluation = evaluation
        self._admitted = admitted
        self._leading: dict[Condition, NDArray[np.intp] | None] = {}
        # By the demands that fail, where these fail for every tool alike.
        self._known: dict[tuple[int, ...], Refusal] = {}

    def refusal(self, row: int) -> Refusal:
        """The refusal of a row that a rule's demand keeps out."""
        compiled, truths = self._evaluation.compiled, self._evaluation.truths
        failing = tuple(
            number
            for number, (_, place, mask) in enumerate(compiled.demands)
            if mask[row] and not _at(truths[place][0], row)
        )
        if failing in self._known:
            return replace(self._known[failing], tool_id=compiled.tools[row].id)
        refusal = self._made(row, failing)
        if all(isinstance(truths[compiled.demands[number][1]][0], bool) for number in failing):
            self._known[failing] = refusal
        return refusal

    def _made(self, row: int, demands: Sequence[int]) -> Refusal:
        compiled = self._evaluation.compiled
        failing: dict[Condition, list[str]] = {}
        for number in demands:
            rule, place, _ = compiled.demands[number]
            failing.setdefault(compiled.nodes[place][0], []).append(rule.described())
        lack = _all([self._lack(condition, row) for condition in failing])
        say = clause if len(failing) > 1 else wording
        unmet = [self._detail(condition) for condition in dict.fromkeys(lack.conditions)]
        # What exactly went wrong is for whoever reads the detail, not for the model.
        wrong = "".join(
            f"; {one['predicate']!r} gives no answer" for one in unmet if "error" in one
        )
        return Refusal(
            compiled.tools[row].id,
            lack.kind,
            f"needs {' and '.join(map(say, failing))}{wrong}",
            self._ids(lack.unlocking),
            {"rules": [name for names in failing.values() for name in names], "unmet": unmet},
        )

    def _lack(self, condition: Condition, row: int) -> _Lack:
        if isinstance(condition, AllOf | AnyOf):
            parts = [
                self._lack(part, row) for part in condition.parts if not self._holds(part, row)
            ]
            return _all(parts) if isinstance(condition, AllOf) else _any(parts)
        return _Lack(self._kind(condition), (condition,), self._unlocking(condition))

    def _detail(self, condition: Condition) -> dict[str, Any]:
        """JSON form of a condition that does not hold."""
        form = to_form(condition)
        for name in _predicates(condition):
            if name in self._evaluation.errors:
                form |= {"predicate": name, "error": self._evaluation.errors[name]}
        if unlocked_by := self._ids(self._unlocking(condition)):
            form["unlocked_by"] = list(unlocked_by)
        return form

    def _ids(self, rows: NDArray[np.intp] | None) -> tuple[str, ...]:
        tools = self._evaluation.compiled.tools
        return () if rows is None else tuple(tools[row].id for row in rows[:UNLOCKING].tolist())

    def _kind(self, condition: Condition) -> str:
        if any(name in self._evaluation.errors for name in _predicates(condition)):
            return "predicate_error"
        if isinstance(condition, Not):
            return min(map(self._kind, simple(condition)), key=_HARDNESS.index)
        if isinstance(condition, Scope):
            return "scope"
        return "annotation" if isinstance(condition, Annotation) else "precondition"

    def _unlocking(self, condition: Condition) -> NDArray[np.intp] | None:
        """Rows of admitted tools that lead to a simple condition; None where there is none."""
        if condition not in self._leading:
            rows = self._evaluation.compiled.leading_to(condition)
            rows = None if rows is None else rows[self._admitted[rows]]
            self._leading[condition] = None if rows is None or not len(rows) else rows
        return self._leading[condition]

    def _holds(self, condition: Condition, row: int) -> bool:
        place = self._evaluation.compiled.places[condition]
        return _at(self._evaluation.truths[place][0], row)


def _all(lacks: list[_Lack]) -> _Lack:
    """What is lacking where everything is needed."""
    unlocking = [lack.unlocking for lack in lacks]
    return _Lack(
        max((lack.kind for lack in lacks), key=_HARDNESS.index),
        _conditions(lacks),
        None if any(rows is None for rows in unlocking) else _union(unlocking),
    )


def _any(lacks: list[_Lack]) -> _Lack:
    """What is lacking where one thing is enough."""
    return _Lack(
        min((lack.kind for lack in lacks), key=_HARDNESS.index),
        _conditions(lacks),
        _union(lack.unlocking for lack in lacks),
    )


def _union(found: Iterable[NDArray[np.intp] | None]) -> NDArray[np.intp] | None:
    rows = [one for one in found if one is not None]
    return np.array(list(dict.fromkeys(np.concatenate(rows).tolist())), np.intp) if rows else None


def _conditions(lacks: list[_Lack]) -> tuple[Condition, ...]:
    return tuple(condition for lack in lacks for condition in lack.conditions)


def _predicates(condition: Condition) -> list[str]:
    return [part.name for part in simple(condition) if isinstance(part, Predicate)]


def _at(values: Values, row: int) -> bool:
    return values if isinstance(values, bool) else bool(values[row])
