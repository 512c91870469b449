"""The tools a caller is limited to, by ids and globs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..errors import RequestError
from ..pattern import is_wild
from .compiled import CompiledGate
from .condition import Mask


@dataclass(frozen=True, slots=True)
class Allowed:
    """Rows that a caller is limited to.

    Args:
        mask: shape (n,); None for no limit.
        unmatched: entries that match no tool of the catalog, in the order given, each once.
    """

    mask: Mask | None = None
    unmatched: tuple[str, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[str] | None, catalog: CompiledGate) -> Allowed:
        """The rows that the entries of `allowed` match.

        An entry that is the id of a tool means only that tool, even if it contains wildcards. Any
        other entry with a wildcard is a glob, see `Pattern`. Both match exactly, because they grant
        permission.

        Args:
            entries: ids and globs; None for no limit.
            catalog: the catalog version.

        Raises:
            RequestError: an entry is not a text.
        """
        if entries is None:
            return cls()
        if isinstance(entries, str):
            raise RequestError(f"allowed: a list of ids and globs, not the text {entries[:80]!r}")
        mask = np.zeros(len(catalog.tools), np.bool_)
        rows, known, unmatched = catalog.rows, [], []
        try:
            for entry in dict.fromkeys(entries):
                if (row := rows.get(entry)) is not None:
                    known.append(row)
                elif not isinstance(entry, str):
                    raise RequestError(f"allowed: an id or a glob, not {entry!r:.80}")
                elif is_wild(entry) and len(matched := catalog.granted(entry)):
                    mask[matched] = True
                else:
                    unmatched.append(entry)
        except TypeError as error:
            raise RequestError(f"allowed: a list of ids and globs: {error}") from error
        mask[known] = True
        return cls(mask, tuple(unmatched))
