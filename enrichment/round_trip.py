"""Requests that another tool serves better are dropped, so that none claims what it does not do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..catalog import Tool
from ..catalog.document import embedding_text
from ..models import Encoder
from .row import Enrichment

#: By how much cosine another tool's definition may be nearer to a request than that of its own
#: tool. Chosen on mcp_dev: 8 % of honest requests are dropped among 222 tools, 26 % among 3,926
#: (many have equals there), and 1 to 5 % of the requests of other tools pass (ADR 20).
MARGIN = 0.15
#: Least cosine of a request and the definition of its own tool: where no tool serves a request, all
#: are equally far. On mcp_dev 1.4 % more of honest texts are dropped and the figures stay; of what
#: hostile definitions bring through the margin in the demo's catalog, four fifths (ADR 20).
LEAST = 0.15


def round_trip(
    rows: Iterable[Enrichment], tools: Sequence[Tool], encoder: Encoder
) -> tuple[list[Enrichment], int]:
    """Rows without the requests that are far from their tool, or much nearer to another tool.

    Args:
        rows: rows of tools in `tools`. Rows of other tools do not change.
        tools: the catalog.
        encoder: encoder for definitions and requests.

    Returns:
        The rows that still have a request, and the number of dropped requests.
    """
    given = list(rows)
    places = {tool.id: place for place, tool in enumerate(tools)}
    values = encoder.encode([embedding_text(tool) for tool in tools])
    kept: list[Enrichment] = []
    dropped = 0
    for row in given:
        place = places.get(row.tool)
        if place is None:
            kept.append(row)
            continue
        # The sentences pass the same way: one is searched as well, the other is shown.
        texts = [text for text in (*row.requests, row.when, row.summary) if text]
        cosines = encoder.encode(texts, query=True) @ values.T
        own = cosines[:, place]
        passes = (own >= LEAST) & (cosines.max(axis=1) - own <= MARGIN)
        dropped += len(texts) - int(passes.sum())
        passing = {text for text, passed in zip(texts, passes, strict=True) if passed}
        requests = tuple(text for text in row.requests if text in passing)
        when = row.when if row.when in passing else ""
        summary = row.summary if row.summary in passing else ""
        if requests or when:
            update = {"requests": requests, "when": when, "summary": summary}
            kept.append(row.model_copy(update=update))
    return kept, dropped
