"""Answers of the page's search: hits of each tier, and why one tool is found or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import shorten
from typing import Any

from ..catalog import Tool
from ..gating import Rule
from ..retrieval.example_queries import ExampleQueries
from ..retrieval.search.explanation import Explanation
from ..retrieval.selection import Hit, Selection
from ..text import lower_words, search_terms
from ..view import View
from .subject import HOW_TO_NAME_EXAMPLES_FILE, GatewaySubject, Subject

#: Denied tools that are named, those that fit the query best.
_MAX_DENIED = 100
#: Hits of an answer.
MAX_HITS = 10
#: Characters of a description in a list.
_MAX_SUMMARY_CHARS = 200


def search_tiers(
    subject: Subject, view: View, query: str, tiers: Sequence[str] | None = None
) -> dict[str, Any]:
    """The hits of several tiers for one query, with denied tools.

    Args:
        subject: what the page shows.
        view: what the caller may use.
        query: what to search for.
        tiers: names of the tiers; all when absent.
    """
    selections = {
        tier: view.search(query, tier=tier, k=MAX_HITS, abstain=True)
        for tier in tiers or subject.tiers
    }
    return {
        "query": query,
        "gateway": _gateway_answer(subject, view, query),
        "permitted": view.admission.permitted_count,
        "tools": len(view.catalog),
        "unmatched": list(view.unmatched),
        "tiers": [
            _tier_answer(view, query, tier, selection) for tier, selection in selections.items()
        ],
        "denied": _denied(subject, next(iter(selections.values()))),
    }


def _gateway_answer(subject: Subject, view: View, query: str) -> dict[str, Any] | None:
    """What the gateway answers to a model, decision included; None for a saved index."""
    if not isinstance(subject, GatewaySubject) or not query.strip():
        return None
    from ..gateway.meta_tools.meta_tool_answers import permitted_instructions
    from ..gateway.meta_tools.search_answer import find_parts, search_content, search_text

    down = subject.server_states().down_servers
    instructions = permitted_instructions(subject.fleet, view)
    parts = find_parts(view, {"query": query}, instructions, down)
    selection = parts[0].selection
    return {
        "tier": selection.tier,
        "tier_reason": selection.tier_reason,
        "abstained": not any(part.hits for part in parts),
        "reason": selection.reason,
        "parts": [
            {
                "query": part.query,
                "hits": [
                    {"id": hit.id, "summary": _summary(hit), "rank": rank}
                    for rank, hit in enumerate(part.hits, 1)
                ],
            }
            for part in parts
        ],
        "text": search_text(search_content(view, parts, None, down)),
    }


def _summary(hit: Hit) -> str:
    return shorten(hit.tool.description, _MAX_SUMMARY_CHARS, placeholder="…")


def _tier_answer(view: View, query: str, tier: str, selection: Selection) -> dict[str, Any]:
    hits: Sequence[Hit] = selection.hits_and_dropped
    if selection.abstained and not hits:
        # An operator wants to see what was not offered, too.
        hits = view.search(query, tier=tier, k=MAX_HITS).hits_and_dropped
    best = _best_scores(hits)
    return {
        **selection.to_dict(),
        "asked": tier,
        "hits": [
            {
                "id": hit.id,
                "rank": hit.rank,
                "score": hit.score,
                "summary": _summary(hit),
                "example_sources": list(hit.example_sources),
                "offered": hit in selection.hits,
                "stages": [
                    {
                        "name": name,
                        "rank": place.rank,
                        "score": place.score,
                        "share": _share(place.score, best[name]),
                    }
                    for name, place in hit.stages.items()
                ],
            }
            for hit in hits
        ],
    }


def _best_scores(hits: Sequence[Hit]) -> dict[str, float]:
    best: dict[str, float] = {}
    for hit in hits:
        for name, place in hit.stages.items():
            best[name] = max(place.score, best.get(name, place.score))
    return best


def _share(score: float, best: float) -> float:
    """The score as a part of the best one of the same stage, from 0 to 1."""
    return max(0.0, min(1.0, score / best)) if best > 0 else 0.0


def _denied(subject: Subject, selection: Selection) -> dict[str, Any]:
    reasons = subject.engine.quarantined
    flags = subject.engine.flags
    return {
        "count": len(selection.denied),
        "quarantined": sum(tool_id in subject.engine.catalog for tool_id in reasons),
        "nearest": [
            {
                **refusal.to_dict(),
                "tool": refusal.tool_id,
                "findings": list(flags[refusal.tool_id].reasons)
                if refusal.tool_id in flags and refusal.kind == "quarantined"
                else [],
            }
            for refusal in selection.denied.nearest(_MAX_DENIED)
        ],
    }


def explain_tool(
    subject: Subject, view: View, query: str, name: str, tiers: Sequence[str] | None = None
) -> dict[str, Any]:
    """Why a query finds a tool or not, in several tiers, and what would bring it up.

    Raises:
        UnknownToolError: no such tool.
    """
    explanations = [
        view.explain(query, name, tier=tier, k=MAX_HITS) for tier in tiers or subject.tiers
    ]
    index, row = view.admission.index, view.admission.find(name)
    if row is None:  # `explain` has raised in this case
        raise view.admission.unknown(name)
    tool = index.tools[row]
    examples = index.example_queries.get(tool.id)
    matches = matching_words(query, tool, examples)
    return {
        "tool": tool.id,
        "query": query,
        "explanations": [
            {**explanation.to_dict(), "asked": explanation.tier_asked}
            for explanation in explanations
        ],
        "words": matches,
        "examples": {
            "queries": [] if examples is None else list(examples.queries),
            "when": [] if examples is None else list(examples.when),
            "sources": [] if examples is None else list(examples.sources),
            "stale": examples is not None and examples.stale,
        },
        "call_rules": [_sentence_of(rule) for rule in view.admission.call_rules(tool.id)],
        "advice": list(_advice(subject, explanations, matches, examples)),
        "can_add": subject.examples is not None,
    }


def _sentence_of(rule: Rule) -> str:
    """What a rule about single calls does."""
    effect = "a person has to approve" if rule.approval else "denied are"
    tests = " and ".join(test.describe() for test in rule.when)
    return f"{rule.described()}: {effect} {f'calls with {tests}' if tests else 'every call'}"


def matching_words(query: str, tool: Tool, examples: ExampleQueries | None) -> list[dict[str, Any]]:
    """Each word of a query that is searched for, and the parts of the tool that have it."""
    parts = {
        "name": f"{tool.name} {tool.title or ''}",
        "server": tool.server or "",
        "description": tool.description,
        "parameters": " ".join(
            f"{parameter.path} {parameter.description}" for parameter in tool.parameters
        ),
        "examples": "" if examples is None else examples.text,
    }
    terms_by_part = {part: set(search_terms(text)) for part, text in parts.items()}
    matches: dict[str, dict[str, Any]] = {}
    for word in lower_words(query):
        for term in search_terms(word):
            matches.setdefault(
                term,
                {
                    "word": word,
                    "parts": [part for part in terms_by_part if term in terms_by_part[part]],
                },
            )
    return list(matches.values())


def _advice(
    subject: Subject,
    explanations: Sequence[Explanation],
    matches: Sequence[dict[str, Any]],
    examples: ExampleQueries | None,
) -> Iterator[str]:
    """What would bring the tool into the answer, one sentence each."""
    refusal = explanations[0].refusal
    if refusal is not None:
        if refusal.kind == "quarantined":
            yield "It is quarantined. Read its definition under Trust, and approve it there."
        elif refusal.unlocked_by:
            yield f"A call of {' or '.join(refusal.unlocked_by)} unlocks it."
        elif refusal.kind == "scope":
            yield "Grant the missing scope to the caller."
        else:
            yield "Change the rule or the list of allowed tools that denies it."
        return
    if all(explanation.offered for explanation in explanations):
        yield "Every tier offers it. Nothing has to change."
        return
    missing = [match["word"] for match in matches if not match["parts"]]
    if missing:
        yield (
            f"Its definition and example queries lack the words: {', '.join(missing)}. A "
            "description or an example query with them would bring it up."
        )
    if any("dropped" in explanation.reason for explanation in explanations):
        yield "A tier drops it because its score is below the tier's threshold."
    if subject.examples is not None:
        yield "Add this query to its example queries, and see its new rank at once."
    elif examples is None:
        yield f"It has no example queries; {HOW_TO_NAME_EXAMPLES_FILE} to add some here."
