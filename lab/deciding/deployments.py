"""Realistic catalogs, with requests that their tools serve and requests that no tool serves.

A deployment has some servers with their tools. Requests for tools of other servers are the ones
that it cannot serve.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ...catalog import Tool, read_tools
from ...catalog.text_file import read_text_file
from ...errors import EvaluationError

#: Tools of a deployment, drawn evenly by logarithm; and of one server at most, drawn from these.
_FEWEST, _MOST = 30, 500
_OF_A_SERVER = (5, 10, 40)
#: Requests of each kind in a deployment at most.
_SERVED, _ELSEWHERE, _NO_TOOL = 60, 50, 80
#: Cosine of a request's tool to a tool of the deployment from which that may serve it too.
_ALIKE = 0.45


@dataclass(frozen=True, slots=True)
class Labelled:
    """A request and the ids of the tools that serve it; `number` tells requests apart."""

    number: int
    text: str
    relevant: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Deployment:
    """A catalog with requests; those in `elsewhere` and `no_tool` are served by none of it."""

    tools: tuple[Tool, ...]
    served: tuple[Labelled, ...]
    elsewhere: tuple[Labelled, ...]
    no_tool: tuple[Labelled, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """Data to draw deployments from.

    Args:
        tools: tools by id, each with a server.
        requests: for some of them.
        no_tool: requests that no tool serves anywhere.
    """

    tools: dict[str, Tool]
    requests: tuple[Labelled, ...]
    no_tool: tuple[Labelled, ...]

    @classmethod
    def read(cls, folders: Sequence[Path], no_tool: Path) -> Self:
        """Read sets in the common form.

        Args:
            folders: each with `tools.jsonl` and `queries.jsonl`.
            no_tool: JSONL of requests without a tool.

        Raises:
            EvaluationError: a file cannot be read.
            CatalogError: a file of tools cannot be read.
        """
        tools: dict[str, Tool] = {}
        rows: list[tuple[str, tuple[str, ...]]] = []
        for folder in folders:
            found = read_tools(folder / "tools.jsonl", strict=False, keep_ids=True).tools
            tools.update({tool.id: tool for tool in found if tool.server and tool.id not in tools})
            rows += [
                (text, relevant)
                for text, relevant in _rows(folder / "queries.jsonl")
                if relevant and all(tool_id in tools for tool_id in relevant)
            ]
        requests = tuple(Labelled(at, *row) for at, row in enumerate(rows))
        beyond = enumerate(_rows(no_tool), len(requests))
        return cls(tools, requests, tuple(Labelled(at, text, ()) for at, (text, _) in beyond))

    def deployments(
        self, vectors: NDArray[np.float32], count: int, *, seed: int = 0
    ) -> Iterator[Deployment]:
        """Draw deployments.

        Args:
            vectors: vectors of the tools in their order, shape (n, dim). Tools with near vectors
                count as alike.
            count: how many.
            seed: random seed of the draw.
        """
        rng = random.Random(seed)
        rows = {tool_id: row for row, tool_id in enumerate(self.tools)}
        servers: dict[str, list[str]] = {}
        for tool in self.tools.values():
            servers.setdefault(tool.server or "", []).append(tool.id)
        names = list(servers)
        for _ in range(count):
            size = math.exp(rng.uniform(math.log(_FEWEST), math.log(_MOST)))
            most = rng.choice(_OF_A_SERVER)
            ids: list[str] = []
            for name in rng.sample(names, len(names)):
                there = servers[name]
                ids += rng.sample(there, most) if len(there) > most else there
                if len(ids) >= size:
                    break
            held = frozenset(ids)
            served = [one for one in self.requests if held.issuperset(one.relevant)]
            there_vectors = vectors[[rows[tool_id] for tool_id in ids]]
            elsewhere: list[Labelled] = []
            for one in rng.sample(self.requests, 3 * _ELSEWHERE):
                wanted = vectors[[rows[tool_id] for tool_id in one.relevant]]
                if held.isdisjoint(one.relevant) and (wanted @ there_vectors.T).max() < _ALIKE:
                    elsewhere.append(one)
            yield Deployment(
                tuple(self.tools[tool_id] for tool_id in ids),
                tuple(rng.sample(served, min(_SERVED, len(served)))),
                tuple(elsewhere[:_ELSEWHERE]),
                tuple(rng.sample(self.no_tool, min(_NO_TOOL, len(self.no_tool)))),
            )


def _rows(path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    try:
        for line in read_text_file(path, error=EvaluationError).splitlines():
            row = json.loads(line)
            yield row["query"], tuple(row["relevant"])
    except (ValueError, KeyError, TypeError) as error:
        raise EvaluationError(f"{path}: cannot be read as labelled requests: {error!r}") from error
