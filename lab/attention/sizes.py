"""Larger and smaller catalogs around the same tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from ...catalog import Catalog, Tool
from ..bench.growth import grow
from .tasks import TaskScript

SIZES = (50, 120, 500, 1_000, 5_000, 10_000)

_SAME_WORK = re.compile(
    r"git|bitbucket|pull.?request|jira|atlassian|linear|asana|trello|sprint|issue|ticket|slack|"
    r"discord|teams|mattermost|telegram|channel|message|sql|postgres|database|supabase|schema|"
    r"mongo|file|director|folder|fetch|browser|scrap|crawl|web|search|pdf|rss|feed|screenshot|"
    r"archive|url|link",
    re.IGNORECASE,
)
"""Words for the work that the testbed's six servers do: another server's tool with one of them in
its name may serve a request as well, and is not labelled."""


def does_the_same_work(tool: Tool) -> bool:
    """Whether the name of a tool or its server is about work of the testbed's tools."""
    return bool(_SAME_WORK.search(f"{tool.server or ''} {tool.name}"))


def padded(catalog: Catalog, size: int, others: Sequence[Tool]) -> Catalog:
    """A catalog of this size: every n-th tool, or all of them and others.

    Args:
        catalog: the testbed.
        size: tools wanted.
        others: tools to add, in order. If there are too few, further ones are generated from them.
    """
    tools = tuple(catalog)
    if size <= len(tools):
        return Catalog(tools[at * len(tools) // size] for at in range(size))
    if not others:
        return Catalog(grow(tools, size))
    return Catalog((*tools, *grow(others, size - len(tools))))


def shuffled(tools: Iterable[Tool], *, seed: int = 0) -> tuple[Tool, ...]:
    """Tools in random order, so that every size has some of every file."""
    given = tuple(tools)
    return tuple(given[i] for i in np.random.default_rng(seed).permutation(len(given)))


def answerable(scripts: Iterable[TaskScript], catalog: Catalog) -> list[TaskScript]:
    """The tasks whose tools are all in the catalog."""
    return [
        script
        for script in scripts
        if all(tool_id in catalog for turn in script.turns for tool_id in turn.needed)
    ]
