"""Literals: letters of which each match of an expression must hold some, looked for first.

Searching a text for eighty expressions is slow and mostly in vain. The letters that a match cannot
do without are derived from the expressions themselves, and four letters at a time tell which of
them a text can hold at all. What is found stays the same, only sooner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from math import prod
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

_GRAM = 4
_MOST_SPELLINGS = 48
"""Spellings of one stretch that are told apart; beyond, the stretch is cut in two."""
_COMMON = frozenset(" etaoinsr")
_CHOICES = 10  # the digits

_Item = tuple[Any, Any]
_EMPTY: Final = frozenset({""})


def required(expression: str) -> frozenset[str]:
    """Literals of which each match of an expression holds at least one.

    Args:
        expression: a regular expression that minds case.

    Returns:
        The literals; among them is "" where a match may do without any.
    """
    found = _required(parser.parse(expression)) or _EMPTY
    return frozenset(one for one in found if not any(two in one for two in found if two != one))


def _required(sequence: Iterable[_Item]) -> frozenset[str] | None:
    """The best of the literals that a sequence needs, or None where there are none."""
    stretches: list[frozenset[str]] = []
    stretch = _EMPTY
    for item in sequence:
        spelt = _spellings(item)
        joined = spelt and frozenset(f"{one}{two}" for one in stretch for two in spelt)
        if joined and len(joined) <= _MOST_SPELLINGS:
            stretch = joined
            continue
        stretches.append(stretch)
        stretch = spelt or _EMPTY
        if spelt is None and (within := _within(item)):
            stretches.append(within)
    stretches.append(stretch)
    known = [one for one in stretches if "" not in one]
    return min(known, key=_chance, default=None)


def _chance(literals: frozenset[str]) -> float:
    """About how likely a place in a text holds one of them."""
    return sum(
        prod(0.09 if letter in _COMMON else 0.02 for letter in literal) for literal in literals
    )


def _within(item: _Item) -> frozenset[str] | None:
    """Literals that one item needs, which has too many spellings to list."""
    kind, value = item
    if kind is op.SUBPATTERN:
        return _required(value[-1])
    if kind in (op.MAX_REPEAT, op.MIN_REPEAT):
        return _required(value[2]) if value[0] else None
    if kind is op.BRANCH:
        branches = [_required(branch) for branch in value[1]]
        return frozenset().union(*branches) if all(branches) else None  # type: ignore[arg-type]
    return None


def _spellings(item: _Item) -> frozenset[str] | None:
    """Everything that one item matches, or None where that is much or unknown."""
    kind, value = item
    if kind in (op.AT, op.ASSERT, op.ASSERT_NOT):
        return _EMPTY
    if kind is op.LITERAL:
        return frozenset({chr(value)})
    if kind is op.IN:
        return _letters(value)
    if kind is op.SUBPATTERN:
        return _all_spellings([value[-1]])
    if kind is op.BRANCH:
        return _all_spellings(value[1])
    if kind in (op.MAX_REPEAT, op.MIN_REPEAT) and value[1] == 1:
        once = _all_spellings([value[2]])
        return once if value[0] or once is None else once | _EMPTY
    return None


def _letters(choices: Iterable[_Item]) -> frozenset[str] | None:
    """The letters of a class, or None where they are many or told by what they are not."""
    letters: set[str] = set()
    for kind, value in choices:
        if kind is op.LITERAL:
            letters.add(chr(value))
        elif kind is op.RANGE:
            letters.update(map(chr, range(value[0], value[1] + 1)))
        else:
            return None
    return frozenset(letters) if len(letters) <= _CHOICES else None


def _all_spellings(branches: Iterable[Iterable[_Item]]) -> frozenset[str] | None:
    found: set[str] = set()
    for branch in branches:
        spelt = _EMPTY
        for item in branch:
            more = _spellings(item)
            if more is None or len(spelt) * len(more) > _MOST_SPELLINGS:
                return None
            spelt = frozenset(f"{one}{two}" for one in spelt for two in more)
        found |= spelt
        if len(found) > _MOST_SPELLINGS:
            return None
    return frozenset(found)


class Literals:
    """Which of several named expressions can match a text.

    Args:
        expressions: name to expression.
    """

    __slots__ = ("_by_gram", "_names", "_short")

    def __init__(self, expressions: Mapping[str, str]) -> None:
        """Derives the literals and files each under the four of its letters fewest share."""
        self._names = [(1 << number, name) for number, name in enumerate(expressions)]
        masks: dict[str, int] = {}
        for (bit, _), expression in zip(self._names, expressions.values(), strict=True):
            for literal in required(expression):
                masks[literal] = masks.get(literal, 0) | bit
        shared = Counter(gram for literal in masks for gram in _grams(literal))
        self._short = [(one, mask) for one, mask in masks.items() if len(one) < _GRAM]
        self._by_gram: dict[str, list[tuple[str, int]]] = {}
        for literal, mask in masks.items():
            if len(literal) >= _GRAM:
                rarest = min(sorted(_grams(literal)), key=lambda gram: shared[gram])
                self._by_gram.setdefault(rarest, []).append((literal, mask))

    def possible(self, text: str) -> set[str]:
        """Names of the expressions that may match; the others do not.

        Args:
            text: to be searched.
        """
        found = 0
        for literal, mask in self._short:
            if mask & ~found and literal in text:
                found |= mask
        for gram in self._by_gram.keys() & _grams(text):
            for literal, mask in self._by_gram[gram]:
                if mask & ~found and literal in text:
                    found |= mask
        return {name for bit, name in self._names if found & bit}


def _grams(text: str) -> set[str]:
    return {text[start : start + _GRAM] for start in range(len(text) - _GRAM + 1)}
