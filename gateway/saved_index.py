"""Saves the engine's index, so that the next start need not encode every tool again."""

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
    """The saved index of one set of servers with one configuration.

    Args:
        folder: folder of all indexes.
        servers: names of the servers. Each set of servers has its own index.
        settings: settings of `Config`.
    """

    def __init__(self, folder: Path, servers: Iterable[str], settings: Mapping[str, Any]) -> None:
        key = json.dumps([sorted(servers), settings], sort_keys=True, default=str)
        self._folder = folder / hashlib.sha256(key.encode()).hexdigest()[:24]
        self._settings = dict(settings)

    def engine(self, tools: Iterable[Tool]) -> Engine:
        """An engine with these tools, from the saved index if there is one.

        Args:
            tools: all tools. New and changed ones are encoded in the background, after this call.
        """
        if self._folder.exists():
            try:
                return Engine.open(self._folder, tools, wait=False, **self._settings)
            except StoreError as error:
                # The index can be built again from the lists of the servers.
                _LOG.info("the saved index cannot be used and is built again: %s", error)
                shutil.rmtree(self._folder, ignore_errors=True)
        return Engine.from_tools(tools, wait=False, **self._settings)

    def save(self, engine: Engine) -> None:
        """Save an engine's index. If that fails, the next start encodes more tools."""
        try:
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            engine.save(self._folder)
        except (StoreError, OSError) as error:
            _LOG.info("the index cannot be saved: %s", error)
