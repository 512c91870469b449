"""Reads tools for an evaluation. Bad definitions are left out and reported."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ..catalog import Catalog, Tool, read_tools
from ..errors import CatalogError
from .dataset import Malformed, RowError, file_lines, parse_object

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
    for path in map(Path, paths):
        read = read_tools(path, strict=False, keep_ids=True)
        tools.extend(read.tools)
        for one in read.rejected:
            name = f"tool {one.name!r}: " if one.name else ""
            reason = f"{name}{one.field}: {one.reason}"
            malformed.append(Malformed(path.name, _row(one.where), reason))
    catalog = Catalog(tools)
    if catalog.collisions:
        places = _repeats(paths)
        for collision in catalog.collisions:
            repeats = places.get(collision.id)
            source, row = repeats.pop(0) if repeats else ("tools", None)
            fate = "is the same" if collision.identical else f"is held as {collision.kept_as!r}"
            reason = f"id: {collision.id!r} was an earlier tool's; this one {fate}"
            malformed.append(Malformed(source, row, reason, dropped=collision.identical))
    return catalog, tuple(malformed)


def _row(where: str) -> int | None:
    """The row a place names, counted from 1."""
    places = _PLACE.findall(where)
    if not places:
        return None
    line, index = places[0]
    return int(line) if line else int(index) + 1


def _repeats(paths: Sequence[str | Path]) -> dict[str, list[tuple[str, int]]]:
    """Places of repeated ids in JSONL files, by id. Other formats have no rows."""
    seen: set[str] = set()
    repeats: dict[str, list[tuple[str, int]]] = {}
    for path in map(Path, paths):
        if path.suffix != ".jsonl":
            continue
        for number, line in file_lines(path):
            try:
                row = parse_object(line)
                tool = Tool.from_dict(row)
            except (RowError, CatalogError):
                continue
            if tool.id in seen:
                repeats.setdefault(tool.id, []).append((path.name, number))
            seen.add(tool.id)
    return repeats
