from __future__ import annotations

import numpy as np
import pytest

from shortlist import demo
from shortlist.lab.attention import growth, remembering
from shortlist.lab.attention.growth import SizePlan
from shortlist.lab.attention.replay import replay
from shortlist.lab.attention.settings import DEFAULTS
from shortlist.lab.attention.sizes import padded
from shortlist.lab.attention.tasks import TaskScript, TaskTurn
from shortlist.lab.attention.workbench import Shared, Workbench

CATALOG = demo.load_catalog()
TALK = TaskScript(
    "talk",
    "session",
    (
        TaskTurn(
            "which job logs of the CI are there for PR 702?", ("github/get_job_logs",), "None."
        ),
        TaskTurn("thanks", (), "Sure."),
        TaskTurn("start it again", ("github/dispatch_workflow",), "Done."),
        TaskTurn("frobnicate the whatsit", ("jira/link_issues",), "Done."),
    ),
)


@pytest.fixture(scope="module")
def shared():
    return Shared()


@pytest.fixture(scope="module")
def larger():
    return padded(CATALOG, 300, ())


@pytest.fixture(scope="module")
def bench(shared, larger):
    engine = shared.engine(larger, tiers=["lexical"])
    return Workbench(larger, [TALK], shared, engine=engine)


def watched(bench, settings):
    seen = []
    arm = bench.two_phase(settings)
    replay(arm, [TALK], bench.shared.count, bench.prices, watch=seen.append)
    return seen


def test_a_server_in_use_stands_in_the_prefix_from_the_next_turn_on(bench):
    first, thanks, again, _ = watched(bench, DEFAULTS.changed(k=1))
    of_github = {tool.id for tool in CATALOG if tool.server == "github"}
    assert "github/get_job_logs" in first.offered
    assert not of_github <= first.offered
    assert of_github <= thanks.offered & again.offered
    assert len(thanks.head) == len(first.head) + 1
    assert thanks.head == again.head
    assert "get_job_logs(" in thanks.head[-1]


def test_what_cannot_be_called_puts_no_server_in_use(bench):
    *_, last = watched(bench, DEFAULTS.changed(k=1, pool_tokens=100, in_use_tokens=0))
    assert "jira/link_issues" not in last.offered
    assert "jira/create_issue" not in last.offered


def test_what_is_found_is_told_in_the_room_that_servers_leave(bench):
    count = bench.shared.count
    for shown in watched(bench, DEFAULTS.changed(pool_tokens=1_000, in_use_tokens=600)):
        # After the definitions of two tools and the list of servers.
        in_use = shown.head[3:]
        assert sum(map(count, (*in_use, *shown.tail))) <= 1_000
        assert sum(map(count, in_use)) <= 600


def test_without_lines_nothing_but_the_prompt_offers(bench):
    for shown in watched(bench, DEFAULTS.changed(pool_tokens=0, in_use_tokens=0)):
        assert not shown.tail
        assert shown.offered == shown.typed


def test_a_catalog_is_shown_whole_as_long_as_its_arguments_have_room(bench, shared):
    small = Workbench(CATALOG, [TALK], shared, engine=shared.engine(CATALOG, tiers=["lexical"]))
    assert set(small.two_phase(DEFAULTS).levels) == {"arguments"}
    assert set(bench.two_phase(DEFAULTS).levels) == {"search"}


class Letters:
    """How often a text has each letter."""

    name, dim, fingerprint = "letters", 26, "0"

    def encode(self, texts, *, query=False, progress=None):
        counts = [[1 + text.count(chr(ord("a") + n)) for n in range(26)] for text in texts]
        vectors = np.array(counts, np.float32).reshape(-1, 26)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_every_size_is_measured_and_at_the_largest_a_curve(monkeypatch):
    monkeypatch.setattr(remembering, "load_encoder", lambda spec, *, threads: Letters())
    curve = {
        "library defaults": DEFAULTS,
        "nothing": DEFAULTS.changed(pool_tokens=0, in_use_tokens=0),
    }
    monkeypatch.setattr(growth, "CURVE", curve)
    steps, shared = [], Shared()
    plan = SizePlan(sizes=(50, 130))
    found = plan.measure([TALK, TaskScript("one", "single", TALK.turns[:1])], shared, steps.append)
    assert [row["tools"] for row in found["rows"]] == [50, 130]
    assert [row["generated"] for row in found["rows"]] == [0, 10]
    names = [row["name"] for row in found["curve"]]
    assert names == [*curve, "simple retrieval, 30 schemas"]
    assert found["curve"][0] == {"name": "library defaults"} | found["rows"][-1]["library defaults"]
    assert all(0 <= row["coverage"] <= 1 for row in found["curve"])
    assert steps == ["catalog of 50", "catalog of 130", "coverage against tokens"]
    assert len(plan.texts()) == 130
