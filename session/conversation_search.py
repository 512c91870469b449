"""From a conversation to ranked tools: searches, and merges their results into one ranking."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..catalog import Tool
from ..retrieval import Hit, Selection, StageResult
from .conversation import context_weight
from .intents import clauses

if TYPE_CHECKING:
    from ..view import View

Scores = NDArray[np.float64]

# What a server's best tool lends to the others of its server: steps of one job tend to live
# together. More where the request has several parts.
_COHESION, _COHESION_OF_PARTS = 0.2, 0.5
# What a server called lately lends to its tools that were not, times the weight of the context.
_LATELY = 0.1
# A part must be answered at least this well against the whole request to be an intent.
_SURE = 0.7
# Spread of a tool's credit, as a share of the best score: how near to the best one a tool must be
# to be offered beside it. And the weight of the whole request's ranking beside the parts'.
_SPREAD, _WHOLE_CREDIT = 0.1, 2.0
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


class ScoreBoard:
    """Tools found by any of several searches, with each search's score of each.

    A tool that a search did not list gets the lowest score of that list, or 0 if the list is
    complete.

    Args:
        selections: at least one, of one catalog version and tier.
        depth: number of hits requested from each search.
    """

    def __init__(self, selections: Sequence[Selection], depth: int) -> None:
        places: dict[str, int] = {}
        tools: list[Tool] = []
        for selection in selections:
            for hit in selection.ranked:
                if places.setdefault(hit.id, len(tools)) == len(tools):
                    tools.append(hit.tool)
        self.tools = tuple(tools)
        self.places = places
        self.scores = np.empty((len(selections), len(tools)))
        for row, selection in enumerate(selections):
            scores = self.scores[row]
            lowest = min((hit.score for hit in selection.ranked), default=0.0)
            scores.fill(lowest if len(selection.ranked) >= depth else min(lowest, 0.0))
            scores[[places[hit.id] for hit in selection.ranked]] = [
                hit.score for hit in selection.ranked
            ]
        # A tool without a server is a server of its own.
        names: dict[tuple[str | None, str | None], int] = {}
        self._servers = np.array(
            [
                names.setdefault((one.server, None if one.server else one.id), len(names))
                for one in tools
            ],
            np.int64,
        )

    def after(self, scores: Scores, called: Collection[str], context: float) -> Scores:
        """Scores with a bonus for servers of recently called tools, (tools,).

        Args:
            scores: (tools,).
            called: ids of the tools called lately.
            context: weight of the earlier conversation, from 0 to 1.
        """
        servers = {tool.server for tool in self.tools if tool.id in called and tool.server}
        near = [tool.server in servers and tool.id not in called for tool in self.tools]
        return np.asarray(scores + np.array(near) * (_LATELY * context * scores.max(initial=0)))

    def cohesive(self, scores: Scores, *, parts: bool = False) -> Scores:
        """Scores plus a share of the best score of the tool's server, (tools,)."""
        if not len(scores):
            return scores
        best = np.full(int(self._servers.max()) + 1, -np.inf)
        np.maximum.at(best, self._servers, scores)
        share = _COHESION_OF_PARTS if parts else _COHESION
        return np.asarray(scores + share * best[self._servers])

    def intents(self, whole: Scores, parts: Sequence[int]) -> list[int]:
        """The rows of `parts` that are separate intents; none, or at least two.

        An intent needs a best score close to that of the whole message, and another best tool than
        the intents before it. So "salt and pepper" stays one intent.

        Args:
            whole: scores for the whole message, (tools,).
            parts: rows of `scores`.
        """
        taken: list[int] = []
        tops: set[int] = set()
        for part in parts if self.tools else ():
            if self.scores[part].max(initial=0.0) < _SURE * whole.max(initial=0.0):
                continue
            top = int(np.argmax(self._beside(part, whole)))
            if top not in tops:
                tops.add(top)
                taken.append(part)
        return taken if len(taken) > 1 else []

    def shared(self, whole: Scores, intents: Sequence[int]) -> Scores:
        """Merged score of every tool for several intents, (tools,), summing to 1.

        Each intent distributes its weight over its hits: the closer to its best score, the larger
        the share. The ranking of the whole message takes part too.
        """
        credit = _WHOLE_CREDIT * _spread(self.cohesive(whole, parts=True))
        for intent in intents:
            scores = self._beside(intent, whole)
            credit = credit + _spread(self.cohesive(scores, parts=True)) / len(intents)
        return np.asarray(credit / (_WHOLE_CREDIT + 1.0))

    def _beside(self, part: int, whole: Scores) -> Scores:
        """The scores of a part, with a share of the scores of the whole message."""
        return np.asarray((self.scores[part] + whole) / 2)


def _spread(scores: Scores) -> Scores:
    top = scores.max(initial=0.0)
    if top < np.finfo(np.float32).tiny:
        return np.full(len(scores), 1.0 / max(len(scores), 1))
    grown = np.exp((scores - top) / (_SPREAD * top))
    return np.asarray(grown / grown.sum())
