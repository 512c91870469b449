"""Run as a program: updates tools over and over, and tells how much memory it takes.

python -m tests.engine.updating_process TOOLS COUNT EVERY
"""

from __future__ import annotations

import ctypes
import gc
import sys
from pathlib import Path

from shortlist import Engine, Tool
from shortlist.indexing import stage_models

from .fakes import BagEncoder, make_tools

CHANGED = 10


def resident() -> float:
    """Memory of this process in MB, without what was freed and waits to be used again."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


if __name__ == "__main__":
    tool_count, total, every = map(int, sys.argv[1:])
    encoder = BagEncoder()
    stage_models.load_encoder = lambda *_, **__: encoder  # type: ignore[assignment]
    tools = make_tools(tool_count)
    engine = Engine.from_tools(tools, tiers=["lexical", "embed", "hybrid"])
    session = engine.session(provider="openai", tools="list")
    for number in range(1, total + 1):
        now = list(tools)
        for place in range(number * CHANGED, number * CHANGED + CHANGED):
            tool = tools[place % tool_count]
            text = f"{tool.description} {number % 50}"
            now[place % tool_count] = Tool(tool.name, tool.server, text, tool.input_schema)
        engine.replace(now)
        engine.search(f"create an issue {number}")
        session.turn("share a page")
        # The encoder of the tests keeps all it was given.
        encoder.tools.clear()
        encoder.queries.clear()
        if number % every == 0:
            sys.stdout.write(f"{number} {resident():.1f}\n")
            sys.stdout.flush()
