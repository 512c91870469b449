"""Quick ranking figures of an encoder on a labelled set, for choosing a checkpoint."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...errors import EvaluationError
from .data import TrainingData, TrainingTool, read_rows, read_tool

#: Most tokens of a request and of a tool in evaluations.
QUERY_LENGTH = 96
TOOL_LENGTH = 128


class _Encodes(Protocol):
    def encode(self, texts: Sequence[str], max_length: int) -> NDArray[np.float32]: ...


@dataclass(frozen=True, slots=True)
class LabelledSet:
    """Tools and requests with the positions of the tools that serve them."""

    tools: tuple[TrainingTool, ...]
    queries: tuple[str, ...]
    relevant: tuple[frozenset[int], ...]
    styles: tuple[str, ...]

    @classmethod
    def read(cls, tools: Path, queries: Path) -> LabelledSet:
        """Read two files in the common form. Requests without a tool are left out.

        Raises:
            EvaluationError: a row cannot be used. The message has the row.
        """
        rows = read_rows(tools, needs=("id", "name"))
        catalog = tuple(read_tool(row, tools.parent.name) for row in rows)
        place = {tool.id.partition(":")[2]: index for index, tool in enumerate(catalog)}
        asked: list[tuple[str, frozenset[int], str]] = []
        for number, row in enumerate(read_rows(queries, needs=("query", "relevant")), 1):
            if missing := [name for name in row["relevant"] if name not in place]:
                raise EvaluationError(f"{queries}:{number}: no such tool in {tools}: {missing}")
            if row["relevant"]:
                found = frozenset(place[name] for name in row["relevant"])
                asked.append((row["query"], found, row.get("style") or ""))
        texts, relevant, styles = zip(*asked, strict=True) if asked else ((), (), ())
        return cls(catalog, texts, relevant, styles)

    @classmethod
    def of(cls, data: TrainingData) -> LabelledSet:
        """The held-out requests, with the tools of their servers."""
        asked = {index for request in data.requests for index in request.relevant}
        homes = {data.tools[index].home for index in asked} - {None}
        chosen = [
            index for index, tool in enumerate(data.tools) if index in asked or tool.home in homes
        ]
        place = {index: row for row, index in enumerate(chosen)}
        return cls(
            tuple(data.tools[index] for index in chosen),
            tuple(request.text for request in data.requests),
            tuple(
                frozenset(place[i] for i in (*request.relevant, *request.also) if i in place)
                for request in data.requests
            ),
            tuple(request.style for request in data.requests),
        )


def ranking_figures(
    scores: NDArray[np.float32], relevant: Sequence[frozenset[int]], styles: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Percentages hit@1, hit@3, recall@5 and recall@10, over all requests and by style.

    Args:
        scores: (n, m) of n requests against m tools; ties go to the earlier tool.
        relevant: n sets of positions of tools.
        styles: n names of groups; "" counts only under `all`.
    """
    order = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    rows: defaultdict[str, list[tuple[float, float, float, float]]] = defaultdict(list)
    for ranked, wanted, style in zip(order, relevant, styles, strict=True):
        hits = np.array([tool in wanted for tool in ranked])
        row = (
            float(hits[0]),
            float(hits[:3].any()),
            float(hits[:5].sum()) / len(wanted),
            float(hits.sum()) / len(wanted),
        )
        rows["all"].append(row)
        if style:
            rows[style].append(row)
    names = ("hit@1", "hit@3", "recall@5", "recall@10")
    return {
        group: dict(
            zip(names, (round(100 * float(value), 2) for value in np.mean(values, 0)), strict=True)
        )
        for group, values in rows.items()
    }


def evaluate(encoder: _Encodes, labelled: LabelledSet) -> dict[str, dict[str, float]]:
    """Encode a labelled set and rank all its tools for each request."""
    tools = encoder.encode([tool.text for tool in labelled.tools], TOOL_LENGTH)
    queries = encoder.encode(labelled.queries, QUERY_LENGTH)
    return ranking_figures(queries @ tools.T, labelled.relevant, labelled.styles)
