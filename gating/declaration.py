"""Reads rules from their form in TOML and JSON.

[gate]
scopes = ["github:write"]

[[gate.rules]]
name = "merging"
tools = "github/merge_*"
needs = { all_of = [{ scope = "github:write" }, { after = "github/get_*" }] }
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationError,
)

from ..errors import ConfigError
from ..sections import Section
from ..settings import joined
from .condition import Predicates, parse_condition
from .gate import Gate
from .problem import rule_problems
from .rule import Provides, Rule
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


class _Gate(_Declared):
    scopes: list[str] | None = None
    rules: list[dict[str, Any]] = Field(default_factory=list)


def read_gate(declared: Mapping[str, Any], predicates: Predicates | None = None) -> Gate:
    """A gate from its form in TOML or JSON.

    Args:
        declared: a mapping with `scopes` (all scope names that exist) and `rules`. Each rule may
            have `name`, `tools`, `server`, `annotations`, `needs` and `provides`. For `needs`, see
            `conditions`.
        predicates: functions by the name that conditions use. Other names are looked up in the
            entry points of the group `shortlist.predicate`.

    Raises:
        ConfigError: names the rule, what is wrong with it and what would be right.
    """
    given = _checked(_Gate, declared, "gate")
    rules = [_rule(row, f"gate.rules.{place}", predicates) for place, row in enumerate(given.rules)]
    return Gate(rules, scopes=given.scopes)


def _rule(row: Mapping[str, Any], place: str, predicates: Predicates | None) -> Rule:
    name = row.get("name")
    where = f"{place} ({name!r:.80})" if isinstance(name, str) else place
    given = _checked(_Rule, row, where)
    try:
        return Rule(
            None if given.needs is None else parse_condition(given.needs, predicates),
            tools=given.tools,
            server=given.server,
            annotations=given.annotations,
            provides=None if given.provides is None else Provides(**given.provides.model_dump()),
            name=given.name,
        )
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _checked(model: type[_Model], values: Any, where: str) -> _Model:
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where}: a table, not {type(values).__name__}")
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{where}: {joined(error)}") from None


def _setting(value: Any) -> Gate:
    gate = value if isinstance(value, Gate) else read_gate(value)
    if problems := rule_problems(gate):
        raise ConfigError("; ".join(f"gate: {problem}" for problem in problems))
    return gate


#: A gate as a setting of a `Config`: the object itself or its declaration.
GateSetting = Annotated[
    Gate, PlainValidator(_setting), PlainSerializer(Gate.to_dict, return_type=dict[str, Any])
]
