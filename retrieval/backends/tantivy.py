"""BM25 over the fields of a tool, on tantivy."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import tantivy
from numpy.typing import NDArray

from ...errors import ConfigError, StoreError
from ...text import ANALYZER, analyzer, lower_words, query_terms
from ..query import Ranking
from .tantivy_settings import TantivySettings

#: Distinct terms of a query that are looked up; a longer query keeps its first ones.
MAX_TERMS = 96
# A mask that admits few rows of many (measured: under 1 in 100) is cheaper as a clause of the
# query; otherwise hits are read on until enough of them are admitted.
_MASK_CLAUSE_SHARE = 100
_MASK_CLAUSE_ROWS = 512
_EXTRA_HITS = 8
_ROW_FIELD = "row"
_WRITER_BYTES = 128_000_000
# A term that no document has is corrected if it is as long as this, to one with the same start.
_MIN_CORRECTED_CHARS, _SAME_START = 5, 2

_Clause = tuple[tantivy.Occur, tantivy.Query]


class TantivyIndex:
    """BM25 (k1 = 1.2, b = 0.75) summed over fields, each with its own boost.

    Fields contain analysed text, so that documents and queries have the same analysis. A query is a
    disjunction of terms: user input is never parsed.

    Args:
        index: the index, opened for searches.
        boosts: field name to its weight in the sum, above 0.
        documents: what was indexed; for an index opened from disk, its folder.
    """

    Settings = TantivySettings

    def __init__(
        self,
        index: tantivy.Index,
        boosts: Mapping[str, float],
        documents: Sequence[Mapping[str, str]] | Path,
    ) -> None:
        self._boosts = boosts
        self._documents = documents
        self._schema = index.schema
        self._searcher = index.searcher()
        # Of terms that were asked for. Making them takes a tenth of a search's time.
        self._clauses: dict[str, Sequence[_Clause]] = {}

    @classmethod
    def build(cls, documents: Sequence[Mapping[str, str]], boosts: Mapping[str, float]) -> Self:
        """Index documents, row by row, in memory.

        Args:
            documents: for each row, field name to raw text; kept, to be read again by `save`.
            boosts: field name to its weight in the sum; fields at 0 are left out.
        """
        boosts = _positive(boosts)
        index = tantivy.Index(_schema(boosts))
        _fill(index, documents, boosts)
        return cls(_open_for_search(index), boosts, documents)

    @classmethod
    def load(cls, folder: Path, boosts: Mapping[str, float]) -> Self | None:
        """Open a saved index in place; its files are mapped, not read, and never written.

        None for a folder that cannot be written: tantivy needs a lock file even to read, so the
        caller builds the index anew in memory. A copy on disk would stay behind a killed process.
        """
        boosts = _positive(boosts)
        if folder.is_dir() and not os.access(folder, os.W_OK):
            return None
        try:
            return cls(_open_for_search(tantivy.Index.open(str(folder))), boosts, folder)
        except ValueError as error:
            raise StoreError(f"{folder}: not a readable lexical index ({error})") from error

    def save(self, folder: Path) -> None:
        """Write the index into a new folder, as if built anew.

        Raises:
            OSError: the disk refuses.
        """
        if isinstance(self._documents, Path):
            ignored = shutil.ignore_patterns(".*", "*.lock")
            shutil.copytree(self._documents, folder, ignore=ignored)
        else:
            folder.mkdir(parents=True)
            try:
                index = tantivy.Index(self._schema, path=str(folder))
                _fill(index, self._documents, self._boosts)
            except ValueError as error:
                raise OSError(f"tantivy cannot write: {error}") from error
            for lock in folder.glob("*.lock"):
                lock.unlink()
        # Tantivy keeps some files to their owner; who may list the folder may open the index.
        mode = folder.stat().st_mode & 0o666
        for path in folder.iterdir():
            path.chmod(mode)

    def search(self, text: str, depth: int, allowed: NDArray[np.bool_] | None = None) -> Ranking:
        """Rows sharing a term with `text`, best first, at most `depth`, all inside the mask.

        If there are fewer than `depth`, all other rows share no term and would score 0.
        """
        terms = self._searched_terms(query_terms(text)[:MAX_TERMS])
        ranking = self._search(terms, depth, allowed)
        max_other_score = 0.0 if len(ranking) < depth else None
        return replace(ranking, max_other_score=max_other_score, searched_terms=terms)

    def _search(
        self, terms: Sequence[str], depth: int, allowed: NDArray[np.bool_] | None
    ) -> Ranking:
        query = self._query(terms)
        total = self._searcher.num_docs
        if query is None or total == 0 or depth < 1:
            return Ranking.empty()
        if allowed is None:
            return self._collect(query, min(depth, total))
        admitted = int(np.count_nonzero(allowed))
        if admitted == 0:
            return Ranking.empty()
        if admitted <= min(_MASK_CLAUSE_ROWS, total // _MASK_CLAUSE_SHARE):
            rows = np.flatnonzero(allowed).tolist()
            mask = tantivy.Query.term_set_query(self._schema, _ROW_FIELD, rows)
            clause = tantivy.Query.const_score_query(mask, 0.0)
            query = tantivy.Query.boolean_query(
                [(tantivy.Occur.Must, query), (tantivy.Occur.Must, clause)]
            )
            return self._collect(query, min(depth, total))
        # As many hits as hold enough admitted ones if these are spread evenly, and a reserve.
        limit = min(total, depth * total // admitted + depth // 4 + _EXTRA_HITS)
        while True:
            ranking = self._collect(query, limit)
            inside = allowed[ranking.rows]
            if len(ranking) < limit or limit == total or np.count_nonzero(inside) >= depth:
                return Ranking(ranking.rows[inside], ranking.scores[inside]).head(depth)
            limit = min(total, limit * 4)

    def _query(self, terms: Sequence[str]) -> tantivy.Query | None:
        clauses = [
            clause for term in terms for clause in self._clauses.get(term) or self._clauses_of(term)
        ]
        return tantivy.Query.boolean_query(clauses) if clauses else None

    def _clauses_of(self, term: str) -> Sequence[_Clause]:
        """A clause for each field that has the term, kept for the next queries."""
        self._clauses[term] = [
            (
                tantivy.Occur.Should,
                tantivy.Query.boost_query(
                    tantivy.Query.term_query(self._schema, field, term, "freq"), boost
                ),
            )
            for field, boost in self._boosts.items()
            if term in self._terms_by_field[field]
        ]
        return self._clauses[term]

    @cached_property
    def _terms_by_field(self) -> Mapping[str, frozenset[str]]:
        """Field to its terms."""
        return {
            field: frozenset(term for term, _ in self._searcher.terms_with_prefix(field, ""))
            for field in self._boosts
        }

    @cached_property
    def _known_terms(self) -> frozenset[str]:
        return frozenset().union(*self._terms_by_field.values())

    @cached_property
    def _terms_by_start(self) -> Mapping[tuple[str, int], Sequence[str]]:
        """First letters and length to the terms with them, the most frequent first."""
        counts: Counter[str] = Counter()
        for field in self._boosts:
            counts.update(dict(self._searcher.terms_with_prefix(field, "")))
        by_start: dict[tuple[str, int], list[str]] = {}
        for term, _ in counts.most_common():
            by_start.setdefault((term[:_SAME_START], len(term)), []).append(term)
        return by_start

    def _searched_terms(self, terms: Sequence[str]) -> Sequence[str]:
        """The terms that a document has; for any other, the most frequent one that is like it."""
        known = [term for term in terms if term in self._known_terms]
        if len(known) == len(terms):
            return terms
        corrections = [
            next(
                (
                    other
                    for length in (len(term), len(term) + 1, len(term) - 1)
                    for other in self._terms_by_start.get((term[:_SAME_START], length), ())
                    if _is_one_edit_away(term, other)
                ),
                None,
            )
            for term in terms
            if len(term) >= _MIN_CORRECTED_CHARS
            and term not in self._known_terms
            and term.isascii()
            and term.isalpha()
        ]
        return tuple(dict.fromkeys([*known, *filter(None, corrections)]))

    def _collect(self, query: tantivy.Query, limit: int) -> Ranking:
        """The best rows. The index is one segment, so that the first of equal rows are found."""
        hits = self._searcher.search(query, limit, count=False).hits
        rows = np.array(
            self._searcher.fast_field_values(_ROW_FIELD, [address for _, address in hits]), np.int64
        )
        scores = np.array([score for score, _ in hits], np.float32)
        order = np.lexsort((rows, -scores))
        return Ranking(rows[order], scores[order])


def _is_one_edit_away(term: str, other: str) -> bool:
    """Whether one letter more, less or different, or two swapped, make the one term the other.

    Both begin with the same `_SAME_START` letters.
    """
    at = _SAME_START
    while at < min(len(term), len(other)) and term[at] == other[at]:
        at += 1
    if len(term) != len(other):
        return term[at + 1 :] == other[at:] or term[at:] == other[at + 1 :]
    is_swap = term[at : at + 2] == other[at : at + 2][::-1]
    return term[at + 1 :] == other[at + 1 :] or (is_swap and term[at + 2 :] == other[at + 2 :])


def _positive(boosts: Mapping[str, float]) -> Mapping[str, float]:
    positive = {field: boost for field, boost in boosts.items() if boost > 0}
    if not positive:
        raise ConfigError("lexical.boosts: at least one field needs a boost above 0")
    return positive


def _schema(fields: Iterable[str]) -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    for name in fields:
        builder.add_text_field(name, tokenizer_name=ANALYZER, index_option="freq")
    builder.add_unsigned_field(_ROW_FIELD, indexed=True, fast=True)
    return builder.build()


def _open_for_search(index: tantivy.Index) -> tantivy.Index:
    """The index as it was opened or written, to be searched."""
    index.register_tokenizer(ANALYZER, analyzer())
    index.config_reader("manual", 0)
    index.reload()
    return index


def _analysed(document: Mapping[str, str]) -> dict[str, str]:
    return {name: " ".join(lower_words(text)) for name, text in document.items() if text}


def _fill(
    index: tantivy.Index, documents: Sequence[Mapping[str, str]], boosts: Mapping[str, float]
) -> None:
    """Write all documents as one segment."""
    index.register_tokenizer(ANALYZER, analyzer())
    writer = index.writer(heap_size=_WRITER_BYTES, num_threads=1)
    for row in range(len(documents)):
        writer.add_document(_entry(row, _analysed(documents[row]), boosts))
    writer.commit()
    writer.wait_merging_threads()


def _entry(row: int, fields: Mapping[str, str], indexed_fields: Container[str]) -> tantivy.Document:
    entry = tantivy.Document()
    entry.add_unsigned(_ROW_FIELD, row)
    for name, text in fields.items():
        if text and name in indexed_fields:
            entry.add_text(name, text)
    return entry
