"""A client's search, which also uses the servers' instructions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..catalog.document import embedding_text
from ..retrieval import Hit, Selection
from ..view import View
from .instructions import servers_meant

#: Tools added for a server that only matched by its instructions.
_ADDED = 2
#: Least number of common words of query and instructions if the search abstained.
_WORDS = 2
#: Time limit of a search in milliseconds, a hundred times what it takes on an idle machine. Where
#: the encoder takes longer, the tier `fast` answers.
SEARCH_MS = 500.0


def find(
    view: View,
    query: str,
    instructions: Mapping[str, str],
    *,
    k: int,
    tier: str | None = None,
) -> Selection:
    """The permitted tools that fit a query, best first.

    If words of the query are only in the instructions of one server, and in no found tool, the best
    tools of this server are added at the end.

    Args:
        view: the permitted tools.
        query: text to search for.
        instructions: permitted server to its instructions.
        k: tools at most.
        tier: tier of the search; the engine's default when absent.

    Raises:
        RequestError: an argument is wrong.
    """
    found = view.search(query, k=k, tier=tier, budget_ms=SEARCH_MS, decide=True)
    texts = (embedding_text(hit.tool) for hit in found.hits)
    servers = {hit.tool.server for hit in found.hits}
    least = _WORDS if found.abstained else 1
    meant = [
        server
        for server, words in servers_meant(query, instructions, texts)
        if words >= least and server not in servers
    ]
    if not meant:
        return found
    tools = [tool for tool in view.tools() if tool.server == meant[0]]
    own = view.limited(tool.id for tool in tools)
    added = own.search(query, k=min(_ADDED, k), tier=tier, budget_ms=SEARCH_MS).ranked
    if not added:
        added = tuple(Hit(tool, 0, 0.0, {}) for tool in tools[: min(_ADDED, k)])
    kept = found.hits[: k - len(added)]
    most = kept[-1].score if kept else added[0].score
    behind = tuple(
        hit._replace(rank=rank, score=min(hit.score, most))
        for rank, hit in enumerate(added, len(kept) + 1)
    )
    return replace(found, hits=(*kept, *behind), abstained=False, reason=None)
