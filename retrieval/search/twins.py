"""Twins: tools whose definitions say nearly the same, which models and searches confuse.

A server may offer a copy of another server's tool, by accident or to be called in its place. Where
one of them is trusted, the others rank behind it. See docs/adr/0019-twins-and-stuffing.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import ceil, inf
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ...catalog import Tool
from ...text import identifiers_as_words
from ..query import Ranking

TWIN_COSINE = 0.9
"""Minimum cosine of the vectors of two twins. A vector depends on the server's name too: of exact
copies on another server, nine in ten reach this cosine."""
CONTAINED_SHARE = 0.9
"""Share of the shorter definition's words that a longer one of the same name repeats."""
# In larger groups, a tool is compared with its neighbours only: a server may give any number of
# tools the same name.
_MAX_FULLY_COMPARED = 128
_NEIGHBOURS_COMPARED = 32
_MAX_EXTRA_ROWS = 20
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
            for key in _comparison_keys(tool):
                rows.setdefault(key, []).append(row)
        pairs = (pair for group in rows.values() for pair in _twin_pairs(tools, vectors, group))
        return cls(tuple(dict.fromkeys(pairs)))

    def groups(self) -> list[_Rows]:
        """Groups of rows that pairs of twins connect, each ascending; the largest group first."""
        return connected_groups(self.pairs)

    def copies(
        self, tools: Sequence[Tool], trusted_pin_ages: Mapping[str, int]
    ) -> dict[int, _Rows]:
        """Row of each copy to the rows of its originals.

        Args:
            tools: tools by row.
            trusted_pin_ages: ids of trusted tools, and the ages of their pins. Of two twins the
                trusted one, or the one with the lower age, is the original. With equal ages, none
                is.
        """
        ages = [trusted_pin_ages.get(tool.id, inf) for tool in tools]
        rows_of_originals: dict[int, set[int]] = {}
        for first, second in self.pairs:
            for copy, original in ((first, second), (second, first)):
                if ages[original] < ages[copy]:
                    rows_of_originals.setdefault(copy, set()).add(original)
        return {copy: tuple(sorted(rows)) for copy, rows in sorted(rows_of_originals.items())}


@dataclass(frozen=True, slots=True)
class Copies:
    """The copies of one catalog version, in rows.

    Args:
        originals: row of each copy to the rows of its originals, see `Twins.copies`.
        second_accounts: row of each original to its copies with the same name, text and parameters,
            such as those of a server that is configured for two accounts.
    """

    originals: Mapping[int, Sequence[int]] = field(default_factory=dict)
    second_accounts: Mapping[int, Sequence[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, tools: Sequence[Tool], originals: Mapping[int, Sequence[int]]) -> Self:
        """The copies among tools.

        Args:
            tools: tools by row.
            originals: row of each copy to the rows of its originals.
        """
        second_accounts: dict[int, list[int]] = {}
        for copy, rows in originals.items():
            for row in rows:
                if _have_one_definition(tools[copy], tools[row]):
                    second_accounts.setdefault(row, []).append(copy)
        return cls(originals, second_accounts)

    def behind_originals(
        self, ranking: Ranking, permitted: NDArray[np.bool_] | None = None
    ) -> Ranking:
        """The ranking with copies behind the first of their originals, and with its score.

        A copy that ranks before all its originals moves right behind the first of them. A copy of a
        second account always does: the example queries of the original are for both. Other copies
        keep their place.

        Args:
            ranking: best first.
            permitted: rows that may be added, shape (n,); None for all.
        """
        if not self.originals:
            return ranking
        rows = ranking.rows.tolist()
        present = set(rows)
        # Row of an original to the copies that ranked before it.
        waiting: dict[int, list[int]] = {}
        # Row to the place in `ranking` of its score, in the new order.
        places: dict[int, int] = {}
        for place, row in enumerate(rows):
            originals = present.intersection(self.originals.get(row, ()))
            if originals and places.keys().isdisjoint(originals):
                for original in originals:
                    waiting.setdefault(original, []).append(row)
                continue
            rows_to_rank = [row]
            while rows_to_rank:
                next_row = rows_to_rank.pop()
                if next_row not in places:
                    places[next_row] = place
                    accounts = [
                        copy
                        for copy in self.second_accounts.get(next_row, ())
                        if permitted is None or permitted[copy]
                    ]
                    followers = dict.fromkeys((*waiting.get(next_row, ()), *accounts))
                    rows_to_rank += reversed(followers)
        if list(places) == rows:
            return ranking
        new_rows = np.array(list(places), np.int64)
        return Ranking(new_rows, ranking.scores[list(places.values())], ranking.max_other_score)


def _have_one_definition(first: Tool, second: Tool) -> bool:
    return (first.name, first.description, first.input_schema) == (
        second.name,
        second.description,
        second.input_schema,
    )


def extra_row_count(copies: Copies) -> int:
    """Rows to read beyond an answer's length, so that copies do not push their original out."""
    return min(len(copies.originals), _MAX_EXTRA_ROWS)


def _normalised(name: str) -> str:
    return " ".join(_WORD.findall(identifiers_as_words(name).casefold()))


def _comparison_keys(tool: Tool) -> tuple[int, ...]:
    name_key = hash(("name", _normalised(tool.name)))
    words = _WORD.findall(tool.description.casefold())
    if len(words) < MIN_WORDS:
        return (name_key,)
    return name_key, hash(("text", *words))


def _twin_pairs(
    tools: Sequence[Tool], vectors: NDArray[np.float32] | None, rows: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    if len(rows) < 2 or len({tools[row].server for row in rows}) < 2:
        return ()
    words = {row: words_of_tool(tools[row]) for row in rows}
    pairs = []
    for first, second in _pairs_to_compare(rows):
        if tools[first].server == tools[second].server:
            continue
        has_near_vector = (
            vectors is not None and float(vectors[first] @ vectors[second]) >= TWIN_COSINE
        )
        if has_near_vector or _say_the_same(
            tools[first], tools[second], words[first], words[second]
        ):
            pairs.append((first, second))
    return tuple(pairs)


def _pairs_to_compare(rows: Sequence[int]) -> Iterable[tuple[int, int]]:
    if len(rows) <= _MAX_FULLY_COMPARED:
        return combinations(rows, 2)
    return (
        (first, second)
        for place, first in enumerate(rows)
        for second in rows[place + 1 : place + 1 + _NEIGHBOURS_COMPARED]
    )


def _say_the_same(
    first: Tool, second: Tool, first_words: frozenset[str], second_words: frozenset[str]
) -> bool:
    shared_count = len(first_words & second_words)
    shorter_count = min(len(first_words), len(second_words))
    if first.name == second.name and first.description == second.description:
        return bool(first.description) and shorter_count >= 2
    if shorter_count >= MIN_WORDS and shared_count >= TWIN_JACCARD * len(
        first_words | second_words
    ):
        return True
    contained = shorter_count >= MIN_WORDS and shared_count >= CONTAINED_SHARE * shorter_count
    return contained and _normalised(first.name) == _normalised(second.name)


TWIN_JACCARD = 0.8
"""Two definitions are twins from this Jaccard index of their words on."""
MIN_WORDS = 5
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
    place_of_words: dict[frozenset[str], int] = {}
    for place, tool in enumerate(tools):
        tool_words = words_of_tool(tool)
        if len(tool_words) < MIN_WORDS:
            continue
        first_place = place_of_words.setdefault(tool_words, place)
        if first_place != place:
            pairs.append((first_place, place))
    frequency = Counter(word for tool_words in place_of_words for word in tool_words)
    posted_by_word: dict[str, list[frozenset[str]]] = {}
    for tool_words, place in place_of_words.items():
        rarest = sorted(tool_words, key=lambda word: (frequency[word], word))
        prefix = rarest[: len(tool_words) - ceil(TWIN_JACCARD * len(tool_words) - 1e-9) + 1]
        candidates = {words for word in prefix for words in posted_by_word.get(word, ())}
        pairs.extend(
            (place_of_words[words], place)
            for words in candidates
            if len(tool_words & words) >= TWIN_JACCARD * len(tool_words | words)
        )
        for word in prefix:
            posted_by_word.setdefault(word, []).append(tool_words)
    groups = [tuple(tools[place].id for place in places) for places in connected_groups(pairs)]
    return sorted(groups, key=lambda ids: (-len(ids), ids))


def connected_groups(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Groups of numbers that pairs connect, each ascending; the largest group first."""
    root: dict[int, int] = {}

    def root_of(number: int) -> int:
        while root.setdefault(number, number) != number:
            root[number] = root[root[number]]
            number = root[number]
        return number

    for first, second in pairs:
        root[root_of(first)] = root_of(second)
    members: dict[int, list[int]] = {}
    for number in sorted(root):
        members.setdefault(root_of(number), []).append(number)
    return sorted(map(tuple, members.values()), key=lambda group: (-len(group), group))


def words_of_tool(tool: Tool) -> frozenset[str]:
    """The words of a tool's name and description, without letter case."""
    return frozenset(
        _WORD.findall(f"{identifiers_as_words(tool.name)} {tool.description}".casefold())
    )
