"""Run as a program: saves, opens and updates an index over and over until it is killed.

python -m tests.engine.killed_process FOLDER FIRST
"""

from __future__ import annotations

import os
import sys
from itertools import count

from shortlist import Engine
from shortlist.indexing import stage_models

from .fakes import BagEncoder, make_tools

if __name__ == "__main__":
    folder, first = sys.argv[1:]
    stage_models.load_encoder = lambda *_, **__: BagEncoder()  # type: ignore[assignment]
    settings = {"tiers": ["lexical", "embed"], "dense": {"backend": "hnswlib"}}
    engine = Engine.from_tools(make_tools(200), **settings)
    for number in count(int(first)):
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        engine.replace(make_tools(200 + number % 30, note=f"note {number}"))
        engine.save(folder)
        engine = Engine.open(folder, **settings)
        # As where the folder is read-only.
        access, os.access = os.access, lambda *_, **__: False
        engine = Engine.open(folder, **settings)
        os.access = access
        engine.search(f"note {number}")
