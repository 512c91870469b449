"""The search of a client, with what servers say in their instructions and votes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..catalog.document import embedding_text
from ..retrieval import Hit, Selection
from ..view import View
from .instructions import servers_meant

#: Tools added for a server that only its instructions speak for.
_ADDED = 2
#: Words of its instructions that a request has to have where the search says that nothing fits.
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
    """The permitted tools that fit, best first, or none where nothing fits.

    Where words of the request stand in the instructions of one server alone, and no tool that was
    found has them, the best tools of that server stand behind the others.

    Args:
        view: what may be found.
        query: the request.
        instructions: of the servers that may be used, by name.
        k: tools at most.
        tier: of the search; the engine's default when absent.

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
    added = own.search(query, k=min(_ADDED, k), tier=tier, budget_ms=SEARCH_MS).hits
    if not added:
        added = tuple(Hit(tool, 0, 0.0, {}) for tool in tools[: min(_ADDED, k)])
    kept = found.hits[: k - len(added)]
    most = kept[-1].score if kept else added[0].score
    behind = tuple(
        hit._replace(rank=rank, score=min(hit.score, most))
        for rank, hit in enumerate(added, len(kept) + 1)
    )
    return replace(found, hits=(*kept, *behind), abstained=False, reason=None)
