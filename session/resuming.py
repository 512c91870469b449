"""Continues a saved session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import RequestError, ShortlistError
from .protocols import Views
from .saved import read_saved
from .session import Session

if TYPE_CHECKING:
    from ..loaders.schemas import SchemaLoader


def resumed(
    engine: Views,
    saved: Mapping[str, Any],
    settings: Mapping[str, Any],
    schemas: SchemaLoader | None = None,
) -> Session:
    """A session that continues from the result of `Session.save`; see `Engine.resume`.

    Args:
        engine: makes the views; its catalog may be newer.
        saved: result of `save`.
        settings: settings of the session, in place of the saved ones.
        schemas: loads definitions that the catalog lacks.

    Raises:
        RequestError: it is damaged or of another version.
        ConfigError: an unknown setting, or a wrong value.
    """
    held = read_saved(saved)
    base = engine.config.session.changed({**held.settings, **settings})
    # Tools of the setting `pinned` that have left the catalog are left out.
    pinned = tuple(tool_id for tool_id in base.pinned if tool_id in engine.catalog)
    settled = base.changed({"pinned": pinned})
    try:
        return Session(
            engine,
            settled,
            format=held.format,
            state=held.state,
            allowed=held.allowed,
            schemas=schemas,
            session_id=held.id,
            saved=held,
        )
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        if isinstance(error, ShortlistError):
            raise
        raise RequestError(f"saved session: damaged: {error!r:.200}") from error
