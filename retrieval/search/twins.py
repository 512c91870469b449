"""Twins: tools whose definitions say nearly the same, which models and searches confuse.

A server may offer a copy of another server's tool, by accident or to be called in its place. Where
one of them is trusted, the others rank behind it. See docs/adr/0019-twins-and-stuffing.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ...catalog import Tool
from ...text import spaced
from ..query import Ranking

COSINE = 0.9
"""Cosine of two tools' vectors from which they are twins. The vectors read the server's name too:
of exact copies under another server nine in ten reach it."""
CONTAINED = 0.9
"""Share of the shorter definition's words that a longer one of the same name repeats."""
# Larger groups are compared with neighbours only: a stranger may give any number of tools one name.
_ALL_PAIRS = 128
_NEIGHBOURS = 32
_MOST_SPARE = 20
_WORD = re.compile(r"\w+")

_Rows = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Twins:
    """Twins of one catalog version, in rows.

    Tools are compared where their normalised names or their descriptions are equal.

    Args:
        pairs: rows of two tools that are twins, each pair once.
    """

    pairs: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, tools: Sequence[Tool], vectors: NDArray[np.float32] | None = None) -> Self:
        """Find the twins of a catalog version.

        Args:
            tools: tools by row.
            vectors: vectors of the tools, shape (n, dim), L2-normalised; None compares words alone.
        """
        rows: dict[int, list[int]] = {}
        for row, tool in enumerate(tools):
            for key in _keys(tool):
                rows.setdefault(key, []).append(row)
        pairs = (pair for group in rows.values() for pair in _pairs(tools, vectors, group))
        return cls(tuple(dict.fromkeys(pairs)))

    def groups(self) -> list[_Rows]:
        """Rows that are twins of one another or of a third, ascending; the largest group first."""
        return connected(self.pairs)

    def copies(self, tools: Sequence[Tool], originals: Collection[str]) -> dict[int, _Rows]:
        """Row of each copy to the rows of its originals.

        Args:
            tools: tools by row.
            originals: ids of tools that are trusted; none of them is a copy.
        """
        found: dict[int, set[int]] = {}
        for one, other in self.pairs:
            for copy, original in ((one, other), (other, one)):
                if tools[original].id in originals and tools[copy].id not in originals:
                    found.setdefault(copy, set()).add(original)
        return {copy: tuple(sorted(found[copy])) for copy in sorted(found)}


def behind_originals(ranking: Ranking, copies: Mapping[int, Sequence[int]]) -> Ranking:
    """The ranking with each copy that ranks before an original of its right behind that one.

    A copy gets the original's score. One that has no original in the ranking, or ranks behind it
    already, stays where it is.

    Args:
        ranking: best first.
        copies: row of a copy to its originals, see `Twins.copies`.
    """
    if not copies:
        return ranking
    rows = ranking.rows.tolist()
    places = {row: place for place, row in enumerate(rows)}
    late: dict[int, list[int]] = {}
    for place, row in enumerate(rows):
        found = [places[one] for one in copies.get(row, ()) if one in places]
        if found and min(found) > place:
            late.setdefault(rows[min(found)], []).append(row)
    if not late:
        return ranking
    moved = {row for many in late.values() for row in many}
    order = [
        (row, places[kept])
        for kept in rows
        if kept not in moved
        for row in (kept, *late.get(kept, ()))
    ]
    ordered, sources = (np.array(values, np.int64) for values in zip(*order, strict=True))
    return Ranking(ordered, ranking.scores[sources], ranking.rest)


def spare(copies: Mapping[int, Sequence[int]]) -> int:
    """Rows to read beyond an answer's length, so that copies do not push their original out."""
    return min(len(copies), _MOST_SPARE)


def _normalised(name: str) -> str:
    return " ".join(_WORD.findall(spaced(name).casefold()))


def _keys(tool: Tool) -> tuple[int, ...]:
    words = _WORD.findall(tool.description.casefold())
    named = hash(("name", _normalised(tool.name)))
    return (named, hash(("text", *words))) if len(words) >= FEWEST_WORDS else (named,)


def _pairs(
    tools: Sequence[Tool], vectors: NDArray[np.float32] | None, rows: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    if len(rows) < 2 or len({tools[row].server for row in rows}) < 2:
        return ()
    words = {row: words_of(tools[row]) for row in rows}
    found = []
    for one, other in _compared(rows):
        if tools[one].server == tools[other].server:
            continue
        near = vectors is not None and float(vectors[one] @ vectors[other]) >= COSINE
        if near or _alike(tools[one], tools[other], words[one], words[other]):
            found.append((one, other))
    return tuple(found)


def _compared(rows: Sequence[int]) -> Iterable[tuple[int, int]]:
    if len(rows) <= _ALL_PAIRS:
        return combinations(rows, 2)
    return (
        (one, other)
        for place, one in enumerate(rows)
        for other in rows[place + 1 : place + 1 + _NEIGHBOURS]
    )


def _alike(one: Tool, other: Tool, words: frozenset[str], others: frozenset[str]) -> bool:
    shared, fewest = len(words & others), min(len(words), len(others))
    if one.name == other.name and one.description == other.description:
        return bool(one.description) and fewest >= 2
    if fewest >= FEWEST_WORDS and shared >= LIKENESS * len(words | others):
        return True
    contained = fewest >= FEWEST_WORDS and shared >= CONTAINED * fewest
    return contained and _normalised(one.name) == _normalised(other.name)


LIKENESS = 0.8
"""Two definitions are twins from this Jaccard index of their words on."""
FEWEST_WORDS = 5
"""Fewer words cannot distinguish twins from related tools."""


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
