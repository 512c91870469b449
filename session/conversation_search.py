"""From a conversation to ranked tools: searches, and merges their results into one ranking."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ..catalog import Tool
from ..retrieval import Hit, Selection, StageResult, Strategy
from ..retrieval.search.answer import STAGES_ABOVE_THRESHOLD
from .conversation import weigh_context
from .intents import parts_of_message

if TYPE_CHECKING:
    from ..view import View

Scores = NDArray[np.float64]
"""One score for each tool of a `ScoreBoard`, (tools,)."""

# What a server's best tool lends to the others of its server: steps of one job tend to live
# together. More where the request has several parts.
_SERVER_SHARE, _SERVER_SHARE_OF_PARTS = 0.2, 0.5
# What a server called lately lends to its tools that were not, times the weight of the context.
_SERVER_BONUS = 0.1
# A part must be answered at least this well against the whole request to be an intent.
_MIN_PART_SHARE = 0.7
# Spread of a tool's credit, as a share of the best score: how near to the best one a tool must be
# to be offered beside it. And the weight of the whole request's ranking beside the parts'.
_CREDIT_SPREAD, _MESSAGE_CREDIT = 0.1, 2.0
#: Hits taken from each search before they are merged.
HITS_PER_SEARCH = 50
#: Weight of the context above which a request is judged by what it finds in context.
_MIN_LEADING_WEIGHT = 0.3
#: Stage under which a hit carries its place and score in the merged ranking.
MERGED_STAGE = "session"


@dataclass(frozen=True, slots=True)
class SearchResults:
    """The results of a turn's searches.

    Args:
        queries: the texts searched for: the message, the message with its context, its parts.
        selections: one result per query.
        merged_selection: all results merged into one, best first, from which tools are offered.
        judged_selection: the one of `selections` from which is decided whether any tool fits: of
            the message alone, or with context for a follow-up.
        intents: parts of the message with different tools; empty for a single intent.
        context_weight: weight of the earlier conversation, from 0 to 1.
        search_ms: milliseconds in the engine.
    """

    queries: tuple[str, ...]
    selections: tuple[Selection, ...]
    merged_selection: Selection
    judged_selection: Selection
    intents: tuple[str, ...] = ()
    context_weight: float = 0.0
    search_ms: float = 0.0

    @classmethod
    def without_search(cls, request: str) -> Self:
        """The results of a turn that searches for nothing."""
        nothing = Selection(request, (), tier="", tier_asked="")
        return cls((request,), (), nothing, nothing)

    @property
    def ranked(self) -> tuple[Hit, ...]:
        """All tools found, best first."""
        return self.merged_selection.hits


def search_message(
    view: View,
    request: str,
    in_context: str,
    *,
    tier: str | Strategy | None,
    k: int,
    context_weight: float | None = None,
    called_ids: Collection[str] = (),
) -> SearchResults:
    """Search for a message alone, with context, and for its parts, and merge the results.

    Args:
        view: the tools that may be found.
        request: the present message.
        in_context: the message with its context; equal to `request` without context.
        tier: the tier or its name; None for the engine's default.
        k: number of hits needed.
        context_weight: weight of the search with context; computed from both searches when absent.
        called_ids: ids of recently called tools.
    """
    start = perf_counter()
    queries, selections, parts, depth = _search_texts(
        view, [request] if in_context == request else [request, in_context], tier=tier, k=k
    )
    search_ms = (perf_counter() - start) * 1e3
    board = ScoreBoard(selections, depth)
    message_scores, weight = board.scores[0], 0.0
    if in_context != request:
        scores_alone, scores_in_context = board.scores[0], board.scores[1]
        weight = (
            weigh_context(request, scores_alone.max(initial=0), scores_in_context.max(initial=0))
            if context_weight is None
            else context_weight
        )
        message_scores = (1 - weight) * scores_alone + weight * scores_in_context
        if called_ids:
            message_scores = board.with_server_bonus(message_scores, called_ids, weight)
    intents = board.intents(message_scores, parts)
    ranking = (
        board.credit_for_intents(message_scores, intents)
        if intents
        else board.with_server_share(message_scores)
    )
    if intents:
        # The request's best tool keeps its place; the parts share those below it.
        ranking[np.argmax(message_scores)] = 1.0
    main = selections[1] if weight > _MIN_LEADING_WEIGHT else selections[0]
    sources = [main, *(selection for selection in selections if selection is not main)]
    hits = _merge_hits(board, ranking, message_scores, sources, selections[0], depth)
    return SearchResults(
        tuple(queries),
        tuple(selections),
        _drop_below_threshold(main, hits, selections),
        main,
        tuple(queries[part] for part in intents),
        weight,
        search_ms,
    )


def search_intents(
    view: View,
    request: str,
    *,
    tier: str | Strategy | None,
    k: int,
    budget_ms: float | None = None,
) -> list[tuple[str, Selection]]:
    """The intents of a request, each with its search; the whole request if it has a single one.

    Args:
        view: the tools that may be found.
        request: the request, without a conversation.
        tier: the tier or its name; None for the engine's default.
        k: number of hits needed.
        budget_ms: time limit of each search in milliseconds.
    """
    queries, selections, parts, depth = _search_texts(
        view, [request], tier=tier, k=k, budget_ms=budget_ms
    )
    intents: list[int] = []
    # Scores of two tiers cannot be compared.
    if parts and len({selection.tier for selection in selections}) == 1:
        board = ScoreBoard(selections, depth)
        intents = board.intents(board.scores[0], parts)
    return [(queries[row], selections[row]) for row in intents or [0]]


class _Searches(NamedTuple):
    """The searches for a message.

    Args:
        queries: the texts, the message first.
        selections: one result per query.
        parts: places of the parts of the message; none if it has only one, the message itself.
        depth: number of hits asked for.
    """

    queries: list[str]
    selections: list[Selection]
    parts: range
    depth: int


def _search_texts(
    view: View,
    messages: Sequence[str],
    *,
    tier: str | Strategy | None,
    k: int,
    budget_ms: float | None = None,
) -> _Searches:
    """Search once for a message, for its other forms, and for each of its parts.

    Args:
        view: the tools that may be found.
        messages: the message, then other forms of it, such as with its context.
        tier: the tier or its name; None for the engine's default.
        k: number of hits needed.
        budget_ms: time limit of each search in milliseconds.
    """
    parts = parts_of_message(messages[0])
    queries = [*messages, *(parts if len(parts) > 1 else ())]
    depth = max(k, HITS_PER_SEARCH)
    selections = view.search_many(queries, tier=tier, k=depth, budget_ms=budget_ms)
    return _Searches(queries, selections, range(len(messages), len(queries)), depth)


def _drop_below_threshold(
    main: Selection, merged: Sequence[Hit], selections: Sequence[Selection]
) -> Selection:
    """The merged answer, without the hits that the tier's threshold dropped in every search."""
    if not any(selection.dropped for selection in selections):
        return replace(main, hits=tuple(merged))
    passing_ids = {hit.id for selection in selections for hit in selection.hits}
    hits = [hit for hit in merged if hit.id in passing_ids]
    dropped = [hit for hit in merged if hit.id not in passing_ids]
    ordered = [hit._replace(rank=rank) for rank, hit in enumerate([*hits, *dropped], 1)]
    return replace(main, hits=tuple(ordered[: len(hits)]), dropped=tuple(ordered[len(hits) :]))


def _merge_hits(
    board: ScoreBoard,
    ranking: Scores,
    message_scores: Scores,
    sources: Sequence[Selection],
    message_selection: Selection,
    limit: int,
) -> tuple[Hit, ...]:
    """The merged hits. Tools named in the message and claimed tools stay first."""
    hits_by_id: dict[str, Hit] = {}
    for selection in sources:
        for hit in selection.hits_and_dropped:
            hits_by_id.setdefault(hit.id, hit)
    first_ids = [
        hit.id
        for hit in message_selection.hits
        if not STAGES_ABOVE_THRESHOLD.isdisjoint(hit.stages)
    ]
    ids = [tool.id for tool in board.tools]
    credit, scores = ranking.tolist(), message_scores.tolist()
    # By credit, ties by id: a reversed sort keeps the order of equals.
    order = sorted(range(len(ids)), key=ids.__getitem__)
    order.sort(key=credit.__getitem__, reverse=True)
    ordered = list(dict.fromkeys([*first_ids, *(ids[row] for row in order)]))
    hits = []
    for rank, tool_id in enumerate(ordered[:limit], 1):
        hit, place = hits_by_id[tool_id], board.columns[tool_id]
        stages = {**hit.stages, MERGED_STAGE: StageResult(rank, credit[place])}
        hits.append(Hit(hit.tool, rank, scores[place], stages))
    return tuple(hits)


class ScoreBoard:
    """Tools found by any of several searches, with each search's score of each.

    A tool that a search did not list gets the lowest score of that list, or 0 if the list is
    complete.

    Args:
        selections: at least one, of one catalog version and tier.
        depth: number of hits requested from each search.

    Attributes:
        tools: the tools found by any search.
        columns: id of a tool to its column in `scores`.
        scores: (searches, tools), float64.
    """

    def __init__(self, selections: Sequence[Selection], depth: int) -> None:
        columns: dict[str, int] = {}
        tools: list[Tool] = []
        for selection in selections:
            for hit in selection.hits_and_dropped:
                if columns.setdefault(hit.id, len(tools)) == len(tools):
                    tools.append(hit.tool)
        self.tools = tuple(tools)
        self.columns = columns
        self.scores = np.empty((len(selections), len(tools)))
        for row, selection in enumerate(selections):
            scores = self.scores[row]
            lowest = min((hit.score for hit in selection.hits_and_dropped), default=0.0)
            scores.fill(lowest if len(selection.hits_and_dropped) >= depth else min(lowest, 0.0))
            scores[[columns[hit.id] for hit in selection.hits_and_dropped]] = [
                hit.score for hit in selection.hits_and_dropped
            ]
        # A tool without a server is a server of its own.
        names: dict[tuple[str | None, str | None], int] = {}
        self._servers = np.array(
            [
                names.setdefault((tool.server, None if tool.server else tool.id), len(names))
                for tool in tools
            ],
            np.int64,
        )

    def with_server_bonus(
        self, scores: Scores, called_ids: Collection[str], context_weight: float
    ) -> Scores:
        """Scores with a bonus for servers of recently called tools, (tools,).

        Args:
            scores: (tools,).
            called_ids: ids of the tools called lately.
            context_weight: weight of the earlier conversation, from 0 to 1.
        """
        servers = {tool.server for tool in self.tools if tool.id in called_ids and tool.server}
        gets_bonus = [tool.server in servers and tool.id not in called_ids for tool in self.tools]
        return np.asarray(
            scores + np.array(gets_bonus) * (_SERVER_BONUS * context_weight * scores.max(initial=0))
        )

    def with_server_share(self, scores: Scores, *, parts: bool = False) -> Scores:
        """Scores plus a share of the best score of the tool's server, (tools,)."""
        if not len(scores):
            return scores
        best = np.full(int(self._servers.max()) + 1, -np.inf)
        np.maximum.at(best, self._servers, scores)
        share = _SERVER_SHARE_OF_PARTS if parts else _SERVER_SHARE
        return np.asarray(scores + share * best[self._servers])

    def intents(self, message_scores: Scores, parts: Sequence[int]) -> list[int]:
        """The rows of `parts` that are separate intents; none, or at least two.

        An intent needs a best score close to that of the whole message, and another best tool than
        the intents before it. So "salt and pepper" stays one intent.

        Args:
            message_scores: scores for the whole message, (tools,).
            parts: rows of `scores`.
        """
        intent_rows: list[int] = []
        best_tools: set[int] = set()
        for part in parts if self.tools else ():
            if self.scores[part].max(initial=0.0) < _MIN_PART_SHARE * message_scores.max(
                initial=0.0
            ):
                continue
            best_tool = int(np.argmax(self._blend_with_message(part, message_scores)))
            if best_tool not in best_tools:
                best_tools.add(best_tool)
                intent_rows.append(part)
        return intent_rows if len(intent_rows) > 1 else []

    def credit_for_intents(self, message_scores: Scores, intents: Sequence[int]) -> Scores:
        """Merged score of every tool for several intents, (tools,), summing to 1.

        Each intent distributes its weight over its hits: the closer to its best score, the larger
        the share. The ranking of the whole message takes part too.
        """
        credit = _MESSAGE_CREDIT * _distribute_credit(
            self.with_server_share(message_scores, parts=True)
        )
        for intent in intents:
            scores = self._blend_with_message(intent, message_scores)
            credit = credit + _distribute_credit(self.with_server_share(scores, parts=True)) / len(
                intents
            )
        return np.asarray(credit / (_MESSAGE_CREDIT + 1.0))

    def _blend_with_message(self, part: int, message_scores: Scores) -> Scores:
        """The scores of a part, with a share of the scores of the whole message."""
        return np.asarray((self.scores[part] + message_scores) / 2)


def _distribute_credit(scores: Scores) -> Scores:
    best_score = scores.max(initial=0.0)
    if best_score < np.finfo(np.float32).tiny:
        return np.full(len(scores), 1.0 / max(len(scores), 1))
    weights = np.exp((scores - best_score) / (_CREDIT_SPREAD * best_score))
    return np.asarray(weights / weights.sum())
