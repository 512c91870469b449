"""Tools and queries of a bench, from files or from the demo."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ... import demo
from ...catalog import Catalog, Tool, read_tools
from ...errors import EvaluationError
from .growth import grow

DEMO_TOOLS = 120


@dataclass(frozen=True)
class Material:
    """Tools of any number, and queries.

    Args:
        given: the real tools, in the order larger catalogs are made of.
        queries: texts to search for.
        tools_from: names of the files the tools came from; none stands for the demo catalog.
        queries_from: names of the files the queries came from; none stands for the demo requests.
        rejected: definitions in the files that could not be read.
        seed: random seed of every draw.
    """

    given: tuple[Tool, ...]
    queries: tuple[str, ...]
    tools_from: tuple[str, ...]
    queries_from: tuple[str, ...]
    rejected: int
    seed: int

    def catalog(self, count: int) -> Catalog:
        """A catalog of `count` tools; of 120, the demo's."""
        if count == DEMO_TOOLS:
            return self._demo
        return Catalog(grow(self.given, count, seed=self.seed))

    def synthetic(self, count: int) -> int:
        """How many tools of a catalog of `count` are synthetic."""
        return 0 if count == DEMO_TOOLS else max(0, count - len(self.given))

    @cached_property
    def _demo(self) -> Catalog:
        return demo.load_catalog()


def read_material(
    tools: Sequence[Path], queries: Sequence[Path], *, sample: int, seed: int = 0
) -> Material:
    """Read tools and queries, in an order drawn by the seed.

    Args:
        tools: files in any form that can be read; the demo catalog when empty. Definitions that
            are bad are left out and counted.
        queries: JSON lines with a `query`; the demo requests when empty.
        sample: queries used at most.
        seed: random seed of the draws.

    Raises:
        CatalogError: a file of tools cannot be read.
        EvaluationError: a file of queries cannot be read, or holds none.
    """
    rejected = 0
    found: Iterable[Tool] = demo.load_catalog()
    if tools:
        results = [read_tools(path, strict=False, keep_ids=True) for path in tools]
        rejected = sum(len(result.rejected) for result in results)
        found = (tool for result in results for tool in result.tools)
    given = tuple(Catalog(found))
    texts = [text for path in queries for text in _texts(path)]
    if not queries:
        texts = [request.query for request in demo.load_requests()]
    if not texts:
        raise EvaluationError(f"no queries in {', '.join(map(str, queries))}")
    generator = np.random.default_rng(seed)
    tool_order = generator.permutation(len(given))
    query_order = generator.permutation(len(texts))[:sample]
    return Material(
        tuple(given[i] for i in tool_order),
        tuple(texts[i] for i in query_order),
        tuple(_label(path) for path in tools),
        tuple(_label(path) for path in queries),
        rejected,
        seed,
    )


def write_tools(tools: Iterable[Tool], path: Path) -> None:
    """Write tools as JSON lines."""
    with path.open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps(tool.to_dict(), ensure_ascii=False) + "\n" for tool in tools)


def _label(path: Path) -> str:
    return "/".join(path.parts[-2:])


def _texts(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise EvaluationError(f"{path}: cannot be read: {error}") from error
    texts = []
    for number, line in enumerate(lines, 1):
        try:
            text = json.loads(line)["query"]
        except (ValueError, KeyError, TypeError) as error:
            raise EvaluationError(f"{path}: line {number}: no row with a query") from error
        if not isinstance(text, str):
            raise EvaluationError(f"{path}: line {number}: query: a text is wanted")
        texts.append(text)
    return texts
