"""Why the rules deny a tool, and which permitted tools unlock it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..retrieval.refusal import Refusal
from .catalog_gate import GateEvaluation
from .condition import (
    REFUSAL_KINDS,
    After,
    AllOf,
    AnyOf,
    Condition,
    Mask,
    Not,
    Several,
    simple_conditions,
)
from .matcher import Rows
from .rules import Rule

#: Maximum number of ids in `Refusal.unlocked_by`.
MAX_UNLOCKING_IDS = 5
_HIDDEN = "a tool that you may not use"
#: What models and callers read of a failed condition. The text of its exception is in the log only.
_NO_ANSWER = "gives no answer; the log says why"


@dataclass(frozen=True, slots=True)
class _Lack:
    """Why a condition does not hold.

    Args:
        kind: kind of the refusal.
        conditions: the simple conditions that do not hold.
        unlocking_rows: rows of permitted tools whose call makes it hold; None if calls are not
            enough.
    """

    kind: str
    conditions: tuple[Condition, ...]
    unlocking_rows: Rows | None


class Reasons:
    """The reasons for which rules deny tools to one caller.

    Args:
        evaluation: the gate's conditions in the agent's state.
        admitted: permitted rows, shape (n,).
    """

    def __init__(self, evaluation: GateEvaluation, admitted: Mask) -> None:
        self._evaluation = evaluation
        self._admitted = admitted
        # Numbers of failing demands to their refusal, if they fail for every tool alike.
        self._cached: dict[tuple[int, ...], Refusal] = {}

    def refusal(self, row: int) -> Refusal:
        """The refusal of a row that a rule denies."""
        gate, evaluation = self._evaluation.gate, self._evaluation
        failing: dict[Condition, list[str]] = {}
        numbers: list[int] = []
        for number, (rule, rows) in enumerate(gate.demands):
            condition = rule.condition
            if condition is not None and rows[row] and not evaluation.holds(condition, row):
                failing.setdefault(condition, []).append(rule.described())
                numbers.append(number)
        key = tuple(numbers)
        if key in self._cached:
            return replace(self._cached[key], tool_id=gate.tools[row].id)
        refusal = self._build_refusal(row, failing)
        if all(isinstance(evaluation.truth(condition)[0], bool) for condition in failing):
            self._cached[key] = refusal
        return refusal

    def _build_refusal(self, row: int, failing: Mapping[Condition, Sequence[str]]) -> Refusal:
        lack = _lack_of_all([self._find_lack(condition, row) for condition in failing])
        unmet = dict.fromkeys(lack.conditions)
        unanswered = dict.fromkeys(
            part.label() for condition in unmet for part in self._unanswered(condition)
        )
        error_note = "".join(f"; {label!r} gives no answer" for label in unanswered)
        lost_ids = self._unknown_outcomes(failing)
        if lost_ids:
            error_note += f"; the outcome of an earlier call of {', '.join(lost_ids)} is not known"
        needs = " and ".join(
            condition.clause() if len(failing) > 1 else condition.describe()
            for condition in failing
        )
        return Refusal(
            self._evaluation.gate.tools[row].id,
            lack.kind,
            f"needs {self._without_hidden_ids(needs, failing)}{error_note}",
            self._ids(lack.unlocking_rows),
            {
                "rules": [name for names in failing.values() for name in names],
                "unmet": [self._condition_detail(condition) for condition in unmet],
            },
        )

    def _find_lack(self, condition: Condition, row: int) -> _Lack:
        if isinstance(condition, AllOf | AnyOf):
            parts = [
                self._find_lack(part, row)
                for part in condition.parts
                if not self._evaluation.holds(part, row)
            ]
            return _lack_of_all(parts) if isinstance(condition, AllOf) else _lack_of_any(parts)
        return _Lack(self._refusal_kind(condition), (condition,), self._unlocking_rows(condition))

    def _condition_detail(self, condition: Condition) -> dict[str, Any]:
        """JSON form of a condition that does not hold."""
        form = self._form_without_hidden_ids(condition)
        for part in self._unanswered(condition):
            form |= {**part.to_dict(), "error": _NO_ANSWER}
        if unlocked_by := self._ids(self._unlocking_rows(condition)):
            form["unlocked_by"] = list(unlocked_by)
        return form

    def _form_without_hidden_ids(self, condition: Condition) -> dict[str, Any]:
        """JSON form of a condition without patterns that match only denied tools."""
        if isinstance(condition, Not):
            return {condition.key: self._form_without_hidden_ids(condition.part)}
        if isinstance(condition, Several):
            return {condition.key: list(map(self._form_without_hidden_ids, condition.parts))}
        form = condition.to_dict()
        if self._names_hidden(condition):
            form["after"] = _HIDDEN
        return form

    def _without_hidden_ids(self, text: str, conditions: Iterable[Condition]) -> str:
        """The reason without patterns that match only denied tools, because these may be ids.

        The model cannot call such a tool, so it does not need the pattern.
        """
        for condition in conditions:
            for part in simple_conditions(condition):
                if isinstance(part, After) and self._names_hidden(part):
                    text = text.replace(part.describe(), f"an earlier call of {_HIDDEN}")
                    text = text.replace(part.describe_negated(), f"no earlier call of {_HIDDEN}")
        return text

    def _names_hidden(self, condition: Condition) -> bool:
        """Whether a condition requires a call, and all tools that match are denied."""
        if not isinstance(condition, After) or self._unlocking_rows(condition) is not None:
            return False
        rows = self._evaluation.gate.rows_unlocking(condition)
        return rows is not None and len(rows) > 0

    def _ids(self, rows: Rows | None) -> tuple[str, ...]:
        tools = self._evaluation.gate.tools
        return (
            ()
            if rows is None
            else tuple(tools[row].id for row in rows[:MAX_UNLOCKING_IDS].tolist())
        )

    def _refusal_kind(self, condition: Condition) -> str:
        if self._unanswered(condition):
            return "predicate_error"
        return min((part.refusal for part in simple_conditions(condition)), key=REFUSAL_KINDS.index)

    def _unanswered(self, condition: Condition) -> list[Condition]:
        """Its simple conditions whose evaluation failed."""
        failed = self._evaluation.failed_conditions
        return [part for part in simple_conditions(condition) if part in failed] if failed else []

    def _unknown_outcomes(self, conditions: Iterable[Condition]) -> list[str]:
        """Ids of the tools with a lost call on which these conditions depend.

        The agent called them, so that they are not hidden from it.
        """
        uncertain = self._evaluation.uncertain
        tool_ids: dict[str, None] = {}
        for condition in conditions if uncertain else ():
            for part in simple_conditions(condition):
                key = part.pattern if isinstance(part, After) else getattr(part, "name", None)
                tool_ids |= dict.fromkeys(uncertain.get(key, ()) if key is not None else ())
        return list(tool_ids)

    def _unlocking_rows(self, condition: Condition) -> Rows | None:
        """Rows of permitted tools whose call makes a simple condition hold.

        None if there are none.
        """
        rows = self._evaluation.gate.rows_unlocking(condition)
        rows = None if rows is None else rows[self._admitted[rows]]
        return None if rows is None or not len(rows) else rows


def call_refusal(tool_id: str, rules: Sequence[Rule], arguments: Mapping[str, Any]) -> Refusal:
    """Why rules about single calls stop a call. It names the arguments, never their values.

    Args:
        tool_id: id of the tool.
        rules: the rules that stop it, at least one; all of them deny, or all ask for approval.
        arguments: the arguments of the call.
    """
    tests = {test.name: test for rule in rules for test in rule.when}
    named = ", ".join(map(repr, tests))
    unread = [name for name, test in tests.items() if test.holds(arguments) is None]
    reason = "a rule denies it" if rules[0].deny else "it needs a person's approval"
    if named:
        reason += f" because of the argument{'s' * (len(tests) > 1)} {named}"
    if unread:
        reason += f" ({', '.join(map(repr, unread))}: missing, or not of the type that is tested)"
    kind = "argument" if rules[0].deny else "approval"
    detail = {"rules": [rule.described() for rule in rules], "arguments": list(tests)}
    return Refusal(tool_id, kind, reason, (), detail)


def approval_refusal(tool_id: str, reason: str) -> Refusal:
    """The refusal of a call that needs a person's approval, and does not have it."""
    return Refusal(tool_id, "approval", reason)


def _lack_of_all(lacks: list[_Lack]) -> _Lack:
    """The reasons if all conditions are required."""
    unlocking_rows = [lack.unlocking_rows for lack in lacks]
    return _Lack(
        max((lack.kind for lack in lacks), key=REFUSAL_KINDS.index),
        _conditions(lacks),
        None if any(rows is None for rows in unlocking_rows) else _union_of_rows(unlocking_rows),
    )


def _lack_of_any(lacks: list[_Lack]) -> _Lack:
    """The reasons if one condition is enough."""
    return _Lack(
        min((lack.kind for lack in lacks), key=REFUSAL_KINDS.index),
        _conditions(lacks),
        _union_of_rows(lack.unlocking_rows for lack in lacks),
    )


def _union_of_rows(row_lists: Iterable[Rows | None]) -> Rows | None:
    present = [rows for rows in row_lists if rows is not None]
    if not present:
        return None
    return np.array(list(dict.fromkeys(np.concatenate(present).tolist())), np.intp)


def _conditions(lacks: list[_Lack]) -> tuple[Condition, ...]:
    return tuple(condition for lack in lacks for condition in lack.conditions)
