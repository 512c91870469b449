"""An index on disk: folders of versions, and a file with the name of the current one.

    FOLDER/
      CURRENT            name of the current version's folder, replaced atomically
      LOCK               held by the one writer
      v-000001/
        manifest.json    format, fingerprints, settings; size and hash of every other file
        tools.jsonl      the catalog, in its own order
        vectors.npy      float32 (n, dim), arranged as `Vectors.of_tools` says
        keys.npy         hash of the text of each row, uint8 (n, 16)
        lexical/ dense/  what the backends wrote
        screening.json   what a scan of the tools found, if they were scanned
        quarantine.json  tools that an operator quarantined, with the reasons, if any
        queries.json     example queries of the tools, if there are any
        encoded/         vectors that a process added since, while it encoded

A version is written completely before CURRENT names it, so after a crash the old one is current.
The version before the current one is kept for readers that are opening it. Files that they have
mapped stay readable when the version is removed.

A save that fails removes its files. Files of a killed writer are removed by the next save, which
has LOCK, so that no other writer uses them. If CURRENT is damaged, a save keeps every complete
version, because each may be the current one. The next save removes them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from ...catalog import Catalog, Tool
from ...errors import CatalogError, StoreError
from ..backends.protocols import LexicalIndex
from ..catalog_index import Index
from ..example_queries import ExampleQueries, load_queries, save_queries
from .vectors import Vectors

STORE_FORMAT = 7
_LOCK_SECONDS = 30.0
#: Seconds that the removal of a version whose save failed is tried.
_DISCARD_TIMEOUT_S = 2.0
# How often a reader looks up CURRENT again when the version it named has gone meanwhile.
_READ_ATTEMPTS = 5
_SCREENING_FILE = "screening.json"
_QUERIES_FILE = "queries.json"
QUARANTINE_FILE = "quarantine.json"


@dataclass(frozen=True, slots=True)
class SavedVersion:
    """A version on disk.

    Args:
        folder: folder of the version.
        catalog: its tools.
        vectors: vectors by text, mapped from disk; None if it was saved without.
        settings: settings of the backends.
        screening: findings of the scan, or None.
        quarantined: tool id to the operator's reason.
        example_queries: tool id to the example queries that were indexed.
    """

    folder: Path
    catalog: Catalog
    vectors: Vectors | None
    settings: dict[str, Any]
    screening: dict[str, Any] | None = None
    quarantined: Mapping[str, str] = field(default_factory=dict)
    example_queries: Mapping[str, ExampleQueries] = field(default_factory=dict)

    @property
    def provider_tools(self) -> tuple[dict[str, Any], ...]:
        """Tools that the model's provider runs."""
        return tuple(self.settings.get("provider_tools", ()))

    @property
    def tool_vectors(self) -> NDArray[np.float32] | None:
        """Vectors of the tools in order of id, shape (n, dim); None if not all were encoded."""
        if self.vectors is None or not self.has_dense:
            return None
        return self.vectors.of_tools(len(self.catalog))

    @property
    def has_dense(self) -> bool:
        """Whether a dense stage was saved, and so a vector of each tool."""
        return (self.folder / "dense").is_dir()


def folder_of(folder: str | Path) -> Path:
    """The folder as a path.

    Raises:
        StoreError: no file system can hold such a name.
    """
    try:
        if isinstance(folder, str | Path) and b"\0" not in os.fsencode(folder):
            return Path(folder)
    except UnicodeEncodeError:
        pass
    raise StoreError(f"{folder!r:.200}: no folder: give a path the file system can hold")


def save(
    index: Index,
    folder: Path,
    settings: dict[str, Any],
    screening: Mapping[str, Any] | None = None,
    quarantined: Mapping[str, str] | None = None,
    *,
    lexical: Callable[[], LexicalIndex | None] | None = None,
) -> Path:
    """Write an index as the new current version; returns the folder of the version.

    Args:
        index: index to write, with rows in order of id.
        folder: folder of all versions.
        settings: settings of the backends.
        screening: JSON form of what a scan of the tools found.
        quarantined: tool id to the operator's reason.
        lexical: builds the lexical index anew, for an index whose own files on disk are gone.

    Raises:
        StoreError: another process is writing, or the disk refuses. Nothing of the new version
            is left then.
    """
    from filelock import FileLock, Timeout  # 25 ms of a start

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise StoreError(f"{str(folder)!r}: cannot be written: {error}") from error
    try:
        mode = folder.stat().st_mode & 0o666
        with FileLock(folder / "LOCK", timeout=_LOCK_SECONDS, mode=mode):
            version = folder / f"v-{max(versions_by_number(folder), default=0) + 1:06d}"
            current_name, readable = _remove_unfinished(folder)
            try:
                version.mkdir()
                _write_lexical(index, version, lexical)
                _write(index, version, settings, screening, quarantined)
                _make_current(version)
            except BaseException:
                _discard(version)
                raise
            kept_names = {version.name}
            if current_name is None:
                kept_names |= readable
            else:
                kept_names.add(current_name)
            _remove_versions_but(folder, kept_names)
            return version
    except Timeout as error:
        raise StoreError(
            f"{folder}: another process has been writing for {_LOCK_SECONDS:.0f} s; try again"
        ) from error
    except OSError as error:
        raise StoreError(f"{folder}: cannot be written: {error}") from error


def read(folder: Path) -> SavedVersion:
    """The current version.

    Raises:
        StoreError: there is none, it is damaged, or another format.
    """
    for attempt in range(_READ_ATTEMPTS):
        version = folder / current_version_name(folder)
        try:
            return _read_version(version)
        except FileNotFoundError as error:
            if attempt == _READ_ATTEMPTS - 1:
                raise StoreError(f"{version}: incomplete: {error}") from error
    raise AssertionError("unreachable")


def saved_settings(folder: Path) -> dict[str, Any]:
    """The settings that the current version was saved with; empty where they cannot be read.

    Raises:
        StoreError: there is no current version.
    """
    try:
        text = (folder / current_version_name(folder) / "manifest.json").read_text(encoding="utf-8")
        settings = json.loads(text)["settings"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}  # `read` says what is wrong
    return settings if isinstance(settings, dict) else {}


def current_version_name(folder: Path) -> str:
    """Name of the current version.

    Raises:
        StoreError: there is none.
    """
    try:
        name = (folder / "CURRENT").read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise StoreError(
            f"{folder}: not a saved index (no readable CURRENT); make one with `shortlist index`"
        ) from error
    if not name.startswith("v-") or not name[2:].isdecimal():
        raise StoreError(f"{folder / 'CURRENT'}: names no version: {name[:40]!r}")
    return name


def versions_by_number(folder: Path) -> dict[int, str]:
    """Number to name of every version's folder, complete or not, ascending."""
    names = (path.name for path in folder.glob("v-*") if path.name[2:].isdecimal())
    return dict(sorted((int(name[2:]), name) for name in names))


def _remove_unfinished(folder: Path) -> tuple[str | None, set[str]]:
    """Remove files of killed writers. Only the holder of LOCK may do this.

    Returns:
        The name of the current version, None where CURRENT is damaged or there is none; and the
        versions that were kept.
    """
    names = list(versions_by_number(folder).values())
    current_name = _current_if_present(folder)
    if current_name is None:
        kept_names = {name for name in names if is_complete(folder / name)}
    else:
        # Later ones were never current. The one before may have a reader that is just opening it.
        place = names.index(current_name)
        kept_names = set(names[max(0, place - 1) : place + 1])
    _remove_versions_but(folder, kept_names)
    return current_name, kept_names


def _current_if_present(folder: Path) -> str | None:
    """The version that CURRENT names, if its folder is there."""
    try:
        name = current_version_name(folder)
    except StoreError:
        return None
    return name if name in versions_by_number(folder).values() else None


def is_complete(version: Path) -> bool:
    """Whether a version was written to its end; its manifest is written last."""
    try:
        manifest = json.loads((version / "manifest.json").read_text(encoding="utf-8"))
        return all(
            (version / name).stat().st_size == saved["bytes"]
            for name, saved in manifest["files"].items()
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
    except OSError:
        return True  # it cannot be told, so it is not removed


def _remove_versions_but(folder: Path, kept_names: Collection[str]) -> None:
    for name in versions_by_number(folder).values():
        if name not in kept_names:
            shutil.rmtree(folder / name, ignore_errors=True)


def _discard(version: Path) -> None:
    """Remove a version whose save failed, unless it has become the current one."""
    if _current_if_present(version.parent) != version.name:
        # Threads of an interrupted text index may write files for another moment.
        end = monotonic() + _DISCARD_TIMEOUT_S
        while version.exists() and monotonic() < end:
            shutil.rmtree(version, ignore_errors=True)
        with suppress(OSError):
            (version.parent / "CURRENT.new").unlink(missing_ok=True)


def _make_current(version: Path) -> None:
    marker = version.parent / "CURRENT.new"
    marker.write_text(version.name, encoding="ascii")
    _share_like_folder(marker, version.parent)
    _flush(marker)
    marker.replace(version.parent / "CURRENT")
    _flush(version.parent)


def _write_lexical(
    index: Index, version: Path, build: Callable[[], LexicalIndex | None] | None
) -> None:
    lexical, target = index.lexical, version / "lexical"
    if lexical is None:
        return
    try:
        lexical.save(target)
    except FileNotFoundError:
        # It was opened from a version that later saves have removed.
        rebuilt = None if build is None else build()
        if rebuilt is None:
            raise
        shutil.rmtree(target, ignore_errors=True)
        rebuilt.save(target)


def _write(
    index: Index,
    version: Path,
    settings: dict[str, Any],
    screening: Mapping[str, Any] | None,
    quarantined: Mapping[str, str] | None,
) -> None:
    """Write everything but the lexical index, the manifest last, and wait for the disk."""
    with (version / "tools.jsonl").open("w", encoding="utf-8") as lines:
        lines.writelines(
            json.dumps(tool.to_saved(), ensure_ascii=False) + "\n" for tool in index.catalog
        )
    if index.vectors is not None:
        index.vectors.save(version)
    if index.dense is not None:
        (version / "dense").mkdir()
        index.dense.index.save(version / "dense")
    if screening is not None:
        text = json.dumps(screening, ensure_ascii=False)
        (version / _SCREENING_FILE).write_text(text, encoding="utf-8")
    if quarantined:
        text = json.dumps(dict(quarantined))
        (version / QUARANTINE_FILE).write_text(text, encoding="utf-8")
    if index.example_queries:
        save_queries(version / _QUERIES_FILE, index.example_queries)
    manifest = {
        "format": STORE_FORMAT,
        "catalog": index.catalog.fingerprint,
        "tools": len(index.catalog),
        "model": index.vectors.encoder_fingerprint if index.vectors else None,
        "settings": settings,
        "files": {
            path.relative_to(version).as_posix(): {
                "bytes": path.stat().st_size,
                "sha256": _sha256(path),
            }
            for path in sorted(version.rglob("*"))
            if path.is_file()
        },
    }
    (version / "manifest.json").write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    for path in version.rglob("*"):
        _share_like_folder(path, version.parent)
        _flush(path)
    _share_like_folder(version, version.parent)
    _flush(version)


def _share_like_folder(path: Path, folder: Path) -> None:
    """Let those read a file or folder of the index who may open the folder of all versions."""
    mode = folder.stat().st_mode & 0o777
    path.chmod(mode if path.is_dir() else mode & 0o666)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _read_version(version: Path) -> SavedVersion:
    try:
        manifest = json.loads((version / "manifest.json").read_text(encoding="utf-8"))
        if manifest["format"] != STORE_FORMAT:
            raise StoreError(
                f"{version}: format {manifest['format']}, this version reads {STORE_FORMAT}; "
                "index again"
            )
        for name, saved in manifest["files"].items():
            path, size = version / name, saved["bytes"]
            if (size_now := path.stat().st_size) != size:
                raise StoreError(f"{path}: {size_now} bytes, {size} were saved; index again")
            if _sha256(path) != saved["sha256"]:
                raise StoreError(f"{path}: not the content that was saved; index again")
        with (version / "tools.jsonl").open("rb") as lines:
            catalog = Catalog(map(Tool.from_saved, map(from_json, lines)))
        if catalog.fingerprint != manifest["catalog"]:
            raise StoreError(
                f"{version / 'tools.jsonl'}: not the catalog that was saved; index again"
            )
        screening = version / _SCREENING_FILE
        model = manifest["model"]
        return SavedVersion(
            version,
            catalog,
            Vectors.load(version, model),
            dict(manifest["settings"]),
            json.loads(screening.read_text(encoding="utf-8")) if screening.exists() else None,
            read_quarantine(version / QUARANTINE_FILE),
            load_queries(version / _QUERIES_FILE),
        )
    except FileNotFoundError:
        raise
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        EOFError,
        RecursionError,
        OSError,
        CatalogError,
    ) as error:
        raise StoreError(f"{version}: damaged: {error}; index again") from error


def read_quarantine(path: Path) -> dict[str, str]:
    """Tool id to reason; empty where there is no such file.

    Raises:
        ValueError: it is damaged.
    """
    if not path.exists():
        return {}
    reasons = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(reasons, dict) or not all(
        isinstance(reason, str) for reason in reasons.values()
    ):
        raise ValueError(f"{path.name}: no object of tool ids and reasons")
    return reasons
