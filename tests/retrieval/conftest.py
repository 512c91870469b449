"""The registered backends: what is added to the registry inherits the contract suites."""

from __future__ import annotations

from typing import Any

import pytest

from shortlist import registry


@pytest.fixture(scope="module", params=registry.names("dense"))
def dense_backend(request: pytest.FixtureRequest) -> Any:
    """Each registered dense index."""
    return registry.load("dense", request.param)


@pytest.fixture(scope="module", params=registry.names("lexical"))
def lexical_backend(request: pytest.FixtureRequest) -> Any:
    """Each registered lexical index."""
    return registry.load("lexical", request.param)


@pytest.fixture(scope="module", params=registry.names("fusion"))
def fusion_method(request: pytest.FixtureRequest) -> Any:
    """Each registered fusion."""
    return registry.load("fusion", request.param)
