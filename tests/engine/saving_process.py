"""Run as a program: saves catalogs of growing note numbers into a folder until it is killed.

python -m tests.engine.saving_process FOLDER FIRST COUNT BACKEND
"""

from __future__ import annotations

import signal
import sys
from itertools import count, islice

from shortlist import Engine
from shortlist.indexing import stage_models

from .fakes import BagEncoder, make_tools

if __name__ == "__main__":
    # A shell starts what runs in the background with interrupts ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder, first, total, backend = sys.argv[1:]
    stage_models.load_encoder = lambda *_, **__: BagEncoder()  # type: ignore[assignment]
    engine = Engine.from_tools([], tiers=["lexical", "embed"], dense={"backend": backend})
    for number in islice(count(int(first)), int(total) or None):
        engine.replace(make_tools(5 + number % 30, note=f"note {number}"))
        engine.save(folder)
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
