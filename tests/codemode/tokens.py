"""Tokens of stubs, as a model reads them, against those of the definitions as JSON. One run:

python -m shortlist.tests.codemode.tokens PATH...

A path is a folder with the answer to `tools/list` of each server as NAME.json, or a file of tools.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from shortlist import Catalog, Tool
from shortlist.catalog import read_tools
from shortlist.codemode.script_names import ToolNames
from shortlist.codemode.stubs import Stubs
from shortlist.loaders.counting import bundled_counter


def definition(tool: Tool) -> str:
    """A definition as compact JSON."""
    held = {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
    }
    return json.dumps(held, ensure_ascii=False, separators=(",", ":"))


def tokens(tools: Sequence[Tool]) -> tuple[int, int, int]:
    """Tokens of the stubs, of the definitions, and of the descriptions alone."""
    count = bundled_counter().count
    stubs = Stubs(tools, ToolNames(Catalog(tools))).for_model()
    definitions = sum(count(definition(tool)) for tool in tools)
    return count(stubs), definitions, sum(count(tool.description) for tool in tools)


def _read(paths: Sequence[Path]) -> Iterator[tuple[str, list[Tool]]]:
    for path in paths:
        if path.is_dir():
            for file in sorted(path.glob("*.json")):
                yield file.stem, [*read_tools(file, server=file.stem, strict=False).tools]
        else:
            yield path.parent.name, [*Catalog.read(path)]


def main() -> None:
    """Print a line for each server or catalog, and one for all."""
    write = sys.stdout.write
    write(f"{'':20}{'tools':>6}{'stubs':>9}{'JSON':>9}{'share':>8}{'descriptions':>14}\n")
    whole = [0, 0, 0, 0]
    above = 0
    for name, tools in _read([Path(one) for one in sys.argv[1:]]):
        found = (len(tools), *tokens(tools))
        whole = [before + now for before, now in zip(whole, found, strict=True)]
        above += 5 * found[1] > 2 * found[2]
        _line(name, found)
    _line("all", whole)
    write(f"above 40 %: {above}\n")


def _line(name: str, found: Sequence[int]) -> None:
    tools, stubs, definitions, descriptions = found
    shares = f"{stubs / definitions:>8.1%}{descriptions / definitions:>14.1%}"
    sys.stdout.write(f"{name:20}{tools:>6}{stubs:>9}{definitions:>9}{shares}\n")


if __name__ == "__main__":
    main()
