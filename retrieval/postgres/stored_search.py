"""Searches a tenant's catalog in PostgreSQL: BM25, nearest vectors, or both in one statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import ConfigError, StoreError
from ...models import Encoder
from ...text import query_terms
from ..query import Query, Ranking
from .database import Database
from .stored_catalog import FIELD_NUMBERS

K1, B = 1.2, 0.75
MAX_TERMS = 96
"""Distinct terms of a query that are looked up; a longer query keeps its first ones."""

_STEP_US = 30.0
"""Processor time of a step in the graph of vectors; measured, as those below."""
_FEWEST_STEPS = 200
"""Steps of the shortest walk; `hnsw.ef_search` of the connections."""
_BY_NUMBER_US = 1.7
"""Time to find a tool's vector by its number and compare it."""
_PASSED_US = 0.4
"""Time to pass a tool between the first and the last permitted one."""
_COMPARED_US = 0.6
"""Time to compare its vector too."""

Mask = NDArray[np.bool_]


class StoredRows:
    """The rows of one catalog version, and the numbers of their definitions in the database.

    Args:
        numbers: number of each row's definition, shape (n,); rows are in order of tool id.
    """

    def __init__(self, numbers: NDArray[np.int32]) -> None:
        self.numbers = numbers
        self._bit_count = int(numbers.max(initial=-1)) + 1
        self._row_of = np.full(self._bit_count, -1, np.int64)
        self._row_of[numbers] = np.arange(len(numbers))

    def __len__(self) -> int:
        return len(self.numbers)

    def bits(self, allowed: Mask | None) -> bytes:
        """A bit for each number, set for permitted rows; what this version lacks is not set."""
        bits = np.zeros(self._bit_count, np.bool_)
        bits[self.numbers if allowed is None else self.numbers[allowed]] = True
        return np.packbits(bits, bitorder="little").tobytes()

    def ranking(
        self, numbers: NDArray[np.int64], scores: NDArray[np.float32], depth: int
    ) -> Ranking:
        """The best rows of unordered numbers, ties by row."""
        return Ranking.best(self._row_of[numbers], scores, depth)


class VectorPath(Enum):
    """How the nearest vectors among the permitted ones are found.

    Attributes:
        GRAPH: by the graph of all tenants' vectors, which is approximate.
        NUMBERS: each permitted one is compared, found by its number.
        RANGE: each between the first and the last permitted one is read, the permitted compared.
    """

    GRAPH = auto()
    NUMBERS = auto()
    RANGE = auto()


@dataclass(frozen=True, slots=True)
class TermSearch:
    """A search by terms.

    Args:
        text: the query.
        boosts: field to its weight in the BM25 sum, all above 0.
    """

    text: str
    boosts: Mapping[str, float]

    @property
    def terms(self) -> Sequence[str]:
        """The distinct terms of the query that are searched for."""
        return query_terms(self.text)[:MAX_TERMS]

    def statement(
        self,
        name: str,
        path: VectorPath,  # noqa: ARG002 - of the other searches
    ) -> tuple[str, dict[str, Any]] | None:
        """The statement, with its parameters; None if no tool can be found.

        Beside the tools it finds a row for each term that any tool of the tenant has: its place
        among the terms, from -1 downwards, in place of a tool's number.
        """
        if not self.terms:
            return None
        # Materialized, so that the logarithm is computed once a term and not once a posting. OFFSET
        # keeps the look-up of a term by the whole key, also for a tenant of unknown size.
        sql = f"""
            WITH weights AS MATERIALIZED (
                SELECT t.term, t.field, {K1 * (1 - B)}::float8 AS base,
                    f.boost * {1 + K1}::float8 * ln(1 + (c.documents - t.documents + 0.5::float8)
                        / (t.documents + 0.5::float8)) AS weight,
                    {K1 * B}::float8 * c.documents / l.words AS slope
                FROM shortlist.terms t
                JOIN unnest(%({name}_fields)s::smallint[], %({name}_boosts)s::float8[])
                    AS f(field, boost) ON f.field = t.field
                JOIN shortlist.lengths l ON l.tenant = t.tenant AND l.field = t.field
                JOIN shortlist.tenants c ON c.tenant = t.tenant
                WHERE t.tenant = %(tenant)s::integer AND t.term = ANY(%({name}_terms)s)
                    AND t.documents > 0
            )
            (SELECT number,
                sum(weight * p.count / (p.count + base + slope * p.length))::real AS score
            FROM weights w CROSS JOIN LATERAL (
                SELECT number, count, length FROM shortlist.postings
                WHERE tenant = %(tenant)s::integer AND term = w.term AND field = w.field
                    AND shortlist.is_permitted(%(mask)s, number)
                OFFSET 0
            ) AS p
            GROUP BY number ORDER BY score DESC FETCH FIRST %(depth)s ROWS WITH TIES)
            UNION ALL
            SELECT DISTINCT -array_position(%({name}_terms)s::text[], term::text), 0::real
            FROM weights
        """
        parameters = {
            f"{name}_terms": list(self.terms),
            f"{name}_fields": [FIELD_NUMBERS[field] for field in self.boosts],
            f"{name}_boosts": list(self.boosts.values()),
        }
        return sql, parameters


@dataclass(frozen=True, slots=True)
class VectorSearch:
    """A search by a vector.

    Args:
        vector: vector of the query, shape (dim,).
        model: number of the model in the database.
    """

    vector: NDArray[np.float32]
    model: int

    def statement(self, name: str, path: VectorPath) -> tuple[str, dict[str, Any]] | None:
        """The statement, with its parameters."""
        dim = len(self.vector)
        if path is VectorPath.GRAPH:
            sql = f"""
                SELECT near.number, (-(near.values <#> %({name}_vector)s))::real AS score
                FROM (
                    SELECT t.number, v.values FROM shortlist.vectors v
                    JOIN shortlist.tools t ON t.vector_key = v.key AND t.tenant = v.tenant
                    WHERE v.model = {self.model} AND t.tenant = %(tenant)s
                        AND shortlist.is_permitted(%(mask)s, t.number)
                    ORDER BY v.values::halfvec({dim}) <#> %({name}_vector)s::halfvec({dim})
                    LIMIT %(depth)s
                ) AS near
            """
        else:
            among = (
                "number = ANY(%(numbers)s::integer[])"
                if path is VectorPath.NUMBERS
                else "number BETWEEN %(first)s::integer AND %(last)s::integer "
                "AND shortlist.is_permitted(%(mask)s, number)"
            )
            sql = f"""
                SELECT number, (-(values <#> %({name}_vector)s))::real AS score
                FROM shortlist.tool_vectors
                WHERE tenant = %(tenant)s::integer AND model = {self.model} AND {among}
                    AND values IS NOT NULL
                ORDER BY score DESC FETCH FIRST %(depth)s ROWS WITH TIES
            """
        return sql, {f"{name}_vector": self.vector}


class StoredSearch:
    """Searches one version of a tenant's catalog, inside a mask.

    Args:
        database: connections of the tenant.
        tenant: number of the tenant.
        rows: the rows of the version.
        boosts: field to its weight in the BM25 sum, all above 0.
        dense_model: number of the encoder in the database, or None.
        static: encoder of static vectors and its number in the database, or None.
        vector_count: about how many vectors of a model the database has, of all tenants.
        version: the version of the catalog in the database that is searched.
    """

    def __init__(
        self,
        database: Database,
        tenant: int,
        rows: StoredRows,
        *,
        boosts: Mapping[str, float] = MappingProxyType({}),
        dense_model: int | None = None,
        static: tuple[Encoder, int] | None = None,
        vector_count: int = 0,
        version: int = 0,
    ) -> None:
        self._database = database
        self._tenant = tenant
        self.rows = rows
        self._boosts = boosts
        self._dense_model = dense_model
        self._static = static
        self._vector_count = vector_count
        self.version = version

    def search(self, query: Query, stages: Sequence[str], depth: int) -> dict[str, Ranking]:
        """The rankings of several stages of one statement, by stage; see `JointSearch`."""
        searches = [self._search_of(stage, query) for stage in stages]
        return dict(zip(stages, self.rankings(searches, depth, query.allowed), strict=True))

    def _cheapest_path(self, numbers: NDArray[np.int32], depth: int) -> VectorPath:
        """The path that takes the least time for permitted numbers.

        The graph has vectors of all tenants: `depth` permitted ones lie among more steps, the fewer
        of all are permitted.
        """
        count = len(numbers)
        steps = depth * max(self._vector_count, len(self.rows)) / count
        passed = int(numbers.max()) - int(numbers.min()) + 1
        times = {
            VectorPath.RANGE: _PASSED_US * passed + _COMPARED_US * count,
            VectorPath.NUMBERS: _BY_NUMBER_US * count,
            VectorPath.GRAPH: _STEP_US * max(steps, _FEWEST_STEPS),
        }
        return min(times, key=times.__getitem__)

    def _search_of(self, stage: str, query: Query) -> TermSearch | VectorSearch:
        if stage == "lexical":
            return TermSearch(query.text, self._boosts)
        if stage == "static" and self._static is not None:
            encoder, model = self._static
            return VectorSearch(encoder.encode([query.text], query=True)[0], model)
        if stage == "dense" and self._dense_model is not None and query.vector is not None:
            return VectorSearch(query.vector, self._dense_model)
        raise ConfigError(f"no stage {stage!r} in PostgreSQL")

    def rankings(
        self, searches: Sequence[TermSearch | VectorSearch], depth: int, allowed: Mask | None
    ) -> list[Ranking]:
        """The ranking of each search, all of one statement and so of one version."""
        numbers = self.rows.numbers if allowed is None else self.rows.numbers[allowed]
        if depth < 1 or not len(numbers):
            return [Ranking.empty() for _ in searches]
        parameters: dict[str, Any] = {
            "tenant": self._tenant,
            "depth": depth,
            "mask": self.rows.bits(allowed),
        }
        path = self._cheapest_path(numbers, depth)
        if path is VectorPath.NUMBERS:
            parameters["numbers"] = numbers.tolist()
        elif path is VectorPath.RANGE:
            parameters |= {"first": int(numbers.min()), "last": int(numbers.max())}
        parts = []
        for place, search in enumerate(searches):
            made = search.statement(f"s{place}", path)
            if made is not None:
                sql, further = made
                parts.append(f"SELECT {place} AS part, number, score FROM ({sql}) AS s{place}")
                parameters |= further
        found = self._database.fetch(" UNION ALL ".join(parts), parameters) if parts else []
        places = np.array([part for part, _, _ in found], np.int64)
        found_numbers = np.array([number for _, number, _ in found], np.int64)
        scores = np.array([score for _, _, score in found], np.float32)
        rankings = []
        for place, search in enumerate(searches):
            of_search = (places == place) & (found_numbers >= 0)
            ranking = self.rows.ranking(found_numbers[of_search], scores[of_search], depth)
            if isinstance(search, TermSearch):
                known = np.sort(-found_numbers[(places == place) & (found_numbers < 0)])
                ranking = replace(
                    ranking,
                    # If there are fewer than `depth`, all other tools share no term with the query.
                    max_other_score=0.0 if len(ranking) < depth else ranking.max_other_score,
                    searched_terms=[search.terms[number - 1] for number in known],
                )
            rankings.append(ranking)
        return rankings


class _StoredIndex:
    def save(self, folder: Path) -> None:
        """Refuse: the database has the index already."""
        raise StoreError(
            f"{folder}: not written: this catalog is in PostgreSQL already, see `index.backend`"
        )


class StoredLexicalIndex(_StoredIndex):
    """The lexical index of a catalog version in PostgreSQL.

    Args:
        search: searches the version.
        boosts: field to its weight in the BM25 sum, all above 0.
    """

    def __init__(self, search: StoredSearch, boosts: Mapping[str, float]) -> None:
        self._search = search
        self.boosts = boosts

    def search(self, text: str, depth: int, allowed: Mask | None = None) -> Ranking:
        """Rows that share a term with `text`, best first, at most `depth`, inside the mask."""
        return self._search.rankings([TermSearch(text, self.boosts)], depth, allowed)[0]


class StoredVectorIndex(_StoredIndex):
    """The vectors of one model for a catalog version in PostgreSQL.

    Args:
        search: searches the version.
        model: number of the model.
    """

    def __init__(self, search: StoredSearch, model: int) -> None:
        self._search = search
        self.model = model

    def search(
        self, vector: NDArray[np.float32], depth: int, allowed: Mask | None = None
    ) -> Ranking:
        """The `depth` rows inside the mask with the largest inner product."""
        return self._search.rankings([VectorSearch(vector, self.model)], depth, allowed)[0]
