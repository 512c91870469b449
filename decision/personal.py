"""Sentences to and about the user, and the tools that keep what people say.

"Remember that Ann likes tea" asks for no tool by its words, and its words are in no definition. So
the models of the tiers take it for small talk. Where such a sentence meets a tool that keeps what
people say, the tool fits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..catalog import Tool
from ..retrieval.selection import Hit

HITS_READ = 10
"""Best hits of which one has to keep what people say: as many as a search offers by default."""

_KEEPING = re.compile(
    r"(?<![a-z])(memor(y|ies)|remember|recall|notes?|journal|diary|knowledge graph|observations?"
    r"|profiles?|preferences?)(?![a-z])"
)
_WORD_START = re.compile(r"([a-z])([A-Z])")
_DESCRIPTION_CHARS = 200


def keeps_what_is_said(tool: Tool) -> bool:
    """Whether a tool keeps, changes or reads what people say, by its name and first words.

    Example:
        >>> from shortlist import Tool
        >>> from shortlist.decision.personal import keeps_what_is_said
        >>> keeps_what_is_said(Tool("addObservations", "graph"))
        True
        >>> keeps_what_is_said(Tool("list_invoices", "billing"))
        False
    """
    name = _WORD_START.sub(r"\1 \2", tool.name).replace("_", " ").replace("-", " ")
    text = f"{name} . {tool.description[:_DESCRIPTION_CHARS]}"
    return _KEEPING.search(text.lower()) is not None


def any_keeps_what_is_said(hits: Sequence[Hit]) -> bool:
    """Whether one of the best hits keeps what people say."""
    return any(keeps_what_is_said(hit.tool) for hit in hits[:HITS_READ])
