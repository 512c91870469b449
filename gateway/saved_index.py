"""The engine's index on disk, so that a start does not encode every tool again."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..catalog import Tool
from ..engine import Engine
from ..errors import StoreError

_LOG = logging.getLogger("shortlist.gateway")


class SavedIndex:
    """The index of one set of servers under one configuration.

    Args:
        folder: of all indexes.
        servers: names of the servers; another set of them has another index.
        settings: settings of `Config`.
    """

    def __init__(self, folder: Path, servers: Iterable[str], settings: Mapping[str, Any]) -> None:
        key = json.dumps([sorted(servers), settings], sort_keys=True, default=str)
        self._folder = folder / hashlib.sha256(key.encode()).hexdigest()[:24]
        self._settings = dict(settings)

    def engine(self, tools: Iterable[Tool]) -> Engine:
        """An engine over tools at once, from the saved index where there is one.

        Args:
            tools: all of them; only those that were not saved so are encoded, in the background.
        """
        if self._folder.exists():
            try:
                return Engine.open(self._folder, tools, wait=False, **self._settings)
            except StoreError as error:
                # It is a copy of what the servers list, so that nothing is lost with it.
                _LOG.info("the saved index is made anew: %s", error)
                shutil.rmtree(self._folder, ignore_errors=True)
        return Engine.from_tools(tools, wait=False, **self._settings)

    def save(self, engine: Engine) -> None:
        """Keep an engine's index; where that fails, the next start encodes more tools."""
        try:
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            engine.save(self._folder)
        except (StoreError, OSError) as error:
            _LOG.info("the index is not saved: %s", error)
