"""Tool vectors refined by what requests turned out to mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .exact import ExactIndex
from .learned import Learned, Strengths, mapped
from .protocols import LexicalIndex

if TYPE_CHECKING:
    from .vectors import Vectors

_DENSE_DEPTH, _LEXICAL_DEPTH = 200, 100
#: Tools that a tool has to beat in training: a few dozen hard ones say most of what all would.
_RIVALS = 24
_TEMPERATURE = 0.05
_EPOCHS, _BATCH, _MAX_STEPS = 3, 256, 120
# Adam (Kingma and Ba 2015) with a shorter memory of squares, as the steps are few.
_RATE, _MOMENTUM, _SQUARES = 1e-3, 0.9, 0.99


@dataclass(frozen=True, slots=True)
class Usage:
    """Events over one index, encoded, with the tools that compete for each.

    Args:
        queries: the requests, shape (n, dim), L2-normalised.
        relevant: rows of the tools that served each, at least one.
        base: the encoder's vectors of the tools, shape (tools, dim).
        family: of each tool, a number that twins share, shape (tools,).
        candidates: rows, shape (n, c); -1 where an event has fewer.
        lexical: what the lexical stage adds to a fused score, shape (n, c).
        serves: whether the candidate served the event, shape (n, c).
    """

    queries: NDArray[np.float32]
    relevant: tuple[NDArray[np.int64], ...]
    base: NDArray[np.float32]
    family: NDArray[np.int64]
    candidates: NDArray[np.int64]
    lexical: NDArray[np.float32]
    serves: NDArray[np.bool_]

    @classmethod
    def gather(
        cls,
        texts: Sequence[str],
        queries: NDArray[np.float32],
        relevant: Sequence[NDArray[np.int64]],
        base: NDArray[np.float32],
        family: Sequence[str],
        lexical: tuple[LexicalIndex, float] | None,
    ) -> Usage:
        """Find the candidates of each event: nearest vectors, best terms, and what served it.

        Args:
            texts: the requests.
            queries: their vectors, shape (n, dim).
            relevant: rows of the tools that served each.
            base: the encoder's vectors of the tools, shape (tools, dim).
            family: of each tool, see `usage.families`.
            lexical: the lexical index and the weight of its score, if the two are added.
        """
        dense = ExactIndex(base)
        found: list[NDArray[np.int64]] = []
        added: list[NDArray[np.float32]] = []
        for text, query, due in zip(texts, queries, relevant, strict=True):
            near = dense.search(query, _DENSE_DEPTH).rows
            candidates = np.union1d(near, due)
            scores = np.zeros(len(candidates), np.float32)
            if lexical is not None:
                index, weight = lexical
                ranking = index.search(text, _LEXICAL_DEPTH)
                if len(ranking):
                    candidates = np.union1d(candidates, ranking.rows)
                    rest = ranking.scores[-1] if ranking.rest is None else ranking.rest
                    scores = np.full(len(candidates), rest * weight, np.float32)
                    scores[np.searchsorted(candidates, ranking.rows)] = ranking.scores * weight
            found.append(candidates)
            added.append(scores)
        width = max(map(len, found))
        names = {name: number for number, name in enumerate(dict.fromkeys(family))}
        rows = np.array([np.pad(one, (0, width - len(one)), constant_values=-1) for one in found])
        return cls(
            queries,
            tuple(relevant),
            base,
            np.array([names[name] for name in family], np.int64),
            rows,
            np.array([np.pad(scores, (0, width - len(scores))) for scores in added]),
            np.array([np.isin(one, due) for one, due in zip(rows, relevant, strict=True)]),
        )

    def cosines(
        self, values: NDArray[np.float32], events: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Inner product of each event's request with its candidates' rows of `values`, (m, c)."""
        result = np.empty((len(events), self.candidates.shape[1]), np.float32)
        for place, event in enumerate(events.tolist()):
            result[place] = values[self.candidates[event]] @ self.queries[event]
        return result


@dataclass(frozen=True, slots=True)
class HardNegatives:
    """For every tool that served an event, the candidates that come nearest to it.

    Args:
        pairs: event and row of the tool, shape (p, 2).
        choices: the row, then its rivals, twins left out, -1 where there are fewer; shape (p, k).
        lexical: what the lexical stage adds to the score of each, shape (p, k).
    """

    pairs: NDArray[np.int64]
    choices: NDArray[np.int64]
    lexical: NDArray[np.float32]

    @classmethod
    def of(cls, usage: Usage) -> HardNegatives:
        """The negatives of all events."""
        pairs = np.array(
            [(event, row) for event, rows in enumerate(usage.relevant) for row in rows.tolist()],
            np.int64,
        )
        choices = np.full((len(pairs), 1 + _RIVALS), -1, np.int64)
        lexical = np.zeros(choices.shape, np.float32)
        choices[:, 0] = pairs[:, 1]
        event = -1
        for place, (asked, row) in enumerate(pairs.tolist()):
            if asked != event:
                event = asked
                candidates, added = usage.candidates[event], usage.lexical[event]
                scores = usage.base[candidates] @ usage.queries[event] + added
                serving = np.isin(usage.family[candidates], usage.family[usage.relevant[event]])
                scores[serving | (candidates < 0)] = -np.inf
                best = np.argsort(-scores, kind="stable")[:_RIVALS]
                best = best[np.isfinite(scores[best])]
            lexical[place, 0] = added[candidates == row][0]
            choices[place, 1 : 1 + len(best)] = candidates[best]
            lexical[place, 1 : 1 + len(best)] = added[best]
        return cls(pairs, choices, lexical)

    def among(self, events: NDArray[np.int64]) -> HardNegatives:
        """Those of some events."""
        kept = np.isin(self.pairs[:, 0], events)
        return HardNegatives(self.pairs[kept], self.choices[kept], self.lexical[kept])


@dataclass(frozen=True, slots=True)
class Lessons:
    """What events say, before it is decided how much of it is believed.

    Args:
        map: for all tool vectors v, the change map v, shape (dim, dim).
        rows: tools with events, shape (m,).
        counts: how many each has, shape (m,).
        targets: where its requests lie among tool vectors, shape (m, dim).
    """

    map: NDArray[np.float32]
    rows: NDArray[np.int64]
    counts: NDArray[np.int64]
    targets: NDArray[np.float32]

    @classmethod
    def of(cls, usage: Usage, negatives: HardNegatives) -> Lessons:
        """Learn from some events, at least one, by their negatives.

        A target is the mean of a tool's requests, less the way from the mean tool to the mean
        request: requests lie nearer to one another than to tools, and a tool moved by that way too
        would come nearer to every request.
        """
        change = _train_map(usage, negatives)
        pairs = negatives.pairs
        rows, place, counts = np.unique(pairs[:, 1], return_inverse=True, return_counts=True)
        sums = np.zeros((len(rows), usage.base.shape[1]), np.float32)
        np.add.at(sums, place, usage.queries[pairs[:, 0]])
        way = sums.sum(axis=0) / len(pairs) - mapped(usage.base[rows], change).mean(axis=0)
        targets = sums / counts[:, None].astype(np.float32) - way
        return cls(change, rows, counts, targets.astype(np.float32))

    def learned(
        self, strengths: Strengths, ids: Sequence[str], vectors: Vectors, events: int
    ) -> Learned:
        """As much of it as the strengths allow.

        Args:
            strengths: how much.
            ids: of all tools, in order of row.
            vectors: what the encoder made of all tools.
            events: how many events it was learned from.
        """
        rows = self.rows if strengths.own else self.rows[:0]
        return Learned(
            map=np.float32(strengths.shared) * self.map,
            targets=self.targets[: len(rows)],
            pulls=strengths.pulls(self.counts[: len(rows)]),
            ids=tuple(ids[row] for row in rows.tolist()),
            keys=tuple(vectors.keys[row] for row in rows.tolist()),
            model=vectors.model,
            lexical=strengths.lexical,
            events=events,
        )


def _train_map(usage: Usage, negatives: HardNegatives) -> NDArray[np.float32]:
    """A linear change of tool vectors under which requests choose the tools that served them.

    Softmax of (request . (v + map v) + lexical) / temperature over the tool and its rivals,
    a few passes from map = 0: few events make few and small steps, so that they change little.
    """
    dim = usage.base.shape[1]
    pairs, choices, lexical = negatives.pairs, negatives.choices, negatives.lexical
    change = np.zeros((dim, dim), np.float32)
    mean, square = np.zeros_like(change), np.zeros_like(change)
    draw = np.random.default_rng(0)
    batches = [
        order[start : start + _BATCH]
        for order in (draw.permutation(len(pairs)) for _ in range(_EPOCHS))
        for start in range(0, len(order), _BATCH)
    ]
    for step, batch in enumerate(batches[:_MAX_STEPS], start=1):
        queries = usage.queries[pairs[batch, 0]]
        tools = usage.base[choices[batch]]
        scores = np.matmul(tools, (queries + queries @ change)[:, :, None])[:, :, 0]
        scores = np.where(choices[batch] < 0, -np.inf, scores + lexical[batch]) / _TEMPERATURE
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        odds /= odds.sum(axis=1, keepdims=True)
        odds[:, 0] -= 1
        pushed = np.matmul(odds[:, None, :].astype(np.float32), tools)[:, 0]
        slope = queries.T @ pushed / (len(batch) * _TEMPERATURE)
        mean += (1 - _MOMENTUM) * (slope - mean)
        square += (1 - _SQUARES) * (slope * slope - square)
        size = np.sqrt(square / (1 - _SQUARES**step)) + 1e-6
        change -= (_RATE / (1 - _MOMENTUM**step)) * mean / size
    return change
