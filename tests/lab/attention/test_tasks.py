from __future__ import annotations

import json

import pytest

from shortlist import demo
from shortlist.errors import EvaluationError
from shortlist.lab.attention import tasks
from shortlist.lab.attention.overlap import word_overlap
from shortlist.lab.attention.tasks import TaskScript, TaskTurn, asked, load_scripts
from shortlist.loaders.summaries import Summaries


@pytest.fixture(scope="module")
def catalog():
    return demo.load_catalog()


@pytest.fixture(scope="module")
def scripts(catalog):
    return load_scripts(catalog)


def test_there_are_500_tasks_of_three_kinds(scripts):
    kinds = {kind: [one for one in scripts if one.kind == kind] for kind in tasks.KINDS}
    assert len(kinds["single"]) == 300
    assert len(kinds["multi"]) >= 100
    assert len(kinds["session"]) >= 6
    assert asked(scripts) >= 500
    assert all(15 <= len(one.turns) <= 40 for one in kinds["session"])
    assert sum(len(one.turns) >= 30 for one in kinds["session"]) >= 2


def test_no_request_is_there_twice(scripts):
    alone = [one.turns[0].user for one in scripts if one.kind != "session"]
    assert len(alone) == len(set(alone))
    assert len({one.id for one in scripts}) == len(scripts)


def test_single_tasks_take_one_tool_and_all_tools_are_asked_for(scripts, catalog):
    single = [one.turns[0].needed for one in scripts if one.kind == "single"]
    assert {len(needed) for needed in single} == {1}
    assert {needed[0] for needed in single} == {tool.id for tool in catalog}


def test_a_hundred_requests_take_tools_of_several_servers(scripts):
    multi = [one.turns[0].needed for one in scripts if one.kind == "multi"]
    assert all(2 <= len(needed) <= 4 for needed in multi)
    assert sum(len({i.partition("/")[0] for i in needed}) > 1 for needed in multi) >= 100


def test_accounts_of_sessions_may_do_what_their_tasks_take(scripts, catalog):
    for script in scripts:
        for turn in script.turns if script.kind == "session" else ():
            for tool_id in turn.needed:
                tool = catalog.get(tool_id)
                kind = "read" if tool.annotations["readOnlyHint"] else "write"
                assert f"{tool.server}:{kind}" in script.scopes, (script.id, tool_id)


def test_requests_are_not_worded_like_the_pool(scripts, catalog):
    overlap = word_overlap(scripts, catalog, Summaries())
    assert set(overlap) == set(tasks.KINDS)
    for held in overlap.values():
        assert held["summary_in_request"] < 0.15
        assert held["summary_most"] <= 0.5


def test_overlap_counts_shares_of_words(catalog):
    tool = catalog.get("slack/add_reaction")
    summary = Summaries().of(tool)
    said = TaskScript("a", "single", (TaskTurn(summary, (tool.id,)),))
    held = word_overlap([said], catalog, Summaries())["single"]
    assert held["summary_in_request"] == held["summary_most"] == 1.0
    other = TaskScript("b", "single", (TaskTurn("zzz qqq", (tool.id,)),))
    assert word_overlap([other], catalog, Summaries())["single"] == {
        "requests": 1,
        "request_in_tools": 0.0,
        "summary_in_request": 0.0,
        "summary_most": 0.0,
        "no_name_word": 1.0,
    }


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"id": "x", "request": "a", "needed": ["github/none"]}, "no tool 'github/none'"),
        ({"id": "x", "request": " ", "needed": []}, "no words"),
        ({"id": "x", "needed": []}, "no task"),
        ({"id": "x", "request": "a", "needed": ["web/fetch_page"] * 2}, "named twice"),
    ],
)
def test_a_bad_task_is_refused_with_its_line(monkeypatch, tmp_path, catalog, row, told):
    good = {"id": "y", "request": "a", "needed": ["web/fetch_page"]}
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "single.jsonl").write_text(f"{json.dumps(good)}\n{json.dumps(row)}\n")
    monkeypatch.setattr(tasks, "files", lambda _: tmp_path)
    with pytest.raises(EvaluationError, match="line 2") as caught:
        load_scripts(catalog)
    assert told in str(caught.value)
