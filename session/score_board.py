"""Merges the results of several searches into one ranking."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from ..catalog import Tool
from ..retrieval import Selection

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
