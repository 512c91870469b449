"""The sets that methods are compared on, read from the project's data folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ...catalog import Catalog
from ...errors import ConfigError
from ...evals.dataset import read_queries
from ...evals.xlam_protocol import WHOLE_CATALOG, prepare
from ...evals.xlam_rows import stream_rows
from .compare import ComparisonSet


def labelled_set(name: str, tools: Path, queries: Path) -> ComparisonSet:
    """A set in the common form, without the queries that no tool serves.

    Args:
        name: as the table shows it.
        tools: JSONL of tools.
        queries: JSONL of labelled queries over them.

    Raises:
        CatalogError: the tools cannot be read.
        EvaluationError: the queries cannot be read.
    """
    catalog = Catalog.read(tools, keep_ids=True)
    served = (one for one in read_queries([queries], catalog).queries if one.relevant)
    return ComparisonSet(name, tuple(catalog), tuple(served))


def xlam_set(file: Path, *, pool: str = WHOLE_CATALOG, sample: int = 1000) -> ComparisonSet:
    """One pool of the published xlam protocol.

    Args:
        file: rows in their published form.
        pool: a pool of the protocol by name; by default every function of the file at once.
        sample: queries drawn.

    Raises:
        ConfigError: the file has no pool of that name.
        EvaluationError: the file cannot be read or has no usable row.
    """
    data = prepare(stream_rows(file), sample=sample)
    for held in data.pools:
        if held.name == pool:
            name = "xlam" if pool == WHOLE_CATALOG else f"xlam {pool}"
            return ComparisonSet(
                name, tuple(data.catalog), held.queries, limit_to_pool=pool != WHOLE_CATALOG
            )
    known = ", ".join(held.name for held in data.pools)
    raise ConfigError(f"xlam has no pool {pool!r}; {file.name} has: {known}")


def _labelled(name: str, path: str, tools: str = "tools.jsonl") -> Callable[[Path], ComparisonSet]:
    """What reads a set in the common form from its folder within the evaluation data."""
    return lambda data: labelled_set(name, data / path / tools, data / path / "queries.jsonl")


OF_OTHER_PROJECTS: dict[str, Callable[[Path], ComparisonSet]] = {
    "ironclaw": _labelled("ironclaw", "peers/ironclaw"),
    "mcpproxy_golden": _labelled("mcpproxy_golden", "peers/mcpproxy_golden"),
}
"""Sets of queries that other projects test their own search with. Nothing is chosen on them."""

SETS: dict[str, Callable[[Path], ComparisonSet]] = {
    "mcp_dev judged": _labelled("mcp_dev judged", "mcp_dev", "judged_tools.jsonl"),
    "mcp_dev": _labelled("mcp_dev", "mcp_dev"),
    "livemcpbench": _labelled("livemcpbench", "livemcpbench"),
    "xlam": lambda folder: xlam_set(folder / "xlam" / "xlam_first_1000.jsonl"),
    **OF_OTHER_PROJECTS,
}
"""Name of a set -> reads it from the folder that holds the evaluation data."""
