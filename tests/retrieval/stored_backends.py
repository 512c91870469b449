"""The search in PostgreSQL as a lexical and a dense backend, for the contract suites.

What a contract calls a build is a new tenant; its folder on disk names the tenant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from itertools import count
from pathlib import Path

import numpy as np

from shortlist.errors import ConfigError, StoreError
from shortlist.retrieval import Ranking
from shortlist.retrieval.postgres.database import Database
from shortlist.retrieval.postgres.stored_catalog import StoredCatalog, StoredDocument
from shortlist.retrieval.postgres.stored_search import (
    StoredRows,
    StoredSearch,
    TermSearch,
    VectorSearch,
)
from shortlist.retrieval.postgres.stored_vectors import StoredVectors

from .vectors import Floats, Mask

_FILE = "tenant"
_NUMBERS = count()


class StoredBackend:
    """A backend of a database."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    def _catalog(self, tenant: str) -> StoredCatalog:
        return StoredCatalog(Database(self._dsn, tenant))

    def _written(
        self,
        tenant: str,
        rows: Sequence[Mapping[str, str]],
        keys: Sequence[bytes],
        models: Sequence[int] = (),
    ) -> None:
        self._catalog(tenant).write(
            [
                StoredDocument(
                    f"{row:06d}", "", 0, row, b"", keys[row], "{}", partial(dict, fields)
                )
                for row, fields in enumerate(rows)
            ],
            models=models,
        )

    def _opened(self, folder: Path) -> str:
        try:
            return (folder / _FILE).read_text()
        except OSError as error:
            raise StoreError(f"{folder}: no tenant") from error


class _StoredIndex:
    def __init__(self, catalog: StoredCatalog) -> None:
        self._catalog = catalog

    @cached_property
    def search_(self) -> StoredSearch:
        numbers = np.array(self._catalog.read().numbers, np.int32)
        tenant = self._catalog.tenant_number()
        return StoredSearch(self._catalog.database, tenant, StoredRows(numbers))

    def save(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        (folder / _FILE).write_text(self._catalog.database.tenant)


class _Lexical(_StoredIndex):
    def __init__(self, catalog: StoredCatalog, boosts: Mapping[str, float]) -> None:
        super().__init__(catalog)
        self._boosts = boosts

    def search(self, text: str, depth: int, allowed: Mask | None = None) -> Ranking:
        return self.search_.rankings([TermSearch(text, self._boosts)], depth, allowed)[0]


class StoredLexicalBackend(StoredBackend):
    def build(
        self, documents: Sequence[Mapping[str, str]], boosts: Mapping[str, float]
    ) -> _Lexical:
        positive = {field: boost for field, boost in boosts.items() if boost > 0}
        if not positive:
            raise ConfigError("a boost")
        rows = [
            {field: text for field, text in document.items() if field in positive}
            for document in documents
        ]
        tenant = f"tenant-{next(_NUMBERS)}"
        self._written(tenant, rows, [b""] * len(rows))
        return _Lexical(self._catalog(tenant), positive)

    def load(self, folder: Path, boosts: Mapping[str, float]) -> _Lexical:
        return _Lexical(self._catalog(self._opened(folder)), boosts)


class _Dense(_StoredIndex):
    def __init__(self, catalog: StoredCatalog, model: int) -> None:
        super().__init__(catalog)
        self._model = model

    def search(self, vector: Floats, depth: int, allowed: Mask | None = None) -> Ranking:
        return self.search_.rankings([VectorSearch(vector, self._model)], depth, allowed)[0]


class StoredDenseBackend(StoredBackend):
    def build(self, vectors: Floats) -> _Dense:
        keys = [f"{next(_NUMBERS)}".encode() for _ in vectors]
        tenant = f"tenant-{next(_NUMBERS)}"
        stored = StoredVectors(Database(self._dsn, tenant))
        model = stored.model(f"dim {vectors.shape[1]}", vectors.shape[1])
        stored.put(model, dict(zip(keys, vectors, strict=True)))
        self._written(tenant, [{}] * len(vectors), keys, [model])
        return _Dense(self._catalog(tenant), model)

    def load(self, folder: Path, vectors: Floats) -> _Dense:
        catalog = self._catalog(self._opened(folder))
        model = StoredVectors(catalog.database).model(f"dim {vectors.shape[1]}", vectors.shape[1])
        return _Dense(catalog, model)
