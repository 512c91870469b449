"""What a rule may ask of the agent's state and of a tool's annotations.

Conditions are values: compared, hashed and composed. `compiled` holds them against a state, `form`
writes and reads them, `wording` says them. Make them with the functions at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..errors import ConfigError
from .pattern import Pattern
from .state import Scalar, State, is_scalar


class Condition:
    """Something that must hold before a tool may be used."""

    __slots__ = ()

    def composed_of(self) -> tuple[Condition, ...]:
        """The conditions it is made of; none for a simple one."""
        return ()


@dataclass(frozen=True, slots=True)
class Scope(Condition):
    """The agent was granted a scope."""

    name: str

    def __post_init__(self) -> None:
        _check_name("scope", self.name)


@dataclass(frozen=True, slots=True)
class After(Condition):
    """A tool that the pattern means was called."""

    pattern: Pattern


@dataclass(frozen=True, slots=True)
class Milestone(Condition):
    """The agent reached a milestone."""

    name: str

    def __post_init__(self) -> None:
        _check_name("milestone", self.name)


@dataclass(frozen=True, slots=True)
class Fact(Condition):
    """A fact is known and not false; or it has the value asked for.

    Values are compared as JSON compares them: the number 1 is not the truth value `true`.
    """

    name: str
    equals: Scalar | None = field(default=None, compare=False)
    key: tuple[bool, Scalar] | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_name("fact", self.name)
        if self.equals is not None:
            _check_value(f"fact {self.name!r}: equals", self.equals)
        object.__setattr__(self, "key", None if self.equals is None else json_key(self.equals))


@dataclass(frozen=True, slots=True)
class Annotation(Condition):
    """The tool's server annotates it so; for what MCP defines, its defaults count as said.

    The hints of MCP are `readOnlyHint`, `destructiveHint`, `idempotentHint` and `openWorldHint`.
    They are the server's own word: a condition can be no safer than the server is honest.
    """

    name: str
    value: Scalar = field(default=True, compare=False)
    key: tuple[bool, Scalar] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_name("annotation", self.name)
        _check_value(f"annotation {self.name!r}: value", self.value)
        object.__setattr__(self, "key", json_key(self.value))


@dataclass(frozen=True, slots=True)
class Predicate(Condition):
    """A function of the state says `True`; one that raises, or says neither, permits nothing."""

    name: str
    function: Callable[[State], bool]

    def __post_init__(self) -> None:
        _check_name("predicate", self.name)
        if not callable(self.function):
            raise ConfigError(f"predicate {self.name!r}: {self.function!r:.80} is no function")


@dataclass(frozen=True, slots=True)
class AllOf(Condition):
    """Every part holds."""

    parts: tuple[Condition, ...]

    def __post_init__(self) -> None:
        _check_parts("all_of", self.parts)

    def composed_of(self) -> tuple[Condition, ...]:
        """The parts."""
        return self.parts


@dataclass(frozen=True, slots=True)
class AnyOf(Condition):
    """At least one part holds."""

    parts: tuple[Condition, ...]

    def __post_init__(self) -> None:
        _check_parts("any_of", self.parts)

    def composed_of(self) -> tuple[Condition, ...]:
        """The parts."""
        return self.parts


@dataclass(frozen=True, slots=True)
class Not(Condition):
    """The part fails."""

    part: Condition

    def __post_init__(self) -> None:
        _check_parts("not_", (self.part,))

    def composed_of(self) -> tuple[Condition, ...]:
        """The one part."""
        return (self.part,)


def requires_scope(*scopes: str) -> Condition:
    """The agent was granted every one of these scopes.

    Raises:
        ConfigError: no scope, or one that is no text.
    """
    return all_of(*(Scope(scope) for scope in scopes))


def after(pattern: str) -> Condition:
    """A tool that the glob means (see `Pattern`) was called.

    Raises:
        ConfigError: no such pattern.
    """
    return After(Pattern(pattern))


def milestone(name: str) -> Condition:
    """The agent reached this milestone.

    Raises:
        ConfigError: no name.
    """
    return Milestone(name)


def fact(name: str, equals: Scalar | None = None) -> Condition:
    """A fact is known and not false; or, with `equals`, has that value.

    Raises:
        ConfigError: no name, or no text, finite number or truth value.
    """
    return Fact(name, equals)


def annotation(name: str, value: Scalar = True) -> Condition:
    """The tool is annotated so, as in `annotation("readOnlyHint", True)`; see `Annotation`.

    Raises:
        ConfigError: no name, or no text, finite number or truth value.
    """
    return Annotation(name, value)


def predicate(function: Callable[[State], bool], name: str | None = None) -> Condition:
    """A function of the state returns `True`; the name stands for it in files and refusals.

    `False` denies. So does an exception or any other value, with the reason `predicate_error`. The
    function is called once a request, however many tools it decides on, and must not block.

    Args:
        function: of the state.
        name: its own name when absent.

    Raises:
        ConfigError: no function.
    """
    return Predicate(name or str(getattr(function, "__name__", "")), function)


def all_of(*conditions: Condition) -> Condition:
    """Every condition holds.

    Raises:
        ConfigError: none is given, or one is no condition.
    """
    composed = AllOf(conditions)
    return conditions[0] if len(conditions) == 1 else composed


def any_of(*conditions: Condition) -> Condition:
    """At least one condition holds.

    Raises:
        ConfigError: none is given, or one is no condition.
    """
    composed = AnyOf(conditions)
    return conditions[0] if len(conditions) == 1 else composed


def not_(condition: Condition) -> Condition:
    """The condition fails.

    Raises:
        ConfigError: it is no condition.
    """
    return Not(condition)


def json_key(value: Scalar) -> tuple[bool, Scalar]:
    """What two values have in common if and only if JSON holds them equal."""
    return isinstance(value, bool), value


def _check_name(what: str, name: object) -> None:
    if not isinstance(name, str) or not name.strip():
        raise ConfigError(f"{what}: {name!r:.80} is no name")


def _check_value(what: str, value: object) -> None:
    if not is_scalar(value):
        raise ConfigError(f"{what}: {value!r:.80}; a text, a finite number or a truth value")


def _check_parts(what: str, parts: tuple[Condition, ...]) -> None:
    if not parts:
        raise ConfigError(f"{what}: holds no condition")
    if bad := [part for part in parts if not isinstance(part, Condition)]:
        raise ConfigError(f"{what}: {bad[0]!r:.80} is no condition")
