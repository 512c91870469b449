"""State that all replicas of a gateway share, if they have a database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ...config import Config


class SharedState(Protocol):
    """Texts by kind and key, which several processes read and change.

    Without one, a gateway keeps sessions and long results in memory, and pins and lists of servers
    in files of its user.
    """

    def read(self, kind: str, key: str) -> str | None:
        """The present text; None if there is none, or it has ended."""
        ...

    def stamp(self, kind: str, key: str) -> str:
        """Another value after each change of a text; "" if there is none."""
        ...

    def change(
        self,
        kind: str,
        key: str,
        change: Callable[[str | None], str | None],
        *,
        kept_s: float | None = None,
    ) -> None:
        """Replace a text in one step. Other changes of the same text wait.

        Args:
            kind: kind of the text.
            key: its key.
            change: function of the present text that returns the new one; None for no text. It may
                use printable ASCII only, as JSON does.
            kept_s: seconds until the text ends; None for never.
        """
        ...


def shared_state(engine_settings: Mapping[str, Any]) -> SharedState | None:
    """The state in the database of an engine; None if its catalog is in no database.

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
