"""Vectors by the hash of the text they were made from, so that no build encodes a text twice."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

MOVED_KEY = bytes(16)
"""Key of a row that is no text's vector any more: a tool's that example queries have moved."""
_ADDED_FOLDER = "encoded"


@dataclass(frozen=True, eq=False)
class Vectors:
    """Vectors of texts.

    Args:
        values: shape (n, dim).
        keys: hash of the text of each row, see `text_key`; `MOVED_KEY` where there is none.
        encoder_fingerprint: fingerprint of the encoder.
    """

    values: NDArray[np.float32]
    keys: tuple[bytes, ...]
    encoder_fingerprint: str

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The vectors of several parts, all of one encoder and not none."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.values for part in parts]),
            tuple(key for part in parts for key in part.keys),
            parts[0].encoder_fingerprint,
        )

    @cached_property
    def rows(self) -> dict[bytes, int]:
        """Key to row."""
        return {key: row for row, key in enumerate(self.keys) if key != MOVED_KEY}

    def of_tools(self, count: int) -> NDArray[np.float32]:
        """The encoder's vectors of the tools of an index, shape (count, dim).

        An index keeps in one array: the vectors of its tools, those of tools with example queries
        moved towards them; the mean vector of each such tool's queries; the vector of its text.

        Args:
            count: number of tools.
        """
        moved_rows = [row for row in range(count) if self.keys[row] == MOVED_KEY]
        if not moved_rows:
            return self.values[:count]
        vectors = np.array(self.values[:count])
        originals_start = count + len(moved_rows)
        vectors[moved_rows] = self.values[originals_start : originals_start + len(moved_rows)]
        return vectors

    def keys_of_tools(self, count: int) -> list[bytes]:
        """Hash of the text of each tool of an index, see `of_tools`."""
        moved_count = sum(key == MOVED_KEY for key in self.keys[:count])
        originals = iter(self.keys[count + moved_count :])
        return [next(originals) if key == MOVED_KEY else key for key in self.keys[:count]]

    def save(self, folder: Path) -> None:
        """Write them into an existing folder.

        Raises:
            OSError: the disk refuses.
        """
        np.save(folder / "vectors.npy", self.values)
        np.save(folder / "keys.npy", np.frombuffer(b"".join(self.keys), np.uint8).reshape(-1, 16))

    @classmethod
    def load(cls, folder: Path, model: str | None) -> Self | None:
        """The vectors of a saved version, mapped from disk, with those that were added since.

        None if there are none.

        Args:
            folder: folder of the version.
            model: fingerprint of the encoder that made them; None if none were saved at first.

        Raises:
            ValueError: the files do not belong together.
            OSError: a file is missing.
        """
        parts: list[Self] = []
        if model is not None:
            values = np.load(folder / "vectors.npy", mmap_mode="r")
            keys = np.load(folder / "keys.npy")
            if values.ndim != 2 or values.dtype != np.float32 or keys.shape != (len(values), 16):
                raise ValueError("vectors: vectors and keys do not belong together")
            parts.append(cls(values, tuple(key.tobytes() for key in keys), model))
        for path in sorted((folder / _ADDED_FOLDER).glob("*.npz")):
            try:
                with path.open("rb") as file, np.load(file) as part:
                    keys = tuple(key.tobytes() for key in part["keys"])
                    added = cls(part["values"], keys, part["model"].item())
            except (OSError, ValueError, KeyError, EOFError, BadZipFile):
                continue  # these texts are encoded again
            reference = parts[0] if parts else added
            if (added.encoder_fingerprint, added.values.shape[1:]) == (
                reference.encoder_fingerprint,
                reference.values.shape[1:],
            ):
                parts.append(added)
        return cls.joined(parts) if parts else None

    def append(self, version: Path) -> None:
        """Write them beside a saved version, which a process does while it encodes.

        A file is written as a whole, so that a process that is killed loses only the one in work.

        Raises:
            OSError: the version was removed, or the disk refuses.
        """
        folder = version / _ADDED_FOLDER
        mode = version.stat().st_mode & 0o777
        if not folder.exists():
            folder.mkdir(mode, exist_ok=True)
        number = 1 + max((int(path.stem) for path in folder.glob("[0-9]*.npz")), default=0)
        # Other processes may encode for the same version.
        unfinished = folder / f"unfinished-{os.getpid()}"
        keys = np.frombuffer(b"".join(self.keys), np.uint8).reshape(-1, 16)
        try:
            with unfinished.open("wb") as file:
                np.savez(file, values=self.values, keys=keys, model=self.encoder_fingerprint)
            unfinished.chmod(mode & 0o666)
            unfinished.rename(folder / f"{number:06d}.npz")
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise


def text_key(text: str) -> bytes:
    """Hash of a text, 16 bytes."""
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()[:16]
