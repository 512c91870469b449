"""Every rule of an engine, declared once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..errors import ConfigError
from .rule import Rule


class Gate:
    """All permission rules of an engine; immutable.

    A tool is permitted if the condition of every rule that concerns it holds, and if no rule
    concerns it. `CompiledGate` applies the rules to a catalog version.

    Args:
        rules: the rules. Refusals name them in this order.
        scopes: all scope names that exist; a rule with another name is then an error. None permits
            any name.

    Raises:
        ConfigError: an item is not a rule.

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
        self.rules = tuple(rules)
        if bad := [rule for rule in self.rules if not isinstance(rule, Rule)]:
            raise ConfigError(f"gate: {bad[0]!r:.80} is no Rule")
        if isinstance(scopes, str):
            raise ConfigError(f"gate: scopes: a list of names, not the text {scopes!r:.80}")
        self.scopes = None if scopes is None else frozenset(scopes)

    def to_dict(self) -> dict[str, Any]:
        """JSON form, read by `gating.declaration`."""
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
