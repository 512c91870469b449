"""Three small real servers behind the gateway; what is not installed here is skipped by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from .checks import (
    Front,
    Real,
    ask_through,
    check_calls,
    check_descriptions,
    described,
    queries_for,
    ranks,
    real_servers,
)
from .clients import Result
from .servers import SMALL

_NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
_NAMES = [server.name for server in SMALL]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    root: Path = tmp_path_factory.mktemp("small")
    with real_servers(root, SMALL, install=False, first_start=120) as made:
        if not made.entries:
            pytest.skip("; ".join(made.missing))
        yield made


# A process for each request makes the Inspector too slow for all calls here.
@pytest.fixture(scope="module", params=("sdk2", pytest.param("sdk1", marks=pytest.mark.long)))
def through(request: pytest.FixtureRequest, real: Real) -> dict[str, list[Result]]:
    return anyio.run(ask_through, real, request.param)


@pytest.mark.parametrize("name", _NAMES)
def test_a_call_gives_what_the_server_gives(
    real: Real, through: dict[str, list[Result]], name: str
) -> None:
    check_calls(real, through, name)


def test_tools_are_found_and_described(real: Real) -> None:
    placed = anyio.run(ranks, real, "sdk2", queries_for(real))
    assert [tool for tool, rank in placed.items() if not rank] == []
    check_descriptions(real, anyio.run(described, real, "sdk2"))


@pytest.mark.long
def test_the_inspector_calls_through(real: Real) -> None:
    async def called() -> Result:
        async with Front(real, "inspector") as front:
            given = {"name": "time/convert_time", "arguments": _NOON}
            return await front.call("call_tool", given)

    if "time" not in real.entries:
        pytest.skip("; ".join(real.missing))
    result = anyio.run(called)
    assert "T12:00:00+00:00" in result["content"][0]["text"]
