"""Wording: how much the words of a text are those of orders rather than of documentation.

A linear model over words, classes of words and their sequences, see `wording_fit`. It hears what
the signals have no name for; what it says counts beside them, for or against.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from math import inf, sqrt
from pathlib import Path
from typing import Final, NamedTuple

from .languages import elsewhere
from .word_classes import tokens

WORDS: Final = 3
"""Longest sequence of words that is learned of."""
CLASSES: Final = 4
"""Longest sequence that holds a class of words."""
FEWEST: Final = 20
"""Words that a shorter text counts as, so that few words do not decide alone."""
SHORTEST: Final = 6
"""Words of the shortest text that may be an order: less is a name or a label."""
_SHOWN = 3
_PER_ODDS = 0.2
_DOUBT = 0.15
_CALM = -0.6
"""What wording weighs: so much a unit of log odds, less a doubt, at least that; see ADR 0012."""


class Heard(NamedTuple):
    """What one segment says.

    Args:
        said: each feature to the words it was seen in.
        length: of the segment, in words.
    """

    said: Mapping[str, str]
    length: int


def hear(text: str) -> Heard:
    """The features of a segment: sequences that hold a word of a class, and pairs of classes.

    Words that belong to no class tell an author's style, not an act, and are none by themselves.

    Args:
        text: folded, in lower case.
    """
    words, classes = tokens(text)
    said: dict[str, str] = {}
    for start in range(len(words)):
        classed = False
        for end in range(start + 1, min(start + CLASSES, len(words)) + 1):
            classed = classed or classes[end - 1][0] == "<"
            if classed:
                seen = " ".join(words[start:end])
                said.setdefault(" ".join(classes[start:end]), seen)
                if end - start <= WORDS:
                    said.setdefault(seen, seen)
    first = dict(reversed(list(zip(classes, words, strict=True))))
    present = sorted(one for one in first if one[0] == "<")
    for number, one in enumerate(present):
        for other in present[number + 1 :]:
            said[f"{one}&{other}"] = f"{first[one]} ... {first[other]}"
    return Heard(said, len(words))


def stretches(heard: Sequence[Heard]) -> Iterator[tuple[int, Mapping[str, str], float]]:
    """Each segment alone and with the next: its number, its features, what divides their sum.

    Args:
        heard: the segments of one text.
    """
    for number, one in enumerate(heard):
        yield number, one.said, _divisor(one.length)
        if number + 1 < len(heard):
            two = heard[number + 1]
            yield number, {**two.said, **one.said}, _divisor(one.length + two.length)


def _divisor(length: int) -> float:
    return sqrt(max(length, FEWEST))


class Wording:
    """Weights of features.

    Args:
        bias: the log odds of a text without features.
        weights: feature to weight.
    """

    __slots__ = ("_bias", "_weights")

    def __init__(self, bias: float, weights: Mapping[str, float]) -> None:
        self._bias = bias
        self._weights = weights

    def odds(self, heard: Sequence[Heard]) -> list[float]:
        """Log odds of each segment, alone or with the next, whichever is more like an order.

        Args:
            heard: the segments of one text.
        """
        found = [-inf] * len(heard)
        known = [
            Heard({one: "" for one in each.said if one in self._weights}, each.length)
            for each in heard
        ]
        for number, said, divisor in stretches(known):
            total = self._bias + self._sum(said) / divisor
            found[number] = max(found[number], total)
        return found

    def loudest(self, heard: Heard) -> list[str]:
        """The words of a segment that speak most for an order."""
        ranked = sorted(heard.said, key=lambda one: -self._weights.get(one, 0.0))
        return [heard.said[one] for one in ranked[:_SHOWN] if self._weights.get(one, 0.0) > 0]

    def _sum(self, said: Iterable[str]) -> float:
        weights = self._weights
        return sum(weights[one] for one in said)


@cache
def wording() -> Wording:
    """The fitted weights, read once."""
    text = (Path(__file__).parent / "wording.json").read_text(encoding="utf-8")
    fitted = json.loads(text)
    return Wording(fitted["bias"], fitted["weights"])


class Said:
    """How much the wording of each segment of a text weighs, as the findings of `scan` do.

    Of other languages nothing is known, and of a few words as much speaks for as against.

    Args:
        pieces: the segments, folded, in lower case.
        opening: whether the first of several says what the tool is for, and so is no order.
    """

    __slots__ = ("_heard", "_weights")

    def __init__(self, pieces: Sequence[str], *, opening: bool) -> None:
        self._heard = [hear(piece) for piece in pieces]
        first = int(opening and len(pieces) > 1)
        heard = self._heard[first:]
        weights = [
            max(_CALM, round(_PER_ODDS * odds - _DOUBT, 2)) for odds in wording().odds(heard)
        ]
        short = sum(one.length for one in heard) < SHORTEST
        self._weights = [-_DOUBT if short else _CALM] * first + [
            -_DOUBT if short else max(weight, 0.0) if elsewhere(piece) else weight
            for weight, piece in zip(weights, pieces[first:], strict=True)
        ]

    def heaviest(self, start: int, end: int) -> tuple[int, float]:
        """The segment whose wording weighs most, and how much.

        Args:
            start: number of the first segment.
            end: number after the last, or beyond the text.
        """
        weights = self._weights
        number = max(range(start, min(end, len(weights))), key=weights.__getitem__)
        return number, weights[number]

    def reason(self, number: int) -> str:
        """What the wording of a segment says, and the words that say it.

        Args:
            number: of the segment.
        """
        if self._weights[number] < 0:
            return "is worded like documentation"
        words = wording().loudest(self._heard[number])
        return f"is worded like orders to a model ({', '.join(map(repr, words))})"
