"""The database in which all replicas of a gateway keep what they share, if they have one.

Without one, a gateway keeps sessions and long results in memory, and pins and lists of servers in
files of its user.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...config import Config

if TYPE_CHECKING:
    from ...retrieval.postgres.stored_texts import StoredTexts


def shared_state(engine_settings: Mapping[str, Any]) -> StoredTexts | None:
    """The texts in the database of an engine; None if its catalog is in no database.

    Args:
        engine_settings: settings of `Config`.

    Raises:
        ConfigError: a variable of the connection string is not set.
        MissingExtraError: psycopg or pgvector is not installed.
    """
    index = Config(**engine_settings).index
    if index.backend != "postgres" or index.dsn is None:
        return None
    from ...retrieval.postgres.database import Database
    from ...retrieval.postgres.stored_texts import StoredTexts

    return StoredTexts(Database(index.dsn, index.tenant))
