"""Prompts, resources and skills in the answer of `search_tools`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...catalog import Tool
from ...loaders.levels import Level
from ...loaders.summaries import shared_summaries
from ...retrieval import Hit, Selection
from ...view import View
from ..relay.other_kinds import Kind
from .meta_tool_definitions import MAX_TOOLS
from .search_answer import SEARCH_BUDGET_MS, tool_fields

#: Entries of each kind in an answer.
_ENTRIES_OF_KIND = 5
#: An entry fits better than the tools if its similarity to the query is larger by this than that of
#: every tool, and than the least similarity that counts. Chosen on half of
#: `lab/queries/kinds_requests.jsonl`, against requests that no tool serves.
_SIMILARITY_LEAD, _LEAST_SIMILARITY = 0.05, 0.3
#: What a model does with entries of a kind.
_USES = {Kind.PROMPT: "gets", Kind.RESOURCE: "reads", Kind.SKILL: "reads"}


@dataclass(frozen=True, slots=True)
class FoundEntries:
    """The entries that a search found.

    Args:
        hits_by_kind: kind to its entries, best first.
        tier: the tier that ran.
    """

    hits_by_kind: Mapping[Kind, Sequence[Hit]]
    tier: str

    @property
    def hits(self) -> tuple[Hit, ...]:
        """The entries of all kinds."""
        return tuple(hit for hits in self.hits_by_kind.values() for hit in hits)


def find_entries(
    views: Mapping[Kind, View], queries: Sequence[str], k: int | None, tier: str | None
) -> FoundEntries:
    """The entries that fit the queries.

    Args:
        views: kind to the permitted entries; only these kinds are searched.
        queries: texts to search for.
        k: most entries of each kind; 5 when None.
        tier: tier of the search; the default one when None.
    """
    hits_by_kind: dict[Kind, list[Hit]] = {}
    selections: list[Selection | None] = [None] * len(queries)
    ran_tier = "none"
    for kind, view in views.items():
        hits: list[Hit] = []
        for number, query in enumerate(queries):
            earlier = selections[number]
            if earlier is None or earlier.vector is None:
                selection = view.search(query, tier=tier, k=MAX_TOOLS, budget_ms=SEARCH_BUDGET_MS)
            else:
                # The query is not encoded again.
                selection = view.search_among(None, earlier, tier=tier, k=MAX_TOOLS)
            selections[number], ran_tier = selection, selection.tier
            hits += selection.hits
        best_by_id: dict[str, Hit] = {}
        for hit in sorted(hits, key=lambda hit: hit.rank):
            best_by_id.setdefault(hit.id, hit)
        hits_by_kind[kind] = list(best_by_id.values())[: k or _ENTRIES_OF_KIND]
    return FoundEntries(hits_by_kind, ran_tier)


def entry_rows(
    views: Mapping[Kind, View], hits_by_kind: Mapping[Kind, Sequence[Hit]]
) -> list[dict[str, Any]]:
    """The entries as objects: name, kind, arguments and description."""
    rows = []
    for kind, hits in hits_by_kind.items():
        summaries = shared_summaries(views[kind].admission.index.summaries)
        for hit in hits:
            fields = tool_fields(hit.tool, Level.SIGNATURE, summaries, is_short=True)
            if not _has_arguments(hit.tool):
                del fields["signature"]
            rows.append({"name": hit.id, "kind": str(kind), **fields})
    return rows


def entry_blocks(rows: Sequence[Mapping[str, Any]], call_tool: str) -> list[str]:
    """The entries as text, the same as `entry_rows` gives.

    Args:
        rows: the entries.
        call_tool: the meta-tool that uses an entry.
    """
    blocks = []
    for kind, use in _USES.items():
        lines = [
            f"{rank}. {row['name']}{row.get('signature', '')}: "
            f"{row.get('description') or 'no description'}"
            for rank, row in enumerate((row for row in rows if row["kind"] == kind), 1)
        ]
        if lines:
            heading = f"{kind.capitalize()}s ({call_tool} {use} one by its name):"
            blocks.append("\n".join([heading, *lines]))
    return blocks


def better_kinds_note(views: Mapping[Kind, View], selections: Iterable[Selection]) -> str:
    """A line with the number of entries that fit better than the tools; empty if none does.

    Only a tier with an encoder has scores that two indexes share.

    Args:
        views: kind to the permitted entries.
        selections: the searches for tools.
    """
    better: dict[Kind, set[str]] = {}
    for selection in selections:
        if selection.vector is None:
            continue
        tool_similarity = max(_similarities(selection.hits).values(), default=0.0)
        needed = max(tool_similarity, _LEAST_SIMILARITY) + _SIMILARITY_LEAD
        for kind, view in views.items():
            hits = view.search_among(None, selection, k=_ENTRIES_OF_KIND).hits
            ids = {tool_id for tool_id, value in _similarities(hits).items() if value > needed}
            better.setdefault(kind, set()).update(ids)
    counts = [f"{len(ids)} {kind}{'s' * (len(ids) > 1)}" for kind, ids in better.items() if ids]
    kinds = ", ".join(f'"{kind}"' for kind, ids in better.items() if ids)
    return f"also: {', '.join(counts)} (kinds=[{kinds}])" if counts else ""


def _similarities(hits: Iterable[Hit]) -> dict[str, float]:
    """Id to the similarity of its text to the query, for the hits of the stage `dense`."""
    return {hit.id: hit.stages["dense"].score for hit in hits if "dense" in hit.stages}


def _has_arguments(tool: Tool) -> bool:
    return bool((tool.input_schema or {}).get("properties"))
