"""Near twins: tools with almost the same text, which models and searches confuse."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil

from ..text import spaced
from . import Tool

LIKENESS = 0.8
"""Two definitions are twins from this Jaccard index of their words on."""
FEWEST_WORDS = 5
"""Fewer words cannot distinguish twins from related tools."""
_WORD = re.compile(r"\w+")


def near_twins(tools: Sequence[Tool]) -> list[tuple[str, ...]]:
    """Groups of ids of tools with almost the same text, largest group first.

    Two such sets of words must share one of their rarest words, so only those pairs are compared
    (prefix filtering: Bayardo, Ma and Srikant, 2007). Tools with fewer than five words are skipped,
    because so few words cannot distinguish twins from related tools.

    Args:
        tools: the tools of a catalog.
    """
    pairs: list[tuple[int, int]] = []
    first: dict[frozenset[str], int] = {}
    for place, tool in enumerate(tools):
        if len(text := words_of(tool)) >= FEWEST_WORDS and first.setdefault(text, place) != place:
            pairs.append((first[text], place))
    frequency = Counter(word for text in first for word in text)
    posted: dict[str, list[frozenset[str]]] = {}
    for text, place in first.items():
        rarest = sorted(text, key=lambda word: (frequency[word], word))
        prefix = rarest[: len(text) - ceil(LIKENESS * len(text) - 1e-9) + 1]
        pairs.extend(
            (first[other], place)
            for other in {other for word in prefix for other in posted.get(word, ())}
            if len(text & other) >= LIKENESS * len(text | other)
        )
        for word in prefix:
            posted.setdefault(word, []).append(text)
    groups = [tuple(tools[place].id for place in places) for places in connected(pairs)]
    return sorted(groups, key=lambda ids: (-len(ids), ids))


def connected(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Groups of numbers that pairs connect, each ascending; the largest group first."""
    root: dict[int, int] = {}

    def find(number: int) -> int:
        while root.setdefault(number, number) != number:
            root[number] = number = root[root[number]]
        return number

    for one, other in pairs:
        root[find(one)] = find(other)
    members: dict[int, list[int]] = {}
    for number in sorted(root):
        members.setdefault(find(number), []).append(number)
    return sorted(map(tuple, members.values()), key=lambda group: (-len(group), group))


def words_of(tool: Tool) -> frozenset[str]:
    """The words of a tool's name and description, without letter case."""
    return frozenset(_WORD.findall(f"{spaced(tool.name)} {tool.description}".casefold()))
