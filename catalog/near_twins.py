"""Near twins: tools with almost the same text, which models and searches confuse."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from math import ceil

from ..text import spaced
from .tool import Tool

LIKENESS = 0.8
"""Two definitions are twins from this Jaccard index of their words on."""
_FEWEST_WORDS = 5
_WORD = re.compile(r"\w+")


def near_twins(tools: Sequence[Tool]) -> list[tuple[str, ...]]:
    """Groups of ids of tools with almost the same text, largest group first.

    Two such sets of words must share one of their rarest words, so only those pairs are compared
    (prefix filtering: Bayardo, Ma and Srikant, 2007). Tools with fewer than five words are skipped,
    because so few words cannot distinguish twins from related tools.

    Args:
        tools: the tools of a catalog.
    """
    places: dict[frozenset[str], list[int]] = {}
    for place, tool in enumerate(tools):
        places.setdefault(_words(tool), []).append(place)
    texts = [text for text in places if len(text) >= _FEWEST_WORDS]
    frequency = Counter(word for text in texts for word in text)
    group = list(range(len(texts)))
    posted: dict[str, list[int]] = {}
    for number, text in enumerate(texts):
        rarest = sorted(text, key=lambda word: (frequency[word], word))
        prefix = rarest[: len(text) - ceil(LIKENESS * len(text) - 1e-9) + 1]
        for other in {other for word in prefix for other in posted.get(word, ())}:
            if _alike(text, texts[other]):
                group[_root(group, other)] = _root(group, number)
        for word in prefix:
            posted.setdefault(word, []).append(number)
    members: dict[int, list[int]] = {}
    for number, text in enumerate(texts):
        members.setdefault(_root(group, number), []).extend(places[text])
    twins = [tuple(tools[place].id for place in sorted(m)) for m in members.values() if len(m) > 1]
    return sorted(twins, key=lambda ids: (-len(ids), ids))


def _words(tool: Tool) -> frozenset[str]:
    return frozenset(_WORD.findall(f"{spaced(tool.name)} {tool.description}".casefold()))


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) >= LIKENESS * len(one | other)


def _root(group: list[int], number: int) -> int:
    while group[number] != number:
        group[number] = group[group[number]]
        number = group[number]
    return number
