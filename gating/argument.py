"""Tests of a call's arguments, for rules that ask for approval or deny by what is sent."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from ..catalog.pattern import Pattern, fold
from ..errors import ConfigError
from .state import Scalar, is_scalar, json_key

Number = int | float
#: The tests of one argument, as files and `argument` name them.
_TESTS = ("above", "below", "equals", "matches", "not_matches")
_MISSING = object()


@dataclass(frozen=True, slots=True)
class ArgumentTest:
    """Tests of one argument of a call; `argument` makes one.

    Args:
        name: name of the argument, or a JSON pointer to a value inside one.
        above: the number is above this one.
        below: the number is below this one.
        equals: the value is one of these, each as `json_key` gives it.
        matches: one of these globs matches the text.
        not_matches: none of these globs matches the text.
    """

    name: str
    above: Number | None = None
    below: Number | None = None
    equals: tuple[tuple[bool, Scalar], ...] = ()
    matches: tuple[Pattern, ...] = ()
    not_matches: tuple[Pattern, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip("/"):
            raise ConfigError(f"argument: {self.name!r:.80} is no name of an argument")

    def holds(self, arguments: Mapping[str, Any]) -> bool | None:
        """Whether the argument passes every test.

        Args:
            arguments: the arguments of a call, as they will be sent.

        Returns:
            None if nobody can say: the argument is missing, or of another type than a test needs.
        """
        values = list(self._values(arguments))
        results = [self._holds_for(value) for value in values]
        if True in results:
            return True
        return None if None in results or not results else False

    def to_dict(self) -> dict[str, Any]:
        """JSON form of the tests, without the name."""
        form: dict[str, Any] = {
            "above": self.above,
            "below": self.below,
            "equals": [value for _, value in self.equals],
            "matches": [pattern.text for pattern in self.matches],
            "not_matches": [pattern.text for pattern in self.not_matches],
        }
        return {key: value for key, value in form.items() if value not in (None, [])}

    def describe(self) -> str:
        """The tests in words, for operators."""
        words = [f"{key.replace('_', ' ')} {value!r}" for key, value in self.to_dict().items()]
        return f"{self.name} {' and '.join(words)}"

    def _values(self, arguments: Mapping[str, Any]) -> Iterator[object]:
        """The values under the name. Of a list, each item."""
        steps = [self.name]
        if self.name.startswith("/"):
            steps = [
                step.replace("~1", "/").replace("~0", "~") for step in self.name[1:].split("/")
            ]
        values: list[object] = [arguments]
        for step in steps:
            values = [
                item.get(step, _MISSING) if isinstance(item, Mapping) else _MISSING
                for item in _items(values)
            ]
        return _items(values)

    def _holds_for(self, value: object) -> bool | None:
        results: list[bool | None] = []
        if self.above is not None or self.below is not None:
            results.append(self._is_between(value))
        if self.equals:
            results.append(self._equals(value))
        if self.matches or self.not_matches:
            results.append(self._matches(value))
        if False in results:
            return False
        return None if None in results else True

    def _is_between(self, value: object) -> bool | None:
        if not _is_number(value):
            return None
        return (self.above is None or value > self.above) and (
            self.below is None or value < self.below
        )

    def _equals(self, value: object) -> bool | None:
        if not isinstance(value, str | int | float) or not any(
            _same_type(value, other) for _, other in self.equals
        ):
            return None
        keys = {_folded(key) for key in self.equals}
        return _folded(json_key(value)) in keys

    def _matches(self, value: object) -> bool | None:
        if not isinstance(value, str):
            return None
        # A glob that lets a call pass matches exactly; one that stops it also matches folded.
        text = unicodedata.normalize("NFC", value)
        if self.matches and not any(glob.denies(text.strip()) for glob in self.matches):
            return False
        return not any(glob.matches(text) for glob in self.not_matches)


def argument(
    name: str,
    *,
    above: Number | None = None,
    below: Number | None = None,
    equals: Scalar | Iterable[Scalar] | None = None,
    matches: str | Iterable[str] | None = None,
    not_matches: str | Iterable[str] | None = None,
) -> ArgumentTest:
    """A test of an argument, for `Rule(when=...)`. With several tests, all must hold.

    Args:
        name: name of the argument, or a JSON pointer, such as `/order/amount`. Of a list, every
            item is tested, and one that passes is enough.
        above: the number is above this one.
        below: the number is below this one.
        equals: the value is this one, or one of a list.
        matches: the text matches this glob, or one of a list. Letter case does not count.
        not_matches: the text matches none of these globs exactly: all but what you name.

    Raises:
        ConfigError: there is no test, or one has a value of the wrong type.

    Example:
        >>> from shortlist.gating import argument
        >>> argument("amount", above=100).holds({"amount": 120})
        True
        >>> argument("to", not_matches="*@acme.com").holds({"to": ["ann@acme.com"]})
        False
    """
    for label, limit in (("above", above), ("below", below)):
        if limit is not None and not _is_number(limit):
            raise ConfigError(f"argument {name!r:.80}: {label}: a number, not {limit!r:.80}")
    values = [] if equals is None else [equals] if is_scalar(equals) else _listed(name, equals)
    if bad := [value for value in values if not is_scalar(value)]:
        raise ConfigError(
            f"argument {name!r:.80}: equals: {bad[0]!r:.80}; a text, a finite number or a truth "
            "value, or a list of them"
        )
    test = ArgumentTest(
        name,
        above,
        below,
        tuple(map(json_key, values)),
        _globs(name, "matches", matches),
        _globs(name, "not_matches", not_matches),
    )
    if not test.to_dict():
        raise ConfigError(f"argument {name!r:.80}: give a test, one of: {', '.join(_TESTS)}")
    return test


def read_tests(form: object) -> tuple[ArgumentTest, ...]:
    """The tests of a JSON form: `{"amount": {"above": 100}}`.

    Raises:
        ConfigError: it is none.
    """
    if not isinstance(form, Mapping) or not form:
        raise ConfigError(f"when: a table such as {{amount = {{above = 100}}}}, not {form!r:.80}")
    tests = []
    for name, table in form.items():
        if not isinstance(table, Mapping) or (unknown := sorted(set(table) - set(_TESTS))):
            got = unknown[0] if isinstance(table, Mapping) else table
            raise ConfigError(f"when: {name}: no test {got!r:.80}; use: {', '.join(_TESTS)}")
        try:
            tests.append(argument(name, **table))
        except ConfigError as error:
            raise ConfigError(f"when: {error}") from None
    return tuple(tests)


def may_apply(tests: Sequence[ArgumentTest], arguments: Mapping[str, Any]) -> bool:
    """Whether the arguments pass all tests, or may pass them: what cannot be read counts."""
    return all(test.holds(arguments) is not False for test in tests)


def _is_number(value: object) -> TypeGuard[Number]:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _items(values: Iterable[object]) -> Iterator[object]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from value
        else:
            yield value


def _same_type(value: object, other: Scalar) -> bool:
    kinds = [
        bool if isinstance(item, bool) else str if isinstance(item, str) else float
        for item in (value, other)
    ]
    return kinds[0] is kinds[1]


def _folded(key: tuple[bool, Scalar]) -> tuple[bool, Scalar]:
    return key[0], fold(key[1].strip()) if isinstance(key[1], str) else key[1]


def _listed(name: str, values: object) -> list[Any]:
    if not isinstance(values, Iterable) or isinstance(values, Mapping):
        raise ConfigError(f"argument {name!r:.80}: equals: a value or a list, not {values!r:.80}")
    return list(values)


def _globs(name: str, label: str, globs: str | Iterable[str] | None) -> tuple[Pattern, ...]:
    texts = [] if globs is None else [globs] if isinstance(globs, str) else globs
    if not isinstance(texts, Iterable):
        raise ConfigError(f"argument {name!r:.80}: {label}: a glob or a list, not {globs!r:.80}")
    try:
        return tuple(Pattern(text) for text in texts)
    except ConfigError as error:
        raise ConfigError(f"argument {name!r:.80}: {label}: {error}") from None
