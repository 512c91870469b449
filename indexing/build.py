"""What a build of a catalog version can do, wherever the catalog is: in memory or in a database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..catalog import Catalog
from ..retrieval.catalog_index import Index
from ..retrieval.example_queries import ExampleQueries
from ..retrieval.store.vectors import Vectors
from ..retrieval.store.versions import SavedVersion

if TYPE_CHECKING:
    from weakref import WeakMethod

Progress = Callable[[int, int], None]
"""Called with (tools encoded, tools to encode)."""

TEXTS_A_STEP = 64
"""Texts that are encoded in one step: a background build is stopped, and saved, between them."""


@dataclass(frozen=True, slots=True)
class CatalogVersion:
    """A catalog with what is known of its tools before anything is encoded.

    Args:
        catalog: the tools.
        queries: tool id to example queries.
        example_queries_hash: hash of the rows and pins that decided on `queries`.
        trusted_pin_ages: trusted tools and the ages of their pins, see `Builder.trusted_pin_ages`.
    """

    catalog: Catalog
    queries: Mapping[str, ExampleQueries] = field(default_factory=dict)
    example_queries_hash: str = ""
    trusted_pin_ages: Mapping[str, int] = field(default_factory=dict)


class Build(Protocol):
    """Makes the index of one catalog version.

    `encode_some` is called until it returns False, then `index`. `provisional_index` gives a
    version without a dense stage at once.
    """

    @property
    def version(self) -> CatalogVersion:
        """What is built."""
        ...

    @property
    def tools_to_encode(self) -> int:
        """Number of texts that still have to be encoded."""
        ...

    def encode_some(self, progress: Progress | None = None) -> bool:
        """Encode the next texts; False if there were none left.

        Raises:
            ModelError: the encoder cannot be loaded, or fails.
        """
        ...

    def save_encoded(self, folder: Path) -> None:
        """Keep what the last step encoded, beside the version that is saved in a folder.

        Raises:
            OSError: a file cannot be written.
        """
        ...

    def index(self) -> Index:
        """The whole index. Every text must have been encoded."""
        ...

    def provisional_index(self) -> Index:
        """The index without a dense stage; tiers that need one fall back."""
        ...


class Backend(Protocol):
    """Where catalog versions are kept and searched: one class a value of `index.backend`."""

    def begin(
        self,
        version: CatalogVersion,
        previous: Index | None,
        unfinished: Build | None,
        vectors: Vectors | None,
    ) -> Build:
        """Begin the build of a version.

        Args:
            version: what is built.
            previous: the version that is searched now.
            unfinished: a build of this backend that was given up; what it encoded is used again.
            vectors: further vectors by text.
        """
        ...

    def begin_saved(
        self, version: CatalogVersion, saved: SavedVersion, *, same_catalog: bool
    ) -> Build:
        """Begin a build from a saved index. Parts that no longer fit are built again.

        Args:
            version: what is built.
            saved: what was saved.
            same_catalog: whether the version has the saved tools.

        Raises:
            StoreError: this backend opens no folders.
        """
        ...

    def connect(
        self, version_of: Callable[[Catalog], CatalogVersion], previous: Index | None
    ) -> Build:
        """Begin a build of the catalog that other engines wrote.

        Args:
            version_of: makes the version of a catalog.
            previous: the version that is searched now, whose definitions are not read again.

        Raises:
            ConfigError: this backend shares no catalog.
            StoreError: the catalog cannot be read.
        """
        ...

    def has_newer_than(self, index: Index) -> bool:
        """Whether other engines have written another version of the catalog."""
        ...

    def follow(self, refresh: WeakMethod[Callable[[], bool]]) -> Follower | None:
        """What calls a method when other engines change the catalog; None if none can."""
        ...

    def save(
        self,
        index: Index,
        folder: Path,
        settings: Mapping[str, Any],
        screening: Mapping[str, Any] | None,
        quarantined: Mapping[str, str] | None,
    ) -> Path:
        """Write an index as the new current version of a folder; returns the version's folder.

        Raises:
            StoreError: it cannot be written, or is kept elsewhere already.
        """
        ...


class Follower(Protocol):
    """Follows the changes of other engines, until it is closed."""

    def close(self) -> None:
        """Stop following."""
        ...
