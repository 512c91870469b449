"""Haystack's SearchableToolset: BM25 over tool names and descriptions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .libraries import library
from .naming import PeerNames

if TYPE_CHECKING:
    from ...catalog import Tool


def _not_run(**_arguments: Any) -> None:
    """Stand behind a tool that is only searched for."""


class HaystackSearch:
    """The toolset's ``search_tools``; what it found is read by iterating over the toolset.

    It expects keywords chosen by a model; given whole requests, as here, its figures are a lower
    bound. Its pass-through for small catalogs is off, so that every catalog is ranked. Schemas are
    left out: it does not rank by them, and one that is no valid 2020-12 schema, as real servers
    send, would keep the whole catalog from being indexed.
    """

    name = "haystack"
    depth_free = True

    def __init__(self) -> None:
        # Importing haystack otherwise writes a user id to the home folder and reports usage.
        os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")
        self._haystack = library("haystack.tools", self.name)

    def index(self, tools: Sequence[Tool]) -> None:
        """Warm the toolset up, which builds its BM25 index."""
        self._names = PeerNames(tools)
        self._toolset = self._haystack.SearchableToolset(
            [
                self._haystack.Tool(
                    name=self._names.name(tool.id),
                    description=tool.description,
                    parameters={"type": "object"},
                    function=_not_run,
                )
                for tool in tools
            ],
            search_threshold=1,
        )
        self._toolset.warm_up()
        self._search_tool = next(iter(self._toolset))

    def search(self, query: str, k: int) -> list[str]:
        """Rank by BM25; tools it discovered are kept in the order of their rank."""
        self._toolset.clear()
        self._search_tool.invoke(tool_keywords=query, k=k)
        discovered = [tool.name for tool in self._toolset][1:]
        return [self._names.tool_id(name) for name in discovered]
