"""Training batches. The requests of a batch are hard negatives for each other.

A batch has two kinds of groups: requests for several tools of one server (siblings), and requests
for tools that mining found near a request (same verb, other product). The rest is in the order of
an epoch, so that every request is used. So negatives need no further texts.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .data import TrainingData
from .negatives import TrainingTwins
from .views import joined, self_supervised, shown


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """Texts of a training step, and their positive and ignored pairs.

    queries: n texts; documents: m texts; tools: the tools that the first of them show, the rest are
    English wordings of translated queries; positive: (n, m) bool, the document serves the query, or
    is its wording; ignored: (n, m) bool, neither a positive nor a fair negative.
    """

    queries: tuple[str, ...]
    documents: tuple[str, ...]
    tools: tuple[int, ...]
    positive: NDArray[np.bool_]
    ignored: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Mixture:
    """The composition of a batch.

    Args:
        queries: number of requests in a batch.
        per_tool: most requests for one tool in a group. They share the tool's encoding.
        sibling_group: most tools of the same server that are added for a drawn request.
        neighbour_group: most mined negatives that are added for a drawn request.
        self_supervised: share of queries made from a tool's text.
        joined: share of queries that join two or three requests.
        translated: share of translated requests whose English wording is a positive too, so that
            both get similar vectors.
        extra_documents: number of tools that are negatives only: siblings and mined ones.
    """

    queries: int = 96
    per_tool: int = 2
    sibling_group: int = 3
    neighbour_group: int = 2
    self_supervised: float = 0.08
    joined: float = 0.05
    translated: float = 0.25
    extra_documents: int = 16


class Batches:
    """An endless, seeded stream of batches.

    Args:
        data: tools and requests.
        twins: false-negative filter over the tools.
        mixture: composition of a batch.
        seed: seed of the stream.
        mined: hard negatives of each request; None before the first mining.
    """

    def __init__(
        self,
        data: TrainingData,
        twins: TrainingTwins,
        mixture: Mixture,
        *,
        seed: int,
        mined: Sequence[tuple[int, ...]] | None = None,
    ) -> None:
        self._data = data
        self._twins = twins
        self._mixture = mixture
        self._seed = seed
        self.mined: Sequence[tuple[int, ...]] = mined or [()] * len(data.requests)
        self._of_tool: defaultdict[int, list[int]] = defaultdict(list)
        for position, request in enumerate(data.requests):
            for tool in request.relevant:
                self._of_tool[tool].append(position)
        self._of_server: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for position, served in enumerate(data.tools):
            if served.home:
                self._of_server[served.home].append(position)

    def __iter__(self) -> Iterator[TrainingBatch]:
        rng = random.Random(self._seed)
        queue: list[int] = []
        seen: set[int] = set()
        wanted = round(self._mixture.queries * (1 - self._mixture.self_supervised))
        wanted = min(wanted, len(self._data.requests))
        while True:
            chosen: dict[int, None] = {}
            while len(chosen) < wanted:
                if not queue:
                    queue = rng.sample(range(len(self._data.requests)), len(self._data.requests))
                    seen.clear()
                seed = queue.pop()
                if seed in seen:
                    continue
                for position in self._group(seed, rng)[: wanted - len(chosen)]:
                    chosen.setdefault(position)
                seen.update(chosen)
            yield self._build(list(chosen), rng)

    def _siblings(self, tool: int) -> list[int]:
        home = self._data.tools[tool].home
        return [other for other in self._of_server[home] if other != tool] if home else []

    def _group(self, seed: int, rng: random.Random) -> list[int]:
        """A drawn request, and requests for its tool, its siblings and its hard negatives."""
        tool = rng.choice(self._data.requests[seed].relevant)
        siblings = [other for other in self._siblings(tool) if other in self._of_tool]
        neighbours = [other for other in self.mined[seed] if other in self._of_tool]
        tools = rng.sample(siblings, min(len(siblings), self._mixture.sibling_group))
        tools += rng.sample(neighbours, min(len(neighbours), self._mixture.neighbour_group))
        group = [seed]
        for other in dict.fromkeys([tool, *tools]):
            places = self._of_tool[other]
            group += rng.sample(places, min(len(places), self._mixture.per_tool))
        return list(dict.fromkeys(group))

    def _build(self, chosen: list[int], rng: random.Random) -> TrainingBatch:
        data, mixture = self._data, self._mixture
        queries: list[str] = []
        serving: list[tuple[int, ...]] = []
        documents: dict[int, str] = {}
        wordings: dict[int, str] = {}
        singles = [place for place in chosen if len(data.requests[place].relevant) == 1]
        for place in chosen:
            request = data.requests[place]
            texts, tools, also = [request.text], list(request.relevant), list(request.also)
            if place in singles and rng.random() < mixture.joined:
                for further in rng.sample(singles, min(len(singles), rng.choice((1, 1, 2)))):
                    if data.requests[further].relevant[0] not in tools:
                        texts.append(data.requests[further].text)
                        tools.append(data.requests[further].relevant[0])
                        also.extend(data.requests[further].also)
            if request.english and len(texts) == 1 and rng.random() < mixture.translated:
                wordings[len(queries)] = request.english
            queries.append(joined(texts, rng))
            serving.append((*tools, *also))
            for tool in tools:
                documents.setdefault(tool, shown(data.tools[tool], rng))
        for tool in self._others(documents, mixture.queries - len(queries), rng):
            query, document = self_supervised(data.tools[tool], rng)
            queries.append(query)
            serving.append((tool,))
            documents[tool] = document
        for tool in self._further_documents(chosen, rng):
            documents.setdefault(tool, shown(data.tools[tool], rng))
        return self._labelled(queries, serving, documents, wordings)

    def _others(self, taken: Container[int], count: int, rng: random.Random) -> list[int]:
        """At most `count` tools that are not in the batch yet."""
        free = [tool for tool in range(len(self._data.tools)) if tool not in taken]
        return rng.sample(free, min(count, len(free)))

    def _further_documents(self, chosen: list[int], rng: random.Random) -> list[int]:
        """Negatives without a query in the batch, one for each request."""
        found: list[int] = []
        for place in rng.sample(chosen, min(len(chosen), self._mixture.extra_documents)):
            pool = list(self.mined[place]) or self._siblings(self._data.requests[place].relevant[0])
            if pool:
                found.append(rng.choice(pool))
        return found

    def _labelled(
        self,
        queries: list[str],
        serving: list[tuple[int, ...]],
        documents: dict[int, str],
        wordings: dict[int, str],
    ) -> TrainingBatch:
        """The positive pairs; and the ignored ones: twins, and wordings of other requests."""
        column = {tool: index for index, tool in enumerate(documents)}
        positive = np.zeros((len(queries), len(documents) + len(wordings)), dtype=np.bool_)
        ignored = np.zeros_like(positive)
        answers = [self._twins.answers(tools) for tools in serving]
        for row, tools in enumerate(serving):
            ignored[row, [column[tool] for tool in answers[row] if tool in column]] = True
            positive[row, [column[tool] for tool in tools if tool in column]] = True
        for place, own in enumerate(wordings, len(documents)):
            ignored[:, place] = [bool(found & answers[own]) for found in answers]
            positive[own, place] = True
        return TrainingBatch(
            queries=tuple(queries),
            documents=(*documents.values(), *wordings.values()),
            tools=tuple(documents),
            positive=positive,
            ignored=ignored & ~positive,
        )
