"""From a conversation to ranked tools."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from ..retrieval import Hit, Selection, StageResult
from .conversation import context_weight
from .intents import clauses
from .score_board import ScoreBoard, Scores

if TYPE_CHECKING:
    from ..view import View

#: Hits taken from each search before they are merged.
DEPTH = 50
#: Stages of a search that put tools before all others, whatever their scores.
_FIRST = frozenset(("exact", "claim"))
#: Weight of the context above which a request is judged by what it finds in context.
LEANING = 0.3
#: Stage under which a hit carries its place and score in the merged ranking.
STAGE = "session"


@dataclass(frozen=True, slots=True)
class Found:
    """The results of a turn's searches.

    Args:
        queries: the texts searched for, the message first.
        selections: one result per query.
        merged: all results merged into one.
        judged: the result for the decision: of the message alone, or with context for a follow-up.
        intents: parts of the message with different tools; empty for a single intent.
        context: weight of the earlier conversation, from 0 to 1.
        search_ms: milliseconds in the engine.
    """

    queries: tuple[str, ...]
    selections: tuple[Selection, ...]
    merged: Selection
    judged: Selection
    intents: tuple[str, ...]
    context: float
    search_ms: float


def find(
    view: View,
    request: str,
    in_context: str,
    *,
    tier: str | None,
    k: int,
    context: float | None = None,
    called: Collection[str] = (),
) -> Found:
    """Search for a message alone, with context, and for its parts, and merge the results.

    Args:
        view: the tools that may be found.
        request: the present message.
        in_context: the message with its context; equal to `request` without context.
        tier: name of the tier; None for the engine's default.
        k: number of hits needed.
        context: weight of the search with context; computed from both searches when absent.
        called: ids of recently called tools.
    """
    depth = max(k, DEPTH)
    parts = clauses(request)
    queries = [request]
    if in_context != request:
        queries.append(in_context)
    first_part = len(queries)
    if len(parts) > 1:
        queries.extend(parts)
    start = perf_counter()
    selections = view.search_many(queries, tier=tier, k=depth)
    search_ms = (perf_counter() - start) * 1e3
    board = ScoreBoard(selections, depth)
    whole, weight = board.scores[0], 0.0
    if first_part > 1:
        alone, within = board.scores[0], board.scores[1]
        weight = (
            context_weight(request, alone.max(initial=0), within.max(initial=0))
            if context is None
            else context
        )
        whole = (1 - weight) * alone + weight * within
        if called:
            whole = board.after(whole, called, weight)
    intents = board.intents(whole, range(first_part, len(queries)))
    ranking = board.shared(whole, intents) if intents else board.cohesive(whole)
    if intents:
        # The request's best tool keeps its place; the parts share those below it.
        ranking[np.argmax(whole)] = 1.0
    main = selections[1] if weight > LEANING else selections[0]
    sources = [main, *(one for one in selections if one is not main)]
    hits = _hits(board, ranking, whole, sources, selections[0], depth)
    return Found(
        tuple(queries),
        tuple(selections),
        _thresholded(main, hits, selections),
        main,
        tuple(queries[part] for part in intents),
        weight,
        search_ms,
    )


def _thresholded(
    main: Selection, merged: Sequence[Hit], selections: Sequence[Selection]
) -> Selection:
    """The merged answer, without the hits that the tier's threshold dropped in every search."""
    if not any(one.dropped for one in selections):
        return replace(main, hits=tuple(merged))
    kept = {hit.id for one in selections for hit in one.hits}
    hits = [hit for hit in merged if hit.id in kept]
    dropped = [hit for hit in merged if hit.id not in kept]
    ordered = [hit._replace(rank=rank) for rank, hit in enumerate([*hits, *dropped], 1)]
    return replace(main, hits=tuple(ordered[: len(hits)]), dropped=tuple(ordered[len(hits) :]))


def _hits(
    board: ScoreBoard,
    ranking: Scores,
    whole: Scores,
    sources: Sequence[Selection],
    asked: Selection,
    most: int,
) -> tuple[Hit, ...]:
    """The merged hits. Tools named in the message and claimed tools stay first."""
    listed: dict[str, Hit] = {}
    for selection in sources:
        for hit in selection.ranked:
            listed.setdefault(hit.id, hit)
    first = [hit.id for hit in asked.hits if not _FIRST.isdisjoint(hit.stages)]
    ids = [tool.id for tool in board.tools]
    credit, scores = ranking.tolist(), whole.tolist()
    # By credit, ties by id: a reversed sort keeps the order of equals.
    order = sorted(range(len(ids)), key=ids.__getitem__)
    order.sort(key=credit.__getitem__, reverse=True)
    ordered = list(dict.fromkeys([*first, *(ids[at] for at in order)]))
    hits = []
    for rank, tool_id in enumerate(ordered[:most], 1):
        hit, place = listed[tool_id], board.places[tool_id]
        stages = {**hit.stages, STAGE: StageResult(rank, credit[place])}
        hits.append(Hit(hit.tool, rank, scores[place], stages))
    return tuple(hits)
