"""Problems of rules, found when they are loaded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ..pattern import Pattern
from .compiled import CompiledGate
from .condition import Condition, simple_conditions
from .conditions import After, AllOf, AnyOf
from .gate import Gate
from .rule import Rule


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a permission rule.

    Args:
        kind: `unknown_scope`, `after_nothing` or `concerns_nothing`; `docs/views.md` says what
            each means.
        rule: name or description of the rule.
        reason: one sentence.
        severity: `error` if the rule is wrong for every catalog, `warning` if it is wrong for the
            present one.
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
    return (*_idle(compiled), *_calls_of_nothing(compiled))


def _of_rule(rule: Rule, gate: Gate) -> Iterator[Problem]:
    needed = [] if rule.condition is None else list(simple_conditions(rule.condition))
    provided = [one for condition in needed if (one := condition.provided_by()) is not None]
    scopes = [name for kind, name in provided if kind == "scopes"]
    scopes += rule.provides.scopes if rule.provides else ()
    for scope in dict.fromkeys(scopes):
        if gate.scopes is not None and scope not in gate.scopes:
            known = ", ".join(sorted(gate.scopes)) or "none"
            yield Problem(
                "unknown_scope", rule.described(), f"no scope {scope!r}; use one of: {known}"
            )


def _idle(compiled: CompiledGate) -> Iterator[Problem]:
    reasons = {
        "condition": "it concerns no tool of the catalog",
        "provides": "what it provides, no tool of the catalog provides (letter case counts here)",
    }
    silent = {rule for rule, part in compiled.idle if part == "condition"}
    for rule, part in compiled.idle:
        if part == "condition" or rule not in silent:
            yield Problem("concerns_nothing", rule.described(), reasons[part], "warning")


def _calls_of_nothing(compiled: CompiledGate) -> Iterator[Problem]:
    """Conditions that cannot hold, because the catalog lacks the tool whose call they need."""
    reported: set[Pattern] = set()
    for rule, place, _ in compiled.demands:
        patterns = _missing_calls(compiled, compiled.nodes[place][0])
        if patterns and patterns[0] not in reported:
            reported.add(patterns[0])
            yield Problem(
                "after_nothing",
                rule.described(),
                f"it needs a call of {patterns[0].text!r}, but no matching tool is there",
                "warning",
            )


def _missing_calls(compiled: CompiledGate, condition: Condition) -> tuple[Pattern, ...]:
    """Patterns of needed calls that no tool matches; empty if the condition can do without."""
    if isinstance(condition, After):
        return () if compiled.meant(condition.pattern).any() else (condition.pattern,)
    parts = [_missing_calls(compiled, part) for part in condition.composed_of()]
    if isinstance(condition, AllOf) or (isinstance(condition, AnyOf) and all(parts)):
        return tuple(pattern for patterns in parts for pattern in patterns)
    return ()
