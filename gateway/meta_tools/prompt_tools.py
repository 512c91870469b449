"""The tools that fit a user's message, as lines that a coding agent's hook puts beside it."""

from __future__ import annotations

from ...gating import State
from ...loaders.levels import Level
from ...loaders.summaries import shared_summaries
from ...session.conversation_search import search_intents
from ..profiles.profile import ProfileViews
from .search_answer import near_ids, tool_fields

#: Most tools in one answer.
MAX_TOOLS = 8
#: Characters of a message that are searched for, half of them from its end.
_MAX_CHARS = 4_000
#: Milliseconds that a search may take: each message waits for the hook.
_BUDGET_MS = 60.0
#: Least probability that a tool fits. Nobody asked for these lines: rather none than wrong ones.
_MIN_FITS = 0.85
_HEADING = "Tools of the MCP server shortlist that may help; `call_tool` calls them:"


def prompt_tools(views: ProfileViews, message: str) -> str:
    """The tools that clearly fit a message; empty if none does.

    Args:
        views: the permissions of the client's profile.
        message: the user's message.
    """
    if len(message) > _MAX_CHARS:
        half = _MAX_CHARS // 2
        message = f"{message[:half]}\n{message[-half:]}"
    if not message.strip():
        return ""
    view = views.view(State())
    searches = search_intents(view, message, tier=None, k=MAX_TOOLS, budget_ms=_BUDGET_MS)
    judged = [view.judged(selection, MAX_TOOLS) for _, selection in searches]
    # 1 means that something is to be kept in mind, which small talk often seems to be.
    fitting = [selection for selection in judged if 1 > (selection.fits or 0.0) >= _MIN_FITS]
    per_part = MAX_TOOLS // max(1, len(fitting))
    summaries = shared_summaries(view.admission.index.summaries)
    lines: dict[str, None] = {}
    for selection in fitting:
        near = near_ids(selection.hits, per_part)
        for hit in selection.hits:
            if hit.id in near:
                fields = tool_fields(hit.tool, Level.SIGNATURE, summaries, is_short=True)
                lines[f"- {hit.id}{fields['signature']}: {fields['description']}"] = None
    return "\n".join([_HEADING, *lines]) if lines else ""
