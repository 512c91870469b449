"""Finds the example queries that belong to a tool."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Self

from ..catalog import Tool
from ..catalog.schema import canonical_json, digest
from ..retrieval.example_queries import USAGE, ExampleQueries
from .example_file import MAX_QUERIES, ExampleQueryRow, read_example_queries
from .library import Library, LibraryMatch

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
        # Finding a row takes a millisecond: the matches of the last version are kept.
        self._library_matches: dict[str, tuple[str, LibraryMatch | None]] = {}
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

    def with_usage(self, rows: Iterable[ExampleQueryRow]) -> Self:
        """The same example queries, but of usage only those of some rows.

        Args:
            rows: rows of usage. They come after all others.
        """
        others = [row for by_id in self._by_id.values() for row in by_id if row.source != USAGE]
        return type(self)([*others, *rows], self._library)

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
        return self._match(tool, self._library_match(tool)) if self else None

    def _match(self, tool: Tool, library_match: LibraryMatch | None) -> ExampleQueries | None:
        fresh = [*self._by_fingerprint.get(tool.fingerprint, ())]
        stale: list[ExampleQueryRow] = []
        for row in self._by_id.get(tool.id, ()):
            if row.fingerprint is None:
                fresh.append(row)
            elif row.fingerprint != tool.fingerprint and _same_parameters(row, tool):
                stale.append(row)
        summary = next((row.summary for row in fresh if row.summary), "")
        if library_match is not None:
            (fresh if library_match.is_same_definition else stale).append(library_match.row)
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

    def match_all(
        self, tools: Iterable[Tool], trusted_pin_ages: Mapping[str, int] = MappingProxyType({})
    ) -> dict[str, ExampleQueries]:
        """Tool id to example queries, for each tool of the catalog that has some.

        Args:
            tools: the tools.
            trusted_pin_ages: ids of trusted tools, and the ages of their pins. Of several tools
                that a row of the library fits, only those of the lowest age get it. Without ages,
                all do.
        """
        if not self:
            return {}
        tools = tuple(tools)
        library_matches = {tool.id: self._library_match(tool) for tool in tools}
        self._library_matches = {
            tool.id: (tool.fingerprint, library_matches[tool.id]) for tool in tools
        }
        if trusted_pin_ages:
            library_matches = _of_oldest(library_matches, trusted_pin_ages)
        matches = {tool.id: self._match(tool, library_matches[tool.id]) for tool in tools}
        return {tool_id: queries for tool_id, queries in matches.items() if queries is not None}

    def _library_match(self, tool: Tool) -> LibraryMatch | None:
        if self._library is None:
            return None
        fingerprint, match = self._library_matches.get(tool.id, ("", None))
        return match if fingerprint == tool.fingerprint else self._library.find(tool)


def _of_oldest(
    matches: Mapping[str, LibraryMatch | None], trusted_pin_ages: Mapping[str, int]
) -> dict[str, LibraryMatch | None]:
    """Tool id to its match, None where an older tool has the same one."""
    lowest_ages: dict[str, float] = {}
    for tool_id, match in matches.items():
        if match is not None:
            source = match.row.tool
            lowest_ages[source] = min(
                trusted_pin_ages.get(tool_id, inf), lowest_ages.get(source, inf)
            )
    return {
        tool_id: match
        if match is not None and trusted_pin_ages.get(tool_id, inf) <= lowest_ages[match.row.tool]
        else None
        for tool_id, match in matches.items()
    }


def _same_parameters(row: ExampleQueryRow, tool: Tool) -> bool:
    return row.parameters is not None and set(row.parameters) == {
        parameter.name for parameter in tool.parameters
    }
