"""State: scopes, calls, milestones and facts of an agent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Self

from ..errors import RequestError

Scalar = str | bool | int | float


@dataclass(frozen=True, slots=True)
class State:
    """The scopes, calls, milestones and facts of an agent, on which permissions depend.

    Immutable; the methods return a changed copy. By default everything is empty.

    Args:
        scopes: granted scopes.
        called: ids of the tools called successfully, each once, in order of the first call.
        milestones: milestones reached.
        facts: name to a text, a number or a boolean.
        unknown: ids of the tools with a call whose outcome is unknown: it was cancelled, timed out
            or lost. Such a call unlocks nothing, and counts where a rule permits one call only.

    Raises:
        RequestError: a value of the wrong type.

    Example:
        >>> from shortlist import State
        >>> state = State(scopes={"mail:send"}, facts={"plan": "free"})
        >>> sorted(state.granted("mail:read").scopes)
        ['mail:read', 'mail:send']
    """

    scopes: frozenset[str] = frozenset()
    called: tuple[str, ...] = ()
    milestones: frozenset[str] = frozenset()
    facts: Mapping[str, Scalar] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    def __init__(
        self,
        scopes: Iterable[str] = (),
        called: Iterable[str] = (),
        milestones: Iterable[str] = (),
        facts: Mapping[str, Scalar] = MappingProxyType({}),
        unknown: Iterable[str] = (),
    ) -> None:
        object.__setattr__(self, "scopes", frozenset(_texts("scopes", scopes)))
        object.__setattr__(self, "called", tuple(dict.fromkeys(_texts("called", called))))
        object.__setattr__(self, "milestones", frozenset(_texts("milestones", milestones)))
        object.__setattr__(self, "facts", MappingProxyType(_facts(facts)))
        object.__setattr__(self, "unknown", tuple(dict.fromkeys(_texts("unknown", unknown))))

    def __hash__(self) -> int:
        facts = frozenset(self.facts.items())
        return hash((self.scopes, self.called, self.milestones, facts, self.unknown))

    def __reduce__(self) -> tuple[Any, ...]:
        return State.from_dict, (self.to_dict(),)

    def after_call(self, tool_id: str) -> Self:
        """A copy in which this tool was called.

        Example:
            >>> from shortlist import State
            >>> State().after_call("mail/send").called
            ('mail/send',)
        """
        return self if tool_id in self.called else replace(self, called=(*self.called, tool_id))

    def after_unknown_outcome(self, tool_id: str) -> Self:
        """A copy in which this tool was perhaps called.

        Example:
            >>> from shortlist import State
            >>> State().after_unknown_outcome("mail/send").unknown
            ('mail/send',)
        """
        return self if tool_id in self.unknown else replace(self, unknown=(*self.unknown, tool_id))

    def granted(self, *scopes: str) -> Self:
        """A copy with these scopes added.

        Example:
            >>> from shortlist import State
            >>> State().granted("mail:send").scopes
            frozenset({'mail:send'})
        """
        return replace(self, scopes=self.scopes.union(_texts("scopes", scopes)))

    def reached(self, *milestones: str) -> Self:
        """A copy with these milestones added.

        Example:
            >>> from shortlist import State
            >>> State().reached("confirmed").milestones
            frozenset({'confirmed'})
        """
        return replace(self, milestones=self.milestones.union(_texts("milestones", milestones)))

    def knowing(self, **facts: Scalar) -> Self:
        """A copy with these facts added; they replace facts of the same name.

        Example:
            >>> from shortlist import State
            >>> State(facts={"plan": "free"}).knowing(plan="paid").facts["plan"]
            'paid'
        """
        return replace(self, facts={**self.facts, **facts})

    def __repr__(self) -> str:
        given = (f"{name}={value!r}" for name, value in self.to_dict().items() if value)
        return f"State({', '.join(given)})"

    def continuing(self, before: State) -> Self:
        """A copy with the calls and milestones of an earlier state added.

        Example:
            >>> from shortlist import State
            >>> State(scopes={"mail:send"}).continuing(State(called=["mail/read"])).called
            ('mail/read',)
        """
        if not isinstance(before, State):
            raise RequestError(f"before: a State, not {type(before).__name__}")
        return replace(
            self,
            called=(*before.called, *self.called),
            milestones=self.milestones | before.milestones,
            unknown=(*before.unknown, *self.unknown),
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "scopes": sorted(self.scopes),
            "called": list(self.called),
            "milestones": sorted(self.milestones),
            "facts": dict(self.facts),
            "unknown": list(self.unknown),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """A state from its JSON form. Absent keys are empty.

        Raises:
            RequestError: an unknown key, or a value of the wrong type.
        """
        if not isinstance(values, Mapping):
            raise RequestError(f"state: a mapping, not {type(values).__name__}")
        permitted = [field.name for field in fields(cls)]
        if unknown := [str(key) for key in values if key not in permitted]:
            raise RequestError(
                f"state: no {', '.join(unknown)[:80]}; use one of: {', '.join(permitted)}"
            )
        return cls(**values)


def _texts(field_name: str, values: Iterable[str]) -> list[str]:
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise RequestError(f"state.{field_name}: a list of texts, not {values!r:.80}")
    texts = list(values)
    if bad := [value for value in texts if not (isinstance(value, str) and value)]:
        raise RequestError(f"state.{field_name}: {bad[0]!r:.80} is no text, or an empty one")
    return texts


def _facts(values: Mapping[str, Scalar]) -> dict[str, Scalar]:
    if not isinstance(values, Mapping):
        raise RequestError(f"state.facts: a mapping, not {values!r:.80}")
    for name, value in values.items():
        if not (isinstance(name, str) and name):
            raise RequestError(f"state.facts: {name!r:.80} is no name")
        if not is_scalar(value):
            raise RequestError(
                f"state.facts.{name}: a text, a finite number or a truth value, not {value!r:.80}"
            )
    return dict(values)


def is_scalar(value: object) -> bool:
    """Whether a fact may have this value."""
    return isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


def json_key(value: Scalar) -> tuple[bool, Scalar]:
    """Key under which two values compare equal in JSON."""
    return isinstance(value, bool), value
