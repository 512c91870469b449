"""Run as a program: updates a few tools over and over, and tells how much memory it takes.

python -m tests.engine.rebuilding_process COUNT
"""

from __future__ import annotations

import sys
from pathlib import Path

from shortlist import Engine, Tool


def resident() -> float:
    """Memory of this process in MB, with what was freed and not returned to the system."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


if __name__ == "__main__":
    tools = [Tool(f"say_{number}", "one", f"Say the text {number}.") for number in range(20)]
    engine = Engine.from_tools(tools, tiers=["lexical"])
    for number in range(int(sys.argv[1])):
        engine.replace([*tools, Tool("extra", "one", f"A further tool {number}.")])
        sys.stdout.write(f"{resident():.1f}\n")
