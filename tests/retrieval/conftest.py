"""The registered backends: what is added to the registry inherits the contract suites."""

from __future__ import annotations

from typing import Any

import pytest

from shortlist import registry

from ..postgres import PostgresServer
from .stored_backends import StoredDenseBackend, StoredLexicalBackend

POSTGRES = "postgres"


@pytest.fixture(scope="module")
def shared_dsn(postgres_server: PostgresServer) -> str:
    """Connection string of a database for all tests of a file, whose indexes are tenants."""
    return postgres_server.new_database()


@pytest.fixture(scope="module", params=[*registry.names("dense"), POSTGRES])
def dense_backend(request: pytest.FixtureRequest) -> Any:
    """Each registered dense index, and PostgreSQL."""
    if request.param == POSTGRES:
        return StoredDenseBackend(request.getfixturevalue("shared_dsn"))
    return registry.load("dense", request.param)


@pytest.fixture(scope="module", params=[*registry.names("lexical"), POSTGRES])
def lexical_backend(request: pytest.FixtureRequest) -> Any:
    """Each registered lexical index, and PostgreSQL."""
    if request.param == POSTGRES:
        return StoredLexicalBackend(request.getfixturevalue("shared_dsn"))
    return registry.load("lexical", request.param)


@pytest.fixture(scope="module", params=registry.names("fusion"))
def fusion_method(request: pytest.FixtureRequest) -> Any:
    """Each registered fusion."""
    return registry.load("fusion", request.param)
