"""Finds the example queries that belong to a tool."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from functools import cached_property
from pathlib import Path
from typing import Self

from ..catalog import Tool
from ..catalog.schema import canonical_json, digest
from ..retrieval.example_queries import ExampleQueries
from .example_file import MAX_QUERIES, ExampleQueryRow, read_example_queries
from .library import Library

#: Names the package's own rows in a configuration.
LIBRARY = "library"


class ExampleQueryMatcher:
    """Finds the example queries of a tool among rows, and among those for known servers.

    A row with a fingerprint belongs to the tool with that definition, on any server. When the
    definition of its id changes, the row stays, marked as stale, while the names of the parameters
    stay. A row without a fingerprint belongs to the tool of its id. Only a row that is not stale
    gives the tool its summary, and no row of the library does.

    Args:
        rows: rows in order of weight. The first 16 example queries of a tool are used.
        library: rows of the package for known servers. Such a row is not used for a changed
            definition if `rows` has a fresh one.

    Example:
        >>> from shortlist import Tool
        >>> from shortlist.enrichment import ExampleQueryRow, ExampleQueryMatcher
        >>> rows = [ExampleQueryRow(tool="billing/list_invoices", queries=("who owes us money?",))]
        >>> ExampleQueryMatcher(rows).match(Tool("list_invoices", "billing")).queries
        ('who owes us money?',)
    """

    def __init__(
        self, rows: Iterable[ExampleQueryRow] = (), library: Library | None = None
    ) -> None:
        self._library = library
        self._by_id: dict[str, list[ExampleQueryRow]] = defaultdict(list)
        self._by_fingerprint: dict[str, list[ExampleQueryRow]] = defaultdict(list)
        for row in rows:
            self._by_id[row.tool].append(row)
            if row.fingerprint is not None:
                self._by_fingerprint[row.fingerprint].append(row)

    @classmethod
    def read(cls, names: Collection[str | Path]) -> Self:
        """The example queries that a configuration names.

        Args:
            names: files, and `library` for the rows of the package.

        Raises:
            ConfigError: see `read_example_queries`.
        """
        files = [name for name in names if name != LIBRARY]
        return cls(read_example_queries(files), Library() if LIBRARY in names else None)

    def __bool__(self) -> bool:
        return bool(self._by_id) or self._library is not None

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all rows and of the library."""
        parts = [canonical_json(row.to_dict()) for rows in self._by_id.values() for row in rows]
        if self._library is not None:
            parts.append(self._library.fingerprint)
        return digest(part.encode("utf-8", "replace") for part in parts)

    def match(self, tool: Tool) -> ExampleQueries | None:
        """The example queries of a tool; None if it has none."""
        if not self:
            return None
        fresh = [*self._by_fingerprint.get(tool.fingerprint, ())]
        stale: list[ExampleQueryRow] = []
        for row in self._by_id.get(tool.id, ()):
            if row.fingerprint is None:
                fresh.append(row)
            elif row.fingerprint != tool.fingerprint and _same_parameters(row, tool):
                stale.append(row)
        summary = next((row.summary for row in fresh if row.summary), "")
        library_match = None if self._library is None else self._library.find(tool)
        if library_match is not None:
            (fresh if library_match.exact else stale).append(library_match.row)
        rows = fresh or stale
        if not rows:
            return None
        queries = tuple(dict.fromkeys(query for row in rows for query in row.queries))
        when = tuple(dict.fromkeys(row.when for row in rows if row.when))
        sources = tuple(dict.fromkeys(row.source for row in rows))
        # The mean of the library belongs to its row alone.
        mean = None
        if library_match is not None and rows == [library_match.row]:
            mean = library_match.mean
        return ExampleQueries(
            queries[:MAX_QUERIES], when, sources, not fresh, mean, summary=summary
        )

    def match_all(self, tools: Iterable[Tool]) -> dict[str, ExampleQueries]:
        """Tool id to example queries, for each tool of the catalog that has some."""
        if not self:
            return {}
        matches = {tool.id: self.match(tool) for tool in tools}
        return {tool_id: queries for tool_id, queries in matches.items() if queries is not None}


def _same_parameters(row: ExampleQueryRow, tool: Tool) -> bool:
    return row.parameters is not None and set(row.parameters) == {
        parameter.name for parameter in tool.parameters
    }
