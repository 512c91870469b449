"""Reads tools for an evaluation. Bad definitions are left out and reported."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from ..catalog import Catalog, Tool, read_tools
from .dataset import Malformed

_PLACE = re.compile(r"line (\d+)|\[(\d+)\]")


def read_tool_files(paths: Sequence[str | Path]) -> tuple[Catalog, tuple[Malformed, ...]]:
    """The tools of files, and the definitions that are bad or repeat an id.

    Of two definitions with one id, the later one is renamed, or left out if both are equal.

    Args:
        paths: files or folders in any format that `read_tools` reads.

    Raises:
        CatalogError: a source cannot be read at all.
    """
    malformed: list[Malformed] = []
    tools: list[Tool] = []
    sources: defaultdict[str, list[str]] = defaultdict(list)
    for path in map(Path, paths):
        read = read_tools(path, strict=False, keep_ids=True)
        for tool in read.tools:
            tools.append(tool)
            sources[tool.id].append(path.name)
        for one in read.rejected:
            name = f"tool {one.name!r}: " if one.name else ""
            reason = f"{name}{one.field}: {one.reason}"
            malformed.append(Malformed(path.name, _row(one.where), reason))
    catalog = Catalog(tools)
    for collision in catalog.collisions:
        fate = "is the same" if collision.identical else f"is held as {collision.kept_as!r}"
        reason = f"id: {collision.id!r} was an earlier tool's; this one {fate}"
        source = sources[collision.id].pop(1)
        malformed.append(Malformed(source, None, reason, dropped=collision.identical))
    return catalog, tuple(malformed)


def _row(where: str) -> int | None:
    """The row a place names, counted from 1."""
    places = _PLACE.findall(where)
    if not places:
        return None
    line, index = places[0]
    return int(line) if line else int(index) + 1
