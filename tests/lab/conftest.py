"""The small engine, its catalog and its files, as in the tests of `evals`."""

from __future__ import annotations

from ..evals.conftest import catalog, engine, files

__all__ = ["catalog", "engine", "files"]
