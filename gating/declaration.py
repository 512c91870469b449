"""Reads rules from their form in TOML and JSON, and finds their problems when they are loaded.

[gate]
scopes = ["github:write"]

[[gate.rules]]
name = "merging"
tools = "github/merge_*"
needs = { all_of = [{ scope = "github:write" }, { after = "github/get_*" }] }
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationError,
)

from ..catalog.pattern import Pattern
from ..errors import ConfigError
from ..sections import Section
from ..settings import validation_text
from .argument import read_tests
from .compiled_gate import CompiledGate
from .condition import Condition, parse_condition, simple_conditions
from .condition_kinds import After, AllOf, AnyOf
from .rules import Gate, Provides, Rule
from .state import Scalar

_Globs = str | list[str]
_Model = TypeVar("_Model", bound=BaseModel)


class _Declared(Section):
    model_config = ConfigDict(strict=True)


class _Provides(_Declared):
    scopes: list[str] = Field(default_factory=list)
    milestones: list[str] = Field(default_factory=list)
    facts: list[str] = Field(default_factory=list)


class _Rule(_Declared):
    name: str | None = None
    tools: _Globs | None = None
    server: _Globs | None = None
    annotations: dict[str, Scalar] | None = None
    needs: dict[str, Any] | None = None
    provides: _Provides | None = None
    when: dict[str, Any] | None = None
    approval: bool = False
    deny: bool = False


class _Gate(_Declared):
    scopes: list[str] | None = None
    rules: list[dict[str, Any]] = Field(default_factory=list)


def read_gate(declared: Mapping[str, Any]) -> Gate:
    """A gate from its form in TOML or JSON.

    Args:
        declared: a mapping with `scopes` (all scope names that exist) and `rules`. Each rule may
            have `name`, `tools`, `server`, `annotations`, `needs` and `provides`, or `when`,
            `approval` and `deny`. For `needs`, see `condition_kinds`; for `when`, `argument`.

    Raises:
        ConfigError: names the rule, what is wrong with it and what would be right.
    """
    gate_table = _checked(_Gate, declared, "gate")
    rules = [_rule(row, f"gate.rules.{place}") for place, row in enumerate(gate_table.rules)]
    return Gate(rules, scopes=gate_table.scopes)


def _rule(row: Mapping[str, Any], place: str) -> Rule:
    name = row.get("name")
    where = f"{place} ({name!r:.80})" if isinstance(name, str) else place
    rule_table = _checked(_Rule, row, where)
    try:
        return Rule(
            None if rule_table.needs is None else parse_condition(rule_table.needs),
            tools=rule_table.tools,
            server=rule_table.server,
            annotations=rule_table.annotations,
            provides=None
            if rule_table.provides is None
            else Provides(**rule_table.provides.model_dump()),
            when=() if rule_table.when is None else read_tests(rule_table.when),
            approval=rule_table.approval,
            deny=rule_table.deny,
            name=rule_table.name,
        )
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _checked(model: type[_Model], values: Any, where: str) -> _Model:
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where}: a table, not {type(values).__name__}")
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{where}: {validation_text(error)}") from None


def _setting(value: Any) -> Gate:
    if isinstance(value, Rule | list | tuple):
        raise ConfigError(
            f"gate: a Gate or its table, not {type(value).__name__}; write Gate([rule])"
        )
    gate = value if isinstance(value, Gate) else read_gate(value)
    if problems := rule_problems(gate):
        raise ConfigError("; ".join(f"gate: {problem}" for problem in problems))
    return gate


#: A gate as a setting of a `Config`: the object itself or its declaration.
GateSetting = Annotated[
    Gate, PlainValidator(_setting), PlainSerializer(Gate.to_dict, return_type=dict[str, Any])
]


@dataclass(frozen=True, slots=True)
class RuleProblem:
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


def rule_problems(gate: Gate) -> tuple[RuleProblem, ...]:
    """Problems of the rules in any catalog."""
    return tuple(problem for rule in gate.rules for problem in _unknown_scopes(rule, gate))


def catalog_problems(compiled: CompiledGate) -> tuple[RuleProblem, ...]:
    """Problems of the rules with one catalog version."""
    return (*_ineffective_rules(compiled), *_missing_call_problems(compiled))


def _unknown_scopes(rule: Rule, gate: Gate) -> Iterator[RuleProblem]:
    needed = [] if rule.condition is None else list(simple_conditions(rule.condition))
    provided = filter(None, (condition.provided_by() for condition in needed))
    scopes = [name for kind, name in provided if kind == "scopes"]
    scopes += rule.provides.scopes if rule.provides else ()
    for scope in dict.fromkeys(scopes):
        if gate.scopes is not None and scope not in gate.scopes:
            permitted = ", ".join(sorted(gate.scopes)) or "none"
            yield RuleProblem(
                "unknown_scope", rule.described(), f"no scope {scope!r}; use one of: {permitted}"
            )


def _ineffective_rules(compiled: CompiledGate) -> Iterator[RuleProblem]:
    reasons = {
        "condition": "it concerns no tool of the catalog",
        "calls": "it concerns no tool of the catalog",
        "provides": "what it provides, no tool of the catalog provides (letter case counts here)",
    }
    rules_with_problem = {rule for rule, part in compiled.idle_rules if part == "condition"}
    for rule, part in compiled.idle_rules:
        if part == "condition" or rule not in rules_with_problem:
            yield RuleProblem("concerns_nothing", rule.described(), reasons[part], "warning")


def _missing_call_problems(compiled: CompiledGate) -> Iterator[RuleProblem]:
    """Conditions that cannot hold, because the catalog lacks the tool whose call they need."""
    reported: set[Pattern] = set()
    for rule, condition_place, _ in compiled.demands:
        patterns = _missing_calls(compiled, compiled.conditions[condition_place])
        if patterns and patterns[0] not in reported:
            reported.add(patterns[0])
            yield RuleProblem(
                "after_nothing",
                rule.described(),
                f"it needs a call of {patterns[0].text!r}, but no matching tool is there",
                "warning",
            )


def _missing_calls(compiled: CompiledGate, condition: Condition) -> tuple[Pattern, ...]:
    """Patterns of required calls that no tool matches; empty if it can hold without them."""
    if isinstance(condition, After):
        return () if compiled.rows_matching(condition.pattern).any() else (condition.pattern,)
    parts = [_missing_calls(compiled, part) for part in condition.composed_of()]
    if isinstance(condition, AllOf) or (isinstance(condition, AnyOf) and all(parts)):
        return tuple(pattern for patterns in parts for pattern in patterns)
    return ()
