"""The tools that fit a user's message, as lines that a coding agent's hook puts beside it."""

from __future__ import annotations

from ...decision.decider import judge_answer
from ...gating import State
from ...loaders.levels import Level
from ...loaders.summaries import shared_summaries
from ...retrieval import Selection
from ...session.conversation_search import search_intents
from ...settings import AUTO_TIER
from ...view import View
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
_HEADING = "MCP tools which may help, in the servers' words; `call_tool` calls them:"


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
    fitting = [selection for _, selection in searches if _clearly_fits(view, selection)]
    per_part = MAX_TOOLS // max(1, len(fitting))
    summaries = shared_summaries(view.admission.index.summaries)
    lines: dict[str, None] = {}
    for selection in fitting:
        hits = selection.hits[:MAX_TOOLS]
        near = near_ids(hits, per_part)
        for hit in hits:
            if hit.id in near:
                fields = tool_fields(hit.tool, Level.SIGNATURE, summaries, is_short=True)
                lines[f"- {hit.id}{fields['signature']}: {fields['description']}"] = None
    return "\n".join([_HEADING, *lines]) if lines else ""


def _clearly_fits(view: View, selection: Selection) -> bool:
    # A faster tier that ran for want of time is wrong more often.
    if selection.tier_asked not in (selection.tier, AUTO_TIER):
        return False
    decision = judge_answer(view.decider, selection, view.admission.permitted_count)
    # Small talk often seems to be a sentence that a tool could keep.
    is_small_talk = decision.basis == "personal"
    return not decision.abstained and not is_small_talk and (decision.fits or 0.0) >= _MIN_FITS
