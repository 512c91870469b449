"""An index on disk: versions side by side, one name that says which is current.

    FOLDER/
      CURRENT            name of the current version's folder, replaced atomically
      LOCK               held by the one writer
      v-000001/
        manifest.json    format, fingerprints, settings; size and hash of every other file
        tools.jsonl      the catalog, in its own order
        vectors.npy      float32 (n, dim), rows by tool id
        keys.npy         hash of the text of each row, uint8 (n, 16)
        tokens/          vectors, weights and starts of the rows' tokens, if the encoder gives them
        lexical/ dense/  what the backends wrote
        screening.json   what a scan of the tools found, if they were scanned
        learned/         what usage taught, if anything; the dense index was built with it

A version is written completely before CURRENT names it, so a crash leaves the old one in force. The
version before the current one is kept for readers that are just opening it; files they have mapped
stay readable when it goes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from ..catalog import Catalog, Tool
from ..errors import CatalogError, StoreError
from ..models import TokenTable, TokenVectors
from .index import Index
from .learned import Learned
from .vectors import Vectors

FORMAT = 3
_LOCK_SECONDS = 30.0
# How often a reader looks up CURRENT again when the version it named has gone meanwhile.
_READ_ATTEMPTS = 5
_SCREENING = "screening.json"
_TOKEN_ARRAYS = ("vectors", "weights", "starts")


@dataclass(frozen=True, slots=True)
class Saved:
    """A version as it lies on disk.

    Args:
        folder: of the version.
        catalog: its tools.
        vectors: its vectors, mapped from disk, or None when it was saved without.
        settings: what the backends were built with.
        learned: what usage taught, or None.
        screening: what a scan of the tools found, or None.
    """

    folder: Path
    catalog: Catalog
    vectors: Vectors | None
    settings: dict[str, Any]
    learned: Learned | None = None
    screening: dict[str, Any] | None = None


def save(
    index: Index,
    folder: Path,
    settings: dict[str, Any],
    screening: Mapping[str, Any] | None = None,
) -> None:
    """Write an index as the new current version.

    Args:
        index: what to write, fresh.
        folder: of all versions.
        settings: what the backends were built with.
        screening: JSON form of what a scan of the tools found.

    Raises:
        StoreError: another process is writing, or the disk refuses.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "LOCK", timeout=_LOCK_SECONDS):
            _save_locked(index, folder, settings, screening)
    except Timeout as error:
        raise StoreError(
            f"{folder}: another process has been writing for {_LOCK_SECONDS:.0f} s; try again"
        ) from error
    except OSError as error:
        raise StoreError(f"{folder}: cannot be written: {error}") from error


def read(folder: Path) -> Saved:
    """The current version.

    Raises:
        StoreError: there is none, it is damaged, or another format.
    """
    for attempt in range(_READ_ATTEMPTS):
        version = folder / current(folder)
        try:
            return _read_version(version)
        except FileNotFoundError as error:
            if attempt == _READ_ATTEMPTS - 1:
                raise StoreError(f"{version}: incomplete: {error}") from error
    raise AssertionError("unreachable")


def current(folder: Path) -> str:
    """Name of the current version.

    Raises:
        StoreError: there is none.
    """
    try:
        name = (folder / "CURRENT").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(
            f"{folder}: not a saved index (no readable CURRENT); make one with `shortlist index`"
        ) from error
    if not name.startswith("v-") or not name[2:].isdecimal():
        raise StoreError(f"{folder / 'CURRENT'}: names no version: {name[:40]!r}")
    return name


def _save_locked(
    index: Index, folder: Path, settings: dict[str, Any], screening: Mapping[str, Any] | None
) -> None:
    versions = sorted(
        (path.name for path in folder.glob("v-*") if path.name[2:].isdecimal()),
        key=lambda name: int(name[2:]),
    )
    previous = current(folder) if (folder / "CURRENT").exists() else None
    version = folder / f"v-{int(versions[-1][2:]) + 1 if versions else 1:06d}"
    version.mkdir()
    with (version / "tools.jsonl").open("w", encoding="utf-8") as lines:
        lines.writelines(
            json.dumps(tool.to_saved(), ensure_ascii=False) + "\n" for tool in index.catalog
        )
    if index.lexical is not None:
        index.lexical.save(version / "lexical")
    if index.dense is not None:
        vectors = index.dense.vectors
        np.save(version / "vectors.npy", vectors.values)
        keys = np.frombuffer(b"".join(vectors.keys), np.uint8).reshape(-1, 16)
        np.save(version / "keys.npy", keys)
        if vectors.tokens is not None:
            tokens = TokenTable.of(vectors.tokens).whole()
            (version / "tokens").mkdir()
            for name in _TOKEN_ARRAYS:
                np.save(version / "tokens" / f"{name}.npy", getattr(tokens, name))
        (version / "dense").mkdir()
        index.dense.index.save(version / "dense")
    if screening is not None:
        text = json.dumps(screening, ensure_ascii=False)
        (version / _SCREENING).write_text(text, encoding="utf-8")
    if index.learned is not None:
        (version / "learned").mkdir()
        index.learned.save(version / "learned")
    manifest = {
        "format": FORMAT,
        "catalog": index.catalog.fingerprint,
        "tools": len(index.catalog),
        "model": index.vectors.model if index.vectors else None,
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
        _flush(path)
    _flush(version)
    marker = folder / "CURRENT.new"
    marker.write_text(version.name, encoding="ascii")
    _flush(marker)
    marker.replace(folder / "CURRENT")
    _flush(folder)
    for name in versions:
        if name != previous:
            shutil.rmtree(folder / name, ignore_errors=True)


def _tokens(folder: Path, rows: int) -> TokenVectors | None:
    if not folder.is_dir():
        return None
    vectors, weights, starts = (
        np.load(folder / f"{name}.npy", mmap_mode="r") for name in _TOKEN_ARRAYS
    )
    if not (
        (starts.shape, starts.dtype) == ((rows + 1,), np.int64)
        and starts[0] == 0
        and (np.diff(starts) > 0).all()
        and (vectors.ndim, vectors.dtype) == (2, np.int8)
        and weights.shape == (len(vectors),) == (starts[-1],)
    ):
        raise ValueError("tokens: vectors, weights and starts do not belong together")
    return TokenVectors(vectors, weights, np.asarray(starts))


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _read_version(version: Path) -> Saved:
    try:
        manifest = json.loads((version / "manifest.json").read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT:
            raise StoreError(
                f"{version}: format {manifest['format']}, this version reads {FORMAT}; index again"
            )
        for name, saved in manifest["files"].items():
            path, size = version / name, saved["bytes"]
            if (found := path.stat().st_size) != size:
                raise StoreError(f"{path}: {found} bytes, {size} were saved; index again")
            if _sha256(path) != saved["sha256"]:
                raise StoreError(f"{path}: not the content that was saved; index again")
        with (version / "tools.jsonl").open(encoding="utf-8") as lines:
            catalog = Catalog(Tool.from_saved(json.loads(line)) for line in lines)
        if catalog.fingerprint != manifest["catalog"]:
            raise StoreError(
                f"{version / 'tools.jsonl'}: not the catalog that was saved; index again"
            )
        vectors = None
        if manifest["model"] is not None:
            values = np.load(version / "vectors.npy", mmap_mode="r")
            keys = np.load(version / "keys.npy")
            tokens = _tokens(version / "tokens", len(values))
            vectors = Vectors(
                values, tuple(key.tobytes() for key in keys), manifest["model"], tokens
            )
        learned, screening = version / "learned", version / _SCREENING
        return Saved(
            version,
            catalog,
            vectors,
            dict(manifest["settings"]),
            Learned.load(learned) if learned.is_dir() else None,
            json.loads(screening.read_text(encoding="utf-8")) if screening.exists() else None,
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
