"""One process of a sandbox for the scripts of a test file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shortlist.tests.codemode.servers import Sandbox


@pytest.fixture(scope="module", autouse=True)
def _one_sandbox() -> Iterator[None]:
    with Sandbox.shared_by_a_file():
        yield
