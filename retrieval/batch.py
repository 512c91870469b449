"""Batches of texts that are encoded in the background, and their vectors on disk.

    VERSION/encoded/000001/    of a saved version: vectors of tools, or requests/ of tools

A batch is written as a whole: a process that is killed loses only the one it is at. The next save
writes a version with all of it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..catalog import Tool
from .known_requests import KnownRequests
from .request_vectors import RequestVectors
from .saved_vectors import read_vectors, write_vectors
from .vectors import Vectors

_FOLDER = "encoded"


@dataclass(frozen=True, slots=True)
class Batch:
    """Texts that the encoder reads in one call.

    Args:
        tools: their definitions.
        requests: tool id to requests known to belong to it.
    """

    tools: tuple[Tool, ...]
    requests: Mapping[str, KnownRequests]

    def __len__(self) -> int:
        return len(self.tools) + len(self.requests)

    def parts(self, most: int) -> Iterator[Batch]:
        """The same in batches of `most` at most."""
        for start in range(0, len(self.tools), most):
            yield Batch(self.tools[start : start + most], {})
        items = list(self.requests.items())
        for start in range(0, len(items), most):
            yield Batch((), dict(items[start : start + most]))


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """The vectors of a batch.

    Args:
        vectors: vectors of its tools.
        requests: vectors of its requests.
    """

    vectors: Vectors | None = None
    requests: RequestVectors | None = None

    @classmethod
    def joined(cls, parts: Sequence[Read]) -> Read:
        """The vectors of several batches."""
        vectors = [one.vectors for one in parts if one.vectors is not None]
        requests = [one.requests for one in parts if one.requests is not None]
        return cls(
            _joined_vectors(vectors) if vectors else None,
            RequestVectors.joined(requests) if requests else None,
        )

    def append(self, version: Path) -> None:
        """Write it beside a saved version.

        Raises:
            OSError: the version is gone, or the disk refuses.
        """
        folder = version / _FOLDER
        folder.mkdir(exist_ok=True)
        numbers = [int(one.name) for one in folder.iterdir() if one.name.isdecimal()]
        # Another process may be at the same index.
        unfinished = folder / f"unfinished-{os.getpid()}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        if self.vectors is not None:
            write_vectors(unfinished, self.vectors)
        if self.requests is not None:
            (unfinished / "requests").mkdir()
            self.requests.save(unfinished / "requests")
        unfinished.rename(folder / f"{max(numbers, default=0) + 1:06d}")

    @classmethod
    def appended(cls, version: Path, model: str) -> Read:
        """What was written beside a saved version; what cannot be read is left out.

        Args:
            version: its folder.
            model: fingerprint of the encoder.
        """
        found = []
        for folder in sorted((version / _FOLDER).glob("[0-9]*")):
            try:
                requests = folder / "requests"
                found.append(
                    cls(
                        read_vectors(folder, model) if (folder / "vectors.npy").exists() else None,
                        RequestVectors.load(requests) if requests.is_dir() else None,
                    )
                )
            except (OSError, ValueError, KeyError, TypeError, EOFError):
                continue  # it is encoded again
        return cls.joined(found)


def _joined_vectors(parts: Sequence[Vectors]) -> Vectors:
    return Vectors(
        np.concatenate([one.values for one in parts]),
        tuple(key for one in parts for key in one.keys),
        parts[0].model,
    )
