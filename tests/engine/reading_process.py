"""Run as a program: opens a folder until it has seen so many versions, each of which must be whole.

python -m tests.engine.reading_process FOLDER VERSIONS BACKEND
"""

from __future__ import annotations

import re
import sys

from shortlist import Engine
from shortlist.indexing import stage_models

from .fakes import BagEncoder, make_tools


def check(engine: Engine) -> int:
    """The number of the version, once its tools, terms and vectors are seen to agree."""
    [found] = re.findall(r"note (\d+)", engine.catalog[0].description)
    number = int(found)
    tools = make_tools(5 + number % 30, note=f"note {number}")
    if list(engine.catalog) != tools:
        raise AssertionError(f"version {number} is not the one saved")
    for tier in engine.tiers:
        if set(engine.search(f"note {number}", tier=tier, k=100).ids) != {t.id for t in tools}:
            raise AssertionError(f"version {number}: {tier} is of another version")
    if engine.build_progress.newly_encoded:
        raise AssertionError(f"version {number}: vectors of another version")
    return number


if __name__ == "__main__":
    folder, versions, backend = sys.argv[1:]
    stage_models.load_encoder = lambda *_, **__: BagEncoder()  # type: ignore[assignment]
    seen: list[int] = []
    while len(set(seen)) < int(versions):
        engine = Engine.open(folder, tiers=["lexical", "embed"], dense={"backend": backend})
        seen.append(check(engine))
    if seen != sorted(seen):
        raise AssertionError(f"versions went backwards: {seen}")
