"""Caches for a fast start: each server's lists, and the engine's index."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from ...catalog import Catalog, Tool
from ...catalog.text_file import replace_file
from ...config import Config
from ...engine import Engine
from ...errors import StoreError
from ..connections.server_spec import ServerSpec
from ..connections.user_folders import cache_folder, own_folder
from .server_lists import Listing

if TYPE_CHECKING:
    from ...retrieval.postgres.stored_texts import StoredTexts

_FILE_FORMAT = 4
_LISTING = TypeAdapter(Listing)
_MAX_LISTING_CHARS = 64_000_000


class ListingCache:
    """Listings of servers in a folder, one file each; or in the state of all replicas.

    Args:
        folder: folder of the files, created with the first one.
        shared: state that all replicas of the gateway share; None if there is only this one.
    """

    def __init__(self, folder: Path, shared: StoredTexts | None = None) -> None:
        self.folder = folder
        self._shared = shared

    @classmethod
    def default(cls, shared: StoredTexts | None = None) -> ListingCache:
        """ListingCache in the user's cache folder, or in the state of all replicas."""
        return cls(cache_folder() / "manifests", shared)

    def read(self, spec: ServerSpec) -> Listing | None:
        """The last lists of a server; None if there are none, or the file is damaged."""
        try:
            if (text := self._text(spec)) is None:
                return None
            document = json.loads(text)
            if document["format"] != _FILE_FORMAT:
                return None
            return _LISTING.validate_python(document["listing"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def stamp(self, spec: ServerSpec) -> str:
        """Another value after each change of a server's lists; "" if there are none.

        Raises:
            StoreError: the shared state cannot be read.
        """
        if self._shared is not None:
            return self._shared.stamp("listing")
        try:
            return str(self._path(spec).stat().st_mtime_ns)
        except OSError:
            return ""

    def write(self, spec: ServerSpec, listing: Listing) -> None:
        """Save the lists of a server, unless they are very long.

        Raises:
            OSError: the file cannot be written.
            StoreError: the shared state cannot be written.
        """
        saved = _LISTING.dump_python(
            listing, mode="json", by_alias=True, exclude_none=True, exclude={"valid_s"}
        )
        text = json.dumps({"format": _FILE_FORMAT, "server": spec.name, "listing": saved})
        if len(text) > _MAX_LISTING_CHARS:
            return
        if self._shared is not None:
            self._shared.change("listing", self._name(spec), lambda _: text)
            return
        own_folder(self.folder)
        replace_file(self._path(spec), [text.encode("utf-8")], several_writers=True)

    def _text(self, spec: ServerSpec) -> str | None:
        if self._shared is not None:
            return self._shared.read("listing", self._name(spec))
        path = self._path(spec)
        return (
            None if path.stat().st_size > _MAX_LISTING_CHARS else path.read_text(encoding="utf-8")
        )

    def _path(self, spec: ServerSpec) -> Path:
        return self.folder / f"{self._name(spec)}.json"

    def _name(self, spec: ServerSpec) -> str:
        """Name of a server's listing. Each command, address or environment has its own."""
        location = (spec.command, spec.args, spec.cwd, spec.url, sorted(spec.env))
        # Arguments that the configuration gives are left out of the tools.
        given = (sorted(spec.headers), sorted(spec.credentials))
        document = () if spec.openapi is None else (spec.openapi, *given)
        parts = (spec.name, *location, *document)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]


def fingerprints_of(server: str, catalog: Catalog) -> tuple[str, ...]:
    """Fingerprints of a server's tools, in order."""
    return tuple(tool.fingerprint for tool in catalog if tool.server == server)


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
        self._is_shared = Config(**self._settings).index.is_shared

    def engine(self, tools: Iterable[Tool]) -> Engine:
        """An engine with these tools, from the saved index if there is one.

        A shared catalog is used as it is, with the tools of servers that differ there. It may have
        servers of other gateways.

        Args:
            tools: all tools. New and changed ones are encoded in the background, after this call.
        """
        if self._is_shared:
            engine = Engine.connect(wait=False, **self._settings)
            for server, own_tools in groupby(tools, lambda tool: tool.server or ""):
                own_catalog = Catalog(own_tools)
                if fingerprints_of(server, engine.catalog) != fingerprints_of(server, own_catalog):
                    engine.replace_server(server, own_catalog)
            return engine
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
        if self._is_shared:
            return
        try:
            # The files of an index are as private as its folder.
            engine.save(own_folder(self._folder))
        except (StoreError, OSError) as error:
            _LOG.info("the index cannot be saved: %s", error)
