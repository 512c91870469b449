"""Where all replicas of a gateway keep what they share: in a database, if they have one.

Without one, a gateway keeps sessions and long results in memory, and pins and lists of servers in
files of its user.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ...config import Config


class SharedTexts(Protocol):
    """Small texts by kind and key, which all replicas read and change. Thread-safe.

    Every method raises StoreError if the texts cannot be reached.
    """

    def read(self, kind: str, key: str) -> str | None:
        """The present text; None if there is none, or it has ended."""
        ...

    def read_all(self, kind: str) -> dict[str, str]:
        """Key to text, for all texts of a kind."""
        ...

    def stamp(self, kind: str) -> str:
        """Another value after each change of a text of a kind; "" if there is none."""
        ...

    def change(
        self,
        kind: str,
        key: str,
        change: Callable[[str | None], str | None],
        *,
        kept_s: float | None = None,
    ) -> None:
        """Replace a text; other changes of the same text wait. See `StoredTexts.change`."""
        ...


def shared_state(engine_settings: Mapping[str, Any]) -> SharedTexts | None:
    """The texts beside the catalog of an engine; None if other engines do not share it.

    Args:
        engine_settings: settings of `Config`.

    Raises:
        ConfigError: a variable of the connection string is not set.
        MissingExtraError: psycopg or pgvector is not installed.
    """
    index = Config(**engine_settings).index
    if not index.is_shared or index.dsn is None:
        return None
    from ...retrieval.postgres.database import Database
    from ...retrieval.postgres.stored_texts import StoredTexts

    return StoredTexts(Database(index.dsn, index.tenant))
