"""Run as a program: makes, saves, opens and asks engines, and tells how much memory it takes.

python -m tests.engine.making_process FOLDER ROUNDS
"""

from __future__ import annotations

import sys
from pathlib import Path

from shortlist import Engine

from .fakes import make_tools
from .updating_process import resident

if __name__ == "__main__":
    folder, rounds = Path(sys.argv[1]), int(sys.argv[2])
    tools = make_tools(20)
    for _ in range(rounds):
        engine = Engine.from_tools(tools, tiers=["lexical"])
        engine.replace(tools[:5])
        engine.save(folder)
        engine = Engine.open(folder, tools, tiers=["lexical"])
        engine.session(provider="openai", tools="list").turn("create an issue")
        engine.search("create an issue", budget_ms=1_000)
        sys.stdout.write(f"{resident():.1f}\n")
        sys.stdout.flush()
