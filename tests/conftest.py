"""Fixtures every part of the suite shares."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The evaluation and training data that lies beside a checkout, where there is one."""
    path = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not path.is_dir():
        pytest.skip("no shared data beside this checkout")
    return path
