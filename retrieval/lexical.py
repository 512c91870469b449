"""BM25 over the fields of a tool, on tantivy."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np
import tantivy
from numpy.typing import NDArray

from ..errors import ConfigError, StoreError
from ..text import ANALYZER, analyzer, terms, words
from .query import Ranking
from .settings import TantivySettings

#: Distinct terms of a query that are looked up; a longer query keeps its first ones.
MAX_TERMS = 96
# A mask that admits few rows of many (measured: under 1 in 100) is cheaper as a clause of the
# query; otherwise hits are read on until enough of them are admitted.
_MASK_CLAUSE_SHARE = 100
_MASK_CLAUSE_ROWS = 512
_RESERVE = 8
_ROW = "row"
_WRITER_BYTES = 128_000_000


class TantivyIndex:
    """BM25 (k1 = 1.2, b = 0.75) summed over fields, each with its own boost.

    Built once for a catalog version and never changed. Fields hold already analysed text, so that
    documents and queries go through one analysis (`analysis.words`), and a query is a disjunction
    of terms: nothing a user types is ever parsed.
    """

    Settings = TantivySettings

    def __init__(self, folder: Path, boosts: Mapping[str, float]) -> None:
        self._folder = folder
        self._boosts = {field: boost for field, boost in boosts.items() if boost > 0}
        if not self._boosts:
            raise ConfigError("lexical.boosts: at least one field needs a boost above 0")
        try:
            self._index = tantivy.Index.open(str(folder))
        except ValueError as error:
            raise StoreError(f"{folder}: not a readable lexical index ({error})") from error
        self._index.register_tokenizer(ANALYZER, analyzer())
        self._schema = self._index.schema
        self._index.reload()
        self._searcher = self._index.searcher()

    @classmethod
    def build(cls, documents: Sequence[Mapping[str, str]], boosts: Mapping[str, float]) -> Self:
        """Index documents, row by row.

        Args:
            documents: for each row, field name to raw text.
            boosts: field name to its weight in the sum; fields at 0 are left out.
        """
        builder = tantivy.SchemaBuilder()
        for field in boosts:
            builder.add_text_field(field, tokenizer_name=ANALYZER, index_option="freq")
        builder.add_unsigned_field(_ROW, indexed=True, fast=True)
        folder = _scratch()
        index = tantivy.Index(builder.build(), path=str(folder))
        index.register_tokenizer(ANALYZER, analyzer())
        writer = index.writer(heap_size=_WRITER_BYTES, num_threads=1)
        for row, document in enumerate(documents):
            entry = tantivy.Document()
            entry.add_unsigned(_ROW, row)
            for field, text in document.items():
                if text and field in boosts:
                    entry.add_text(field, " ".join(words(text)))
            writer.add_document(entry)
        writer.commit()
        writer.wait_merging_threads()
        return cls._owning(folder, boosts)

    @classmethod
    def load(cls, folder: Path, boosts: Mapping[str, float]) -> Self:
        """Open a saved index in place; its files are mapped, not read.

        Tantivy writes a lock file even to read, so a folder that cannot be written is copied.
        """
        if os.access(folder, os.W_OK) or not folder.is_dir():
            return cls(folder, boosts)
        copy = _scratch()
        shutil.copytree(folder, copy, dirs_exist_ok=True, copy_function=shutil.copyfile)
        return cls._owning(copy, boosts)

    @classmethod
    def _owning(cls, folder: Path, boosts: Mapping[str, float]) -> Self:
        """Open an index in a folder that goes when the index does."""
        index = cls(folder, boosts)
        weakref.finalize(index, shutil.rmtree, folder, ignore_errors=True)
        return index

    def save(self, folder: Path) -> None:
        """Write the index into a new folder."""
        shutil.copytree(self._folder, folder, ignore=shutil.ignore_patterns(".*", "*.lock"))

    def search(self, text: str, depth: int, allowed: NDArray[np.bool_] | None = None) -> Ranking:
        """Rows sharing a term with `text`, best first, at most `depth`, all inside the mask.

        Where these are fewer than `depth`, all other rows share no term and would score 0.
        """
        found = self._search(text, depth, allowed)
        return replace(found, rest=0.0) if len(found) < depth else found

    def _search(self, text: str, depth: int, allowed: NDArray[np.bool_] | None) -> Ranking:
        query = self._query(text)
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
            mask = tantivy.Query.term_set_query(self._schema, _ROW, rows)
            clause = tantivy.Query.const_score_query(mask, 0.0)
            query = tantivy.Query.boolean_query(
                [(tantivy.Occur.Must, query), (tantivy.Occur.Must, clause)]
            )
            return self._collect(query, min(depth, total))
        # As many hits as hold enough admitted ones if these are spread evenly, and a reserve.
        limit = min(total, depth * total // admitted + depth // 4 + _RESERVE)
        while True:
            found = self._collect(query, limit)
            inside = allowed[found.rows]
            if len(found) < limit or limit == total or np.count_nonzero(inside) >= depth:
                return Ranking(found.rows[inside], found.scores[inside]).head(depth)
            limit = min(total, limit * 4)

    def weight(self, term: str) -> float:
        """BM25's inverse document frequency of an analysed term, over the widest field."""
        total = self._searcher.num_docs
        found = max(self._searcher.doc_freq(field, term) for field in self._boosts)
        return math.log(1 + (total - found + 0.5) / (found + 0.5))

    def _query(self, text: str) -> tantivy.Query | None:
        clauses = [
            (
                tantivy.Occur.Should,
                tantivy.Query.boost_query(
                    tantivy.Query.term_query(self._schema, field, term, "freq"), boost
                ),
            )
            for term in list(dict.fromkeys(terms(text)))[:MAX_TERMS]
            for field, boost in self._boosts.items()
        ]
        return tantivy.Query.boolean_query(clauses) if clauses else None

    def _collect(self, query: tantivy.Query, limit: int) -> Ranking:
        hits = self._searcher.search(query, limit, count=False).hits
        rows = np.array(
            self._searcher.fast_field_values(_ROW, [address for _, address in hits]), np.int64
        )
        scores = np.array([score for score, _ in hits], np.float32)
        order = np.lexsort((rows, -scores))
        return Ranking(rows[order], scores[order])


def _scratch() -> Path:
    return Path(tempfile.mkdtemp(prefix="shortlist-lexical-"))
