"""Many threads search while the catalog is replaced: every answer is of exactly one version."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event, Thread

import pytest

from shortlist import Catalog, Engine, Selection, Tool

from .conftest import TIERS

VERSIONS, THREADS = 80, 16
# Seconds a thread rests between requests: sixteen that never do leave the updates no processor.
PAUSE = 0.03
SIZES = (12, 3, 20, 1)


def catalog(version: int) -> Catalog:
    """A version of its own size, whose tools carry its number: a row of another stands out."""
    return Catalog(
        Tool(f"create_issue_{number}", f"v{version}", f"Create issue {number} of version {version}")
        for number in range(SIZES[version % len(SIZES)])
    )


@pytest.mark.no_cover
def test_every_answer_belongs_to_one_version(make_engine: Callable[..., Engine]) -> None:
    versions = [catalog(number) for number in range(VERSIONS + 1)]
    ids = [{tool.id for tool in version} for version in versions]
    engine = make_engine(versions[0])
    stop = Event()
    answers: list[list[Selection]] = [[] for _ in range(THREADS)]
    failures: list[BaseException] = []

    def search(mine: list[Selection], thread: int) -> None:
        turn = thread
        try:
            while not stop.wait(PAUSE):
                turn += 1
                tier, query = TIERS[turn % len(TIERS)], f"create issue {turn % 25}"
                if turn % 5 == 0:
                    mine.extend(engine.view().search_many([query, "version"], tier=tier, k=30))
                elif turn % 7 == 0:
                    allowed = [tool.id for tool in engine.catalog][::2]
                    mine.append(engine.view(allowed=allowed).search(query, tier=tier, k=30))
                else:
                    mine.append(engine.search(query, tier=tier, k=30))
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test reports it
            failures.append(error)

    threads = [Thread(target=search, args=(mine, number)) for number, mine in enumerate(answers)]
    for thread in threads:
        thread.start()
    for version in versions[1:]:
        engine.replace(version)
    stop.set()
    for thread in threads:
        thread.join(timeout=60)
    assert failures == []
    assert not any(thread.is_alive() for thread in threads)
    found = [answer for mine in answers for answer in mine]
    assert len(found) >= VERSIONS
    assert any(answer.ids for answer in found)
    for answer in found:
        # While the next version is built, nothing of the one before is left to be found.
        assert any(set(answer.ids) <= version for version in ids)
        assert len(set(answer.ids)) == len(answer)
        assert (answer.tier, answer.tier_reason) == (answer.tier_asked, None)
    assert engine.catalog is versions[-1]
    assert engine.search("create issue", k=30).catalog == versions[-1].fingerprint


@pytest.mark.no_cover
def test_answers_are_of_one_version_while_one_server_is_replaced(
    make_engine: Callable[..., Engine],
) -> None:
    rest = [Tool(f"create_issue_{number}", "rest", f"Create {number}") for number in range(90)]

    def tools(version: int) -> list[Tool]:
        return [Tool(f"v{version}_{number}", "s", f"Issue of {version}") for number in range(3)]

    engine = make_engine([*rest, *tools(0)])
    stop = Event()
    failures: list[object] = []

    def search(tier: str) -> None:
        while not stop.wait(PAUSE / 10):
            try:
                found = engine.search("issue", tier=tier, k=99).ids
                versions = {one.split("_")[0] for one in found if one.startswith("s/")}
                if len(versions) > 1:
                    failures.append(versions)
            except BaseException as error:  # noqa: BLE001 - whatever it is, the test reports it
                failures.append(error)

    threads = [Thread(target=search, args=(tier,)) for tier in TIERS]
    for thread in threads:
        thread.start()
    for version in range(1, 25):
        engine.replace_server("s", tools(version))
    stop.set()
    for thread in threads:
        thread.join(timeout=60)
    assert failures == []


def test_the_batch_is_of_one_version(make_engine: Callable[..., Engine]) -> None:
    engine = make_engine(catalog(0))
    updates = Thread(target=lambda: [engine.replace(catalog(number)) for number in range(1, 10)])
    updates.start()
    while updates.is_alive():
        batch = engine.view().search_many([f"issue {number}" for number in range(8)])
        assert len({answer.catalog for answer in batch}) == 1
    updates.join()


def test_an_event_loop_goes_on_while_engines_search(engine: Engine) -> None:
    async def search_all() -> list[Selection]:
        return await asyncio.gather(
            *(
                engine.view().asearch(f"issue {number}", tier=TIERS[number % 4])
                for number in range(40)
            )
        )

    answers = asyncio.run(search_all())
    assert [answer.query for answer in answers] == [f"issue {number}" for number in range(40)]
    assert all(
        answer.ids == engine.search(answer.query, tier=answer.tier).ids for answer in answers
    )
