"""Mines hard negatives: tools that are similar to a request but do not serve it.

Mining takes the first hits of BM25 and of an encoder. A filter removes false negatives: the same
tool on several servers ("near twins") serves the request too.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...text import identifiers_as_words, lower_words
from .data import TrainingQuery, TrainingTool

#: Least cosine of twins: with any names, and with equal names.
TWIN_COSINE = 0.86
NAMESAKE_COSINE = 0.78

#: A mined tool of another server may be an unlabelled answer. It is left out if its score is above
#: this share of the relevant tool's score (positive-aware mining, as in NV-Retriever) and its
#: cosine to a relevant tool is above this value.
POSITIVE_SHARE = 0.97
SUSPECT_COSINE = 0.75


class TrainingTwins:
    """Finds tools that are near copies of each other on different servers.

    Args:
        tools: n tools.
        vectors: (n, dim), L2-normalised, from an encoder that was not trained on these tools.
    """

    def __init__(self, tools: Sequence[TrainingTool], vectors: NDArray[np.float32]) -> None:
        self._twins: list[frozenset[int]] = []
        names = np.unique(
            [identifiers_as_words(tool.name).lower() for tool in tools], return_inverse=True
        )[1]
        servers = np.unique(
            ["/".join(tool.home) if tool.home else f"{tool.id}\0" for tool in tools],
            return_inverse=True,
        )[1]
        for start in range(0, len(tools), 1024):
            block = slice(start, start + 1024)
            cosine = vectors[block] @ vectors.T
            namesakes = names[block, None] == names[None, :]
            near = (cosine >= TWIN_COSINE) | (namesakes & (cosine >= NAMESAKE_COSINE))
            near &= servers[block, None] != servers[None, :]
            self._twins.extend(frozenset(np.flatnonzero(row).tolist()) for row in near)

    def of(self, tool: int) -> frozenset[int]:
        """Positions of the twins of the tool at position `tool`."""
        return self._twins[tool]

    def answers(self, relevant: Sequence[int]) -> frozenset[int]:
        """All tools that serve a request for `relevant`: these tools and their twins."""
        return frozenset(relevant).union(*(self._twins[tool] for tool in relevant))


class Bm25:
    """BM25 (k1 1.2, b 0.75) over tool texts, for mining only."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [Counter(lower_words(text)) for text in texts]
        lengths = np.array([sum(count.values()) for count in counts], dtype=np.float32)
        norm = 1.2 * (0.25 + 0.75 * lengths / max(float(lengths.mean()), 1.0))
        postings: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for position, count in enumerate(counts):
            for term, frequency in count.items():
                postings[term].append((position, frequency))
        self._size = len(texts)
        self._postings: dict[str, tuple[NDArray[np.intp], NDArray[np.float32]]] = {}
        for term, entries in postings.items():
            places = np.array([place for place, _ in entries], dtype=np.intp)
            counted = np.array([value for _, value in entries], dtype=np.float32)
            idf = math.log1p((self._size - len(entries) + 0.5) / (len(entries) + 0.5))
            weight = idf * counted * 2.2 / (counted + norm[places])
            self._postings[term] = (places, weight.astype(np.float32))

    def scores(self, query: str) -> NDArray[np.float32]:
        """(n,) BM25 scores of all texts."""
        total = np.zeros(self._size, dtype=np.float32)
        for term in set(lower_words(query)):
            if term in self._postings:
                places, weights = self._postings[term]
                total[places] += weights
        return total


def mine(
    requests: Sequence[TrainingQuery],
    tools: Sequence[TrainingTool],
    twins: TrainingTwins,
    request_vectors: NDArray[np.float32],
    tool_vectors: NDArray[np.float32],
    *,
    each: int = 8,
) -> list[tuple[int, ...]]:
    """Hard negatives of each request, alternately from the encoder's and BM25's first hits.

    Args:
        requests: n requests.
        tools: m tools.
        twins: the false-negative filter over `tools`.
        request_vectors: (n, dim), L2-normalised.
        tool_vectors: (m, dim), L2-normalised.
        each: most negatives of a request.

    Returns:
        For each request, positions of tools, hardest first. Tools that serve it, their twins, and
        possible unlabelled answers are left out.
    """
    lexical = Bm25([tool.text for tool in tools])
    depth = min(4 * each, len(tools))
    mined: list[tuple[int, ...]] = []
    for start in range(0, len(requests), 256):
        dense = request_vectors[start : start + 256] @ tool_vectors.T
        for request, scores in zip(requests[start : start + 256], dense, strict=True):
            arms = (_top(scores, depth), _top(lexical.scores(request.text), depth))
            candidates = list(
                dict.fromkeys(tool for pair in zip(*arms, strict=True) for tool in pair)
            )
            relevant = list(request.relevant)
            likeness = (tool_vectors[candidates] @ tool_vectors[relevant].T).max(axis=1)
            ceiling = POSITIVE_SHARE * float(scores[relevant].max())
            answers = twins.answers([*relevant, *request.also])
            homes = {tools[tool].home for tool in relevant} - {None}
            chosen = [
                candidate
                for candidate, like in zip(candidates, likeness, strict=True)
                # A tool on the same server is never a twin, even if it is very similar.
                if candidate not in answers
                and (
                    tools[candidate].home in homes
                    or like <= SUSPECT_COSINE
                    or scores[candidate] <= ceiling
                )
            ]
            mined.append(tuple(chosen[:each]))
    return mined


def _top(scores: NDArray[np.float32], depth: int) -> list[int]:
    """Positions of the `depth` highest scores, highest first."""
    top = np.argpartition(-scores, depth - 1)[:depth]
    ranked: list[int] = top[np.argsort(-scores[top], kind="stable")].tolist()
    return ranked
