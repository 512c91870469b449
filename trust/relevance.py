"""Relevance: what is worth looking for in a sentence, given what was found in it so far."""

from __future__ import annotations

from collections.abc import Iterable, Set
from functools import lru_cache
from typing import Final

from .lexicon import CONNECTING, POINTED
from .signal import Signal
from .signals import SIGNALS

_NEEDED_FIRST: Final = POINTED.keys() - CONNECTING.keys()
_OFF_TOPIC_BY = {"path"}
"""Connecting concepts that say nothing but how far a sentence reaches, see `purpose`."""


def _called_for() -> dict[str, list[Signal]]:
    found: dict[str, list[Signal]] = {}
    for signal in SIGNALS:
        for concept in min(signal.groups, key=len):
            found.setdefault(concept, []).append(signal)
    return found


_CALLED_FOR: Final = _called_for()


def signals_of(said: Iterable[str]) -> list[Signal]:
    """The signals of a sentence that speaks of these concepts; one may be named twice."""
    concepts = frozenset(said)
    return [
        signal
        for concept in concepts
        for signal in _CALLED_FOR.get(concept, ())
        if signal.holds(concepts)
    ]


@lru_cache(maxsize=8192)
def still_wanted(said: frozenset[str]) -> Set[str]:
    """The connecting concepts that decide on a signal which the pointed ones leave open.

    Args:
        said: all pointed concepts of a sentence, and what it says of other tools.
    """
    wanted: set[str] = set()
    for signal in SIGNALS:
        if all(group & said or not group <= _NEEDED_FIRST for group in signal.groups):
            wanted = wanted.union(_OFF_TOPIC_BY, signal.innocent, *signal.groups)
    return wanted & CONNECTING.keys()
