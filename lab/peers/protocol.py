"""Protocol of the compared tool retrievers (peers)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ...catalog import Tool


class Peer(Protocol):
    """A tool retriever: index a set of tools once, then rank it for each query."""

    @property
    def name(self) -> str:
        """The name it is registered and reported under."""
        ...

    @property
    def depth_free(self) -> bool:
        """Whether its order stays the same however many ids are asked for.

        Only then may an answer over the whole catalog be restricted to a pool afterwards.
        """
        ...

    def index(self, tools: Sequence[Tool]) -> None:
        """Replace whatever was indexed by these tools, ready for the first search.

        Args:
            tools: tools with unique ids; at least one.
        """
        ...

    def search(self, query: str, k: int) -> list[str]:
        """Rank the indexed tools for a request.

        Args:
            query: the request as the user wrote it.
            k: the most ids wanted, at least 1.

        Returns:
            Up to k tool ids, best first; fewer, or none, where the peer finds no more.
        """
        ...
