"""Rows by the ids and names of their tools."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import combinations, compress
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ..catalog import Tool
from ..catalog.catalog import differing
from ..text import identifiers_as_words, lower_words, query_terms, search_terms
from .query import is_question

# Before a name that reads like an id; no name has a line break.
_NAME_MARK = "\n"
# A query spells a name out if it has all terms of the name, at least two, and if these and the
# server's are two thirds of its terms. Of 0.4 to 0.75 this share alone cost no query of the
# development sets in `hybrid` and `embed` (ADR 33). Longer queries are no commands.
_MIN_NAME_TERMS, _MIN_COVERED_SHARE, _MAX_COMMAND_TERMS = 2, 0.66, 12
# Share of a name's words in the query in the same form: "contexts we saved for project atlas" does
# not spell `save_project_context` out.
_MIN_SAME_WORDS = 0.5
_CACHED_NAMES = 16_384
# What people say for the verbs of names.
_VERBS_OF_NAMES = {
    "open": ("create",),
    "add": ("create",),
    "new": ("create",),
    "make": ("create",),
    "remove": ("delete",),
    "show": ("get", "list"),
    "fetch": ("get",),
    "find": ("search",),
    "change": ("update",),
    "edit": ("update",),
}


class _NameMatch(NamedTuple):
    """How much of a query the names of a tool and its server match; a better match is greater.

    Args:
        covered: number of the query's terms that they have.
        same_words: share of the words of the tool's name that the query has in the same form.
    """

    covered: int
    same_words: float

    @classmethod
    def of(cls, tool: Tool, terms: frozenset[str], words: frozenset[str]) -> Self:
        """The match of a tool with a query's terms and words."""
        names = terms_of_name(tool.name) | terms_of_name(tool.server or "")
        name_words = set(_as_words(tool.name).split())
        return cls(len(terms & names), len(words & name_words) / max(1, len(name_words)))


@dataclass(frozen=True, eq=False)
class Names:
    """Rows of a catalog version by id and by name.

    Versions share one object only if they show the very same tools: what is compiled over a version
    is kept by it.

    Args:
        rows: tool id to its row.
        by_name: id or name to the ids of the tools that have it.
        by_folded_name: the same without regard to letter case, for ids and names that are not in
            `by_name` in this form already.
        by_spoken_name: name of several words to the ids of the tools that have it, as people write
            it: `list files` and `disk list files` for `disk/list_files` and `disk/listFiles`.
        by_name_terms: the first two search terms of a name, in order of the alphabet, to the ids of
            the tools that have such a name.
        present_rows: mask of the rows that have a tool, shape (n,); None for all rows.
    """

    rows: dict[str, int]
    by_name: dict[str, tuple[str, ...]]
    by_folded_name: dict[str, tuple[str, ...]]
    by_spoken_name: dict[str, tuple[str, ...]]
    by_name_terms: dict[str, tuple[str, ...]]
    present_rows: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, tools: Sequence[Tool], present: NDArray[np.bool_] | None = None) -> Self:
        """The names of tools in order of id.

        Args:
            tools: tools by row.
            present: mask of the rows whose tool still exists; None for all rows.
        """
        return cls({}, {}, {}, {}, {}).changed((), tools, present)

    def changed(
        self,
        earlier_tools: Sequence[Tool],
        tools: Sequence[Tool],
        present: NDArray[np.bool_] | None = None,
    ) -> Self:
        """The names of other tools. Only those of tools that differ are computed.

        Args:
            earlier_tools: tools by row that these names are of.
            tools: as for `of`.
            present: as for `of`.
        """
        before, now = _present(earlier_tools, self.present_rows), _present(tools, present)
        was, is_now = differing(before, now)
        kept = set(map(id, before[was])).intersection(map(id, now[is_now]))
        removed = _entries(tool for tool in before[was] if id(tool) not in kept)
        added = _entries(tool for tool in now[is_now] if id(tool) not in kept)
        tables = (
            self.by_name.copy(),
            self.by_folded_name.copy(),
            self.by_spoken_name.copy(),
            self.by_name_terms.copy(),
        )
        for table, removed_ids, added_ids in zip(tables, removed, added, strict=True):
            for key, ids in removed_ids.items():
                table[key] = tuple(tool_id for tool_id in table[key] if tool_id not in ids)
                if not table[key]:
                    del table[key]
            for key, ids in added_ids.items():
                table[key] = (*table.get(key, ()), *ids)
        rows = range(len(tools)) if present is None else np.flatnonzero(present).tolist()
        # In order of row, as those before.
        all_ids = list(self.rows)
        all_ids[was] = [tool.id for tool in now[is_now]]
        return type(self)(dict(zip(all_ids, rows, strict=True)), *tables, present)

    @cached_property
    def _first_terms(self) -> frozenset[str]:
        """The terms in the keys of `by_name_terms`."""
        return frozenset(term for key in self.by_name_terms for term in key.split())

    def rows_in_id_order(self, mask: NDArray[np.bool_]) -> NDArray[np.intp]:
        """The rows of a mask that have a tool, in order of tool id, shape (m,)."""
        return np.flatnonzero(mask if self.present_rows is None else mask & self.present_rows)

    def rows_named(self, text: str) -> Sequence[int]:
        """Rows whose id or name is exactly `text`, or else but for letter case, or as words.

        A name with a slash counts only where no id reads so: nothing *named* like the id of another
        tool stands beside it.
        """
        name = name_in_query(text)
        folded = name.casefold()
        for prefix in ("", _NAME_MARK):
            if ids := self.by_name.get(prefix + name):
                return self._rows_of(ids)
            same_folded = (
                table.get(prefix + folded, ()) for table in (self.by_name, self.by_folded_name)
            )
            if all_ids := {tool_id for ids in same_folded for tool_id in ids}:
                return self._rows_of(all_ids)
        return self._rows_of(self.by_spoken_name.get(_as_words(name), ()))

    def rows_spelled_out(
        self,
        text: str,
        tools: Sequence[Tool],
        ranked_rows: NDArray[np.int64],
        allowed: NDArray[np.bool_] | None = None,
    ) -> Sequence[int]:
        """Rows whose whole name is in a command, best first: `create_issue` in "create an issue".

        There are none for a question. There are none either if the best ranked row matches more of
        the text by its name and server: "create an issue in Jira" is not for `github/create_issue`.
        Ties are in order of rank.

        Args:
            text: the query.
            tools: tools by row.
            ranked_rows: permitted rows that a search found, best first, shape (m,).
            allowed: mask of the permitted rows, shape (n,); None for all.
        """
        terms = frozenset(query_terms(text))
        if not _MIN_NAME_TERMS <= len(terms) <= _MAX_COMMAND_TERMS:
            return ()
        replaceable = terms & _verbs_of_names().keys()
        verbs = [verb for term in replaceable for verb in _verbs_of_names()[term]]
        rows = self._rows_within(terms, tools, allowed)
        if not rows and verbs:
            rows = self._rows_within(terms.union(verbs), tools, allowed)
        if not rows or is_question(text):
            return ()
        accepted = terms.union(verbs)
        min_covered = _MIN_COVERED_SHARE * len(terms)
        words = frozenset(lower_words(text))
        matches = {
            row: match
            for row in rows
            if (match := _NameMatch.of(tools[row], accepted, words)).covered >= min_covered
            and match.same_words >= _MIN_SAME_WORDS
        }
        best = max(matches.values(), default=_NameMatch(0, 0.0))
        ranked = [_NameMatch.of(tools[row], accepted, words) for row in ranked_rows[:1].tolist()]
        if not matches or max(ranked, default=best) > best:
            return ()
        places = {row: place for place, row in enumerate(ranked_rows.tolist())}
        in_order = sorted(matches, key=lambda row: (places.get(row, len(places)), row))
        return sorted(in_order, key=matches.__getitem__, reverse=True)

    def _rows_within(
        self, terms: frozenset[str], tools: Sequence[Tool], allowed: NDArray[np.bool_] | None
    ) -> list[int]:
        """Permitted rows whose names have only these terms."""
        return [
            row
            for pair in combinations(sorted(terms & self._first_terms), _MIN_NAME_TERMS)
            for tool_id in self.by_name_terms.get(" ".join(pair), ())
            if terms_of_name(tools[row := self.rows[tool_id]].name) <= terms
            and (allowed is None or allowed[row])
        ]

    def _rows_of(self, ids: Collection[str]) -> Sequence[int]:
        return sorted(self.rows[tool_id] for tool_id in ids)


def _present(tools: Sequence[Tool], present: NDArray[np.bool_] | None) -> Sequence[Tool]:
    return tools if present is None else list(compress(tools, present.tolist()))


_Ids = dict[str, dict[str, None]]
"""Key of a table to the ids that have it, in order."""


def _entries(tools: Iterable[Tool]) -> tuple[_Ids, _Ids, _Ids, _Ids]:
    """The entries `by_name`, `by_folded_name`, `by_spoken_name` and `by_name_terms` of tools."""
    exact: _Ids = {}
    folded: _Ids = {}
    spelled: _Ids = {}
    by_terms: _Ids = {}
    for tool in tools:
        tool_id, name = tool.id, tool.name
        for key in {tool_id, _NAME_MARK + name if "/" in name and name != tool_id else name}:
            exact.setdefault(key, {})[tool_id] = None
            if (folded_key := key.casefold()) != key:
                folded.setdefault(folded_key, {})[tool_id] = None
        if "/" not in name:
            # With the server's name too, so that a stranger's `github_search` never comes alone.
            for key in {_as_words(name), _as_words(tool_id)}:
                if " " in key:
                    spelled.setdefault(key, {})[tool_id] = None
        terms = sorted(terms_of_name(name))[:_MIN_NAME_TERMS]
        if len(terms) == _MIN_NAME_TERMS:
            by_terms.setdefault(" ".join(terms), {})[tool_id] = None
    return exact, folded, spelled, by_terms


@lru_cache(_CACHED_NAMES)
def terms_of_name(name: str) -> frozenset[str]:
    """The search terms of the words of a name."""
    return frozenset(search_terms(_as_words(name)))


@cache
def _verbs_of_names() -> Mapping[str, Sequence[str]]:
    """`_VERBS_OF_NAMES` as search terms."""
    return {
        search_terms(verb)[0]: [search_terms(other)[0] for other in others]
        for verb, others in _VERBS_OF_NAMES.items()
    }


def _as_words(name: str) -> str:
    """The words of a name, in lower case, with a blank between."""
    if name.isascii() and name.islower() and name.replace("_", "").isalpha():
        return name.replace("_", " ")
    return identifiers_as_words(name).casefold()


def name_in_query(text: str) -> str:
    """The id or name that a query may be, without blanks and quotes around it."""
    # Names and ids are held in NFC, see `Tool`.
    return unicodedata.normalize("NFC", text).strip().strip("`'\"")
