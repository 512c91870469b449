"""Permission rules, what calls provide, and the gate: all rules of an engine.

In TOML:

[gate]
scopes = ["github:write"]

[[gate.rules]]
name = "merging"
tools = "github/merge_*"
needs = { all_of = [{ scope = "github:write" }, { after = "github/get_*" }] }
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator

from ..catalog.pattern import Pattern
from ..errors import ConfigError
from .argument import ArgumentTest, read_tests
from .condition import Annotation, Condition, parse_condition, simple_conditions
from .state import Scalar

#: What a call may provide; the fields of `Provides`.
FIELDS_OF_PROVIDES = ("scopes", "milestones", "facts")


@dataclass(frozen=True, slots=True)
class Provides:
    """The scopes, milestones and facts that a successful call of a tool gives the agent.

    Args:
        scopes: scopes that may be granted after a call.
        milestones: milestones that a call reaches.
        facts: names of facts that are known after a call.

    Raises:
        ConfigError: a value is not a list of names.

    Example:
        >>> from shortlist.gating import Provides, Rule
        >>> rule = Rule(tools="planner/confirm", provides=Provides(milestones=["confirmed"]))
        >>> rule.to_dict()["provides"]
        {'milestones': ['confirmed']}
    """

    scopes: tuple[str, ...] = ()
    milestones: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()

    def __init__(
        self,
        scopes: Iterable[str] = (),
        milestones: Iterable[str] = (),
        facts: Iterable[str] = (),
    ) -> None:
        for kind, names in zip(FIELDS_OF_PROVIDES, (scopes, milestones, facts), strict=True):
            object.__setattr__(self, kind, _names(f"provides.{kind}", names))

    def to_dict(self) -> dict[str, Any]:
        """JSON form, without empty fields."""
        return {kind: list(names) for kind in FIELDS_OF_PROVIDES if (names := getattr(self, kind))}


class Rule:
    """A permission rule for some tools; immutable.

    It has a condition of the tools, or what a call of them provides, or both. Or it has `approval`
    or `deny`, for single calls, by the arguments that `when` names.

    `tools`, `server` and `annotations` are selectors. A rule concerns the tools that all of its
    selectors match; without selectors, every tool. For the condition, `tools` and `server` ignore
    letter case and character width. For `provides`, they match exactly.

    Args:
        condition: condition that must hold; None for a rule that only has `provides`.
        tools: one glob or several, see `Pattern`.
        server: one glob or several over the names of servers.
        annotations: name to value, as in `Annotation`. All must match.
        provides: what a successful call of one of these tools provides.
        when: tests of arguments, made with `argument`, which all must pass. A call whose argument
            is missing, or of another type than a test needs, counts as one that passes.
        approval: whether a person has to approve each call, or with `when`, such a call.
        deny: whether such a call is denied.
        name: name of the rule in reports and refusals.

    Raises:
        ConfigError: a selector is empty, the rule says nothing or mixes conditions with `approval`
            or `deny`, or an argument is of the wrong type.

    Example:
        >>> from shortlist.gating import Rule, requires_scope
        >>> Rule(requires_scope("mail:send"), tools="mail/send_*")
        Rule(for tools mail/send_*, Scope(name='mail:send'))
        >>> from shortlist.gating import argument
        >>> Rule(tools="bank/pay", when=argument("amount", above=100), approval=True)
        Rule(for tools bank/pay, approval)
    """

    def __init__(
        self,
        condition: Condition | None = None,
        *,
        tools: str | Iterable[str] | None = None,
        server: str | Iterable[str] | None = None,
        annotations: Mapping[str, Scalar] | None = None,
        provides: Provides | None = None,
        when: ArgumentTest | Iterable[ArgumentTest] = (),
        approval: bool = False,
        deny: bool = False,
        name: str | None = None,
    ) -> None:
        self.name = name
        self.condition = condition
        self.tools = _patterns("tools", tools)
        self.server = _patterns("server", server)
        if not isinstance(annotations, Mapping | None):
            raise ConfigError(
                f"annotations: a mapping of name to value, not {type(annotations).__name__}"
            )
        self.annotations = tuple(
            Annotation(hint, value) for hint, value in (annotations or {}).items()
        )
        self.provides = provides
        self.when = _tests(when)
        self.approval = approval
        self.deny = deny
        self._check()

    def _check(self) -> None:
        if not isinstance(self.approval, bool) or not isinstance(self.deny, bool):
            raise ConfigError("approval, deny: True or False")
        if self.condition is not None and not isinstance(self.condition, Condition):
            got = f"{self.condition!r:.80}"
            named = f"; to name tools: tools={got}" if isinstance(self.condition, str) else ""
            raise ConfigError(
                f"condition: {got} is no condition, as requires_scope('admin') is{named}"
            )
        if self.concerns_single_calls:
            self._check_single_calls()
        elif self.condition is None and self.provides is None:
            raise ConfigError(
                "a rule needs a condition, or what its tools provide, or `approval` or `deny`"
            )
        if not isinstance(self.provides, Provides | None):
            got = type(self.provides).__name__
            raise ConfigError(f"provides: Provides(scopes=..., milestones=...), not {got}")
        if not isinstance(self.name, str | None):
            raise ConfigError(f"name: a text, not {type(self.name).__name__}")
        if self.provides is not None and self.tools is None and self.server is None:
            raise ConfigError("`provides` needs `tools` or `server`: it cannot be for every tool")

    @property
    def concerns_single_calls(self) -> bool:
        """Whether it is read when a call is checked, and never by a search or a view."""
        return self.approval or self.deny or bool(self.when)

    def _check_single_calls(self) -> None:
        if self.approval == self.deny:
            raise ConfigError("a rule with `when` needs either `approval` or `deny`")
        if self.deny and not self.when:
            raise ConfigError(
                "`deny` needs `when`; to deny every call of a tool, leave it out of `allowed` (in "
                "a gateway's file: of a profile's `tools`; or for all profiles, write "
                '`"tools": {"deny": [NAME]}` in the entry of its server), or give the rule a '
                "condition such as a scope"
            )
        if self.condition is not None or self.provides is not None:
            raise ConfigError(
                "a rule with `approval` or `deny` has no condition and no `provides`: write two "
                "rules, which both hold"
            )

    def to_dict(self) -> dict[str, Any]:
        """JSON form, without fields that are not set."""
        form: dict[str, Any] = {
            "name": self.name,
            "tools": self.tools and [pattern.text for pattern in self.tools],
            "server": self.server and [pattern.text for pattern in self.server],
            "annotations": {hint.name: hint.value for hint in self.annotations},
            "needs": self.condition and self.condition.to_dict(),
            "provides": self.provides and self.provides.to_dict(),
            "when": {test.name: test.to_dict() for test in self.when},
            "approval": self.approval,
            "deny": self.deny,
        }
        return {key: value for key, value in form.items() if value}

    def described(self) -> str:
        """The name of the rule, or a description of the tools it applies to.

        Example:
            >>> from shortlist.gating import Rule, milestone
            >>> Rule(milestone("confirmed"), tools="*/delete_*").described()
            'for tools */delete_*'
        """
        if self.name:
            return self.name
        chosen = [
            f"{kind} {', '.join(pattern.text for pattern in patterns)}"
            for kind, patterns in (("tools", self.tools), ("server", self.server))
            if patterns
        ]
        chosen += [f"{hint.name} {hint.value}" for hint in self.annotations]
        return f"for {'; '.join(chosen) or 'every tool'}"

    def may_concern(self, server: str) -> bool:
        """Whether the rule may apply to other things of a server, such as resources.

        Args:
            server: name of the server; letter case and character width are ignored.

        Example:
            >>> from shortlist.gating import Rule, milestone
            >>> rule = Rule(milestone("confirmed"), server="github")
            >>> rule.may_concern("GitHub"), rule.may_concern("mail")
            (True, False)
        """
        if self.annotations:
            return False
        if self.server is not None and not any(glob.denies(server) for glob in self.server):
            return False
        return self.tools is None or any(
            pattern.matches_names or Pattern(pattern.text.rpartition("/")[0] or "*").denies(server)
            for pattern in self.tools
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rule) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        if self.concerns_single_calls:
            return f"Rule({self.described()}, {'approval' if self.approval else 'deny'})"
        return f"Rule({self.described()}, {self.condition!r})"


def _patterns(field: str, globs: str | Iterable[str] | None) -> tuple[Pattern, ...] | None:
    if globs is None:
        return None
    if not isinstance(globs, Iterable) or isinstance(globs, Mapping):
        raise ConfigError(f"{field}: a pattern or a list of them, not {globs!r:.80}")
    texts = [globs] if isinstance(globs, str) else list(globs)
    if not texts:
        raise ConfigError(f"{field}: an empty list concerns no tool; leave it out for every tool")
    try:
        return tuple(Pattern(text) for text in texts)
    except ConfigError as error:
        raise ConfigError(f"{field}: {error}") from None


def _tests(when: ArgumentTest | Iterable[ArgumentTest]) -> tuple[ArgumentTest, ...]:
    tests = (when,) if isinstance(when, ArgumentTest) else when
    if isinstance(tests, Mapping | str) or not isinstance(tests, Iterable):
        raise ConfigError(f"when: argument('amount', above=100), not {tests!r:.80}")
    tests = tuple(tests)
    for test in tests:
        if not isinstance(test, ArgumentTest):
            raise ConfigError(f"when: argument('amount', above=100), not {test!r:.80}")
    names = [test.name for test in tests]
    if len(set(names)) < len(names):
        raise ConfigError("when: one argument twice; give its tests together, or write two rules")
    return tests


def _names(field: str, values: Iterable[str]) -> tuple[str, ...]:
    is_list = isinstance(values, Iterable) and not isinstance(values, str | Mapping)
    names = tuple(values) if is_list else None
    if names is None or not all(isinstance(name, str) and name.strip() for name in names):
        raise ConfigError(f"{field}: a list of names, not {values!r:.80}")
    return names


class Gate:
    """All permission rules of an engine; immutable.

    A tool is permitted if the condition of every rule that concerns it holds. A tool that no rule
    concerns is permitted. `CatalogGate` applies the rules to a catalog version.

    Args:
        rules: the rules. Refusals name them in this order.
        scopes: all scope names that exist; a rule with another name is then an error. None permits
            any name.

    Raises:
        ConfigError: `rules` is no list of rules, `scopes` no list of names, or a rule has a scope
            that is not among them.

    Example:
        >>> from shortlist import Engine, Gate, Rule, Tool
        >>> from shortlist.gating import requires_scope
        >>> gate = Gate([Rule(requires_scope("mail:send"), tools="mail/send_*")])
        >>> engine = Engine.from_tools([Tool("send_mail", "mail")], gate=gate, tiers=["lexical"])
        >>> engine.view().refusal("mail/send_mail").reason
        "needs the scope 'mail:send'"
    """

    __slots__ = ("rules", "scopes")

    def __init__(self, rules: Iterable[Rule] = (), *, scopes: Iterable[str] | None = None) -> None:
        if isinstance(rules, str | Mapping) or not isinstance(rules, Iterable):
            advice = "; write Gate([rule])" if isinstance(rules, Rule) else ""
            raise ConfigError(f"gate: a list of rules, not {type(rules).__name__}{advice}")
        self.rules = tuple(rules)
        if bad := [rule for rule in self.rules if not isinstance(rule, Rule)]:
            raise ConfigError(f"gate: {bad[0]!r:.80} is no Rule")
        self.scopes = None if scopes is None else frozenset(_names("gate: scopes", scopes))
        if self.scopes is not None:
            for rule in self.rules:
                _check_scopes(rule, self.scopes)

    def to_dict(self) -> dict[str, Any]:
        """JSON form, which `read_gate` reads."""
        rules = {"rules": [rule.to_dict() for rule in self.rules]}
        return rules if self.scopes is None else {"scopes": sorted(self.scopes), **rules}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Gate):
            return NotImplemented
        return (self.rules, self.scopes) == (other.rules, other.scopes)

    def __hash__(self) -> int:
        return hash((self.rules, self.scopes))

    def __repr__(self) -> str:
        return f"Gate({len(self.rules)} rules)"


def _check_scopes(rule: Rule, scopes: frozenset[str]) -> None:
    """ConfigError if a rule needs or provides another scope than these."""
    conditions = [] if rule.condition is None else simple_conditions(rule.condition)
    provided = filter(None, (condition.provided_by() for condition in conditions))
    named = [name for kind, name in provided if kind == "scopes"]
    named += rule.provides.scopes if rule.provides else ()
    for scope in named:
        if scope not in scopes:
            permitted = ", ".join(sorted(scopes)) or "none"
            raise ConfigError(
                f"gate: rule {rule.described()!r}: no scope {scope!r}; use one of: {permitted}"
            )


_RULE_KEYS = tuple("name tools server annotations needs provides when approval deny".split())


def read_gate(declared: object) -> Gate:
    """A gate from its form in TOML or JSON.

    Args:
        declared: a mapping with `scopes` (all scope names that exist) and `rules`. Each rule may
            have `name`, `tools`, `server`, `annotations`, `needs` and `provides`, or `when`,
            `approval` and `deny`. For `needs`, see `condition`; for `when`, `argument`.

    Raises:
        ConfigError: names the rule, what is wrong with it and what would be right.
    """
    table = _table("gate", declared, ("scopes", "rules"))
    rows = table.get("rules", [])
    if not isinstance(rows, list | tuple):
        raise ConfigError(f"gate: rules: a list of tables, not {rows!r:.80}")
    rules = [_read_rule(row, f"gate.rules.{place}") for place, row in enumerate(rows)]
    return Gate(rules, scopes=table.get("scopes"))


def _read_rule(row: object, place: str) -> Rule:
    fields = _table(place, row, _RULE_KEYS)
    name, needs, provides = (fields.pop(key, None) for key in ("name", "needs", "provides"))
    when = fields.pop("when", None)
    where = f"{place} ({name!r:.80})" if isinstance(name, str) else place
    try:
        if provides is not None:
            provides = Provides(**_table("provides", provides, FIELDS_OF_PROVIDES, "."))
        return Rule(
            None if needs is None else parse_condition(needs),
            name=name,
            provides=provides,
            when=() if when is None else read_tests(when),
            **fields,
        )
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _table(
    where: str, value: object, keys: tuple[str, ...], separator: str = ": "
) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: a table, not {type(value).__name__}")
    for key in value:
        if key not in keys:
            listed = ", ".join(keys)
            raise ConfigError(
                f"{where}{separator}{key!s:.80}: unknown setting; use one of: {listed}"
            )
    return dict(value)


def _gate_setting(value: Any) -> Gate:
    if isinstance(value, Rule | list | tuple):
        got = type(value).__name__
        raise ConfigError(f"gate: a Gate or its table, not {got}; write Gate([rule])")
    return value if isinstance(value, Gate) else read_gate(value)


#: A gate as a setting of a `Config`: the object itself or its table.
GateSetting = Annotated[
    Gate, PlainValidator(_gate_setting), PlainSerializer(Gate.to_dict, return_type=dict[str, Any])
]
