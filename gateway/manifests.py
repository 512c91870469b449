"""Lists of the servers from their last start, on disk, so that the gateway can answer at once."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from tempfile import NamedTemporaryFile

import mcp.types as types

from .listing import Listing
from .offers import Offers
from .server_spec import ServerSpec
from .user_folders import cache_folder

_FORMAT = 3
_MOST_BYTES = 64_000_000


class Manifests:
    """Listings of servers in a folder, one file each.

    Args:
        folder: folder of the files, created with the first one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def default(cls) -> Manifests:
        """Manifests in the user's cache folder."""
        return cls(cache_folder() / "manifests")

    def read(self, spec: ServerSpec) -> Listing | None:
        """The last lists of a server; None if there are none, or the file is damaged."""
        path = self._path(spec)
        try:
            if path.stat().st_size > _MOST_BYTES:
                return None
            saved = json.loads(path.read_text(encoding="utf-8"))
            if saved["format"] != _FORMAT:
                return None
            tools = tuple(types.Tool.model_validate(tool) for tool in saved["tools"])
            return Listing(
                tools,
                str(saved["instructions"]),
                str(saved["version"]),
                problems=tuple(map(str, saved["problems"])),
                offers=Offers.from_saved(saved["offers"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, spec: ServerSpec, listing: Listing) -> None:
        """Save the lists of a server, unless they are very long.

        Raises:
            OSError: the file cannot be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        tools = [
            tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listing.tools
        ]
        saved = {
            "format": _FORMAT,
            "server": spec.name,
            "version": listing.version,
            "instructions": listing.instructions,
            "problems": listing.problems,
            "tools": tools,
            "offers": listing.offers.saved(),
        }
        text = json.dumps(saved)
        if len(text) > _MOST_BYTES:
            return
        with NamedTemporaryFile(
            "w", encoding="utf-8", dir=self.folder, suffix=".new", delete=False
        ) as file:
            file.write(text)
        Path(file.name).replace(self._path(spec))

    def _path(self, spec: ServerSpec) -> Path:
        """The file of a server. Each command, address or environment has its own file."""
        where = (spec.command, spec.args, spec.cwd, spec.url, sorted(spec.env))
        parts = (spec.name, *where)
        return self.folder / f"{hashlib.sha256(repr(parts).encode()).hexdigest()[:24]}.json"
