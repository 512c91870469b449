"""The trial's tasks can be done through the gateway, and its checks see it. Its record grows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import shortlist
from shortlist.lab.publishing.record import read_record

from .reader_tasks import TASKS, solved
from .reader_trial import ask, prepare, record, report

_CALLS = """
filesystem/edit_file {"path": "{work}/notes/plan.txt",
    "edits": [{"oldText": "second line", "newText": "ship on Friday"}]}
filesystem/create_directory {"path": "{work}/archive"}
filesystem/move_file {"source": "{work}/reports/south/january.txt",
    "destination": "{work}/archive/january.txt"}
git/git_add {"repo_path": "{work}/repo", "files": ["code.py"]}
git/git_commit {"repo_path": "{work}/repo", "message": "Raise the answer"}
sqlite/write_query {"query": "insert into cities values ('Turku', 195137)"}
filesystem/write_file {"path": "{work}/notes/best.txt", "content": "{best}"}
excel/write_range {"path": "{work}/budget.xlsx", "sheet": "Q1", "at": "A6",
    "rows": [["Total", "=SUM(B2:B5)"]]}
word/create_document {"filename": "{work}/minutes.docx"}
word/add_heading {"filename": "{work}/minutes.docx", "text": "Minutes", "level": 1}
word/add_paragraph {"filename": "{work}/minutes.docx", "text": "All agreed."}
memory/create_entities {"entities": [
    {"name": "Ines Okafor", "entityType": "person", "observations": []},
    {"name": "Kestrel", "entityType": "project", "observations": []}]}
memory/create_relations {"relations": [
    {"from": "Ines Okafor", "to": "Kestrel", "relationType": "leads"}]}
"""
_READINGS = {
    "4": ("git/git_log", '{"repo_path": "{work}/downloader"}', r"Message: (Do not .*)"),
    "5": ("sqlite/read_query", '{"query": "select sum(people) total from cities"}', r"\d{7}"),
    "7": (
        "duckdb/execute_query",
        '{"sql": "select product from sales where month(day) = 3 group by 1'
        ' order by sum(price * pieces) desc limit 1"}',
        r"Toaster|Lamp|Kettle",
    ),
    "11": (
        "time/convert_time",
        '{"source_timezone": "Asia/Tokyo", "time": "16:30", "target_timezone": "Asia/Kolkata"}',
        r"13:00",
    ),
    "12": ("fetch/fetch", '{"url": "{site}/prices.html"}', r"Basic\D+([\d.]+)"),
}


def _called(run: Path, tool: str, arguments: str) -> str:
    given = json.dumps({"name": tool, "arguments": json.loads(arguments)})
    return ask(run, ["call", "call_tool", given])


def _command(name: str, run: Path) -> None:
    """Start or stop a run in a process of its own, whose children outlive it."""
    module = "shortlist.tests.gateway.real.reader_trial"
    subprocess.run([sys.executable, "-m", module, name, str(run)], check=True, timeout=600)


@pytest.mark.long
def test_all_tasks_can_be_done_and_none_is_done_before(tmp_path: Path) -> None:
    run = tmp_path / "run"
    prepare(run, Path(shortlist.__file__).resolve().parent)
    assert not any(solved(run / "work", {}))
    try:
        _command("start", run)
        work, tasks = str(run / "work"), (run / "TASKS.md").read_text()
        site = re.search(r"http://127\.0\.0\.1:\d+", tasks)
        assert site
        answers = {"14": "no tool"}
        for number, (tool, arguments, pattern) in _READINGS.items():
            filled = arguments.replace("{work}", work).replace("{site}", site[0])
            text = _called(run, tool, filled)
            match = re.search(pattern, text)
            assert match, text
            answers[number] = match[match.lastindex or 0]
        for line in _CALLS.replace("\n    ", " ").strip().splitlines():
            tool, _, arguments = line.partition(" ")
            filled = arguments.replace("{work}", work).replace("{best}", answers["7"])
            text = _called(run, tool, filled)
            assert not text.startswith("error"), (tool, text)
        down = _called(run, "powerpoint/create_presentation", "{}")
        answers["13"] = f"The server powerpoint: {down}"
        (run / "answers.json").write_text(json.dumps(answers))
    finally:
        _command("stop", run)
    figures = report(run)
    assert figures["not_solved"] == []
    assert figures["solved"] == len(TASKS)


def _report(commit: str, run: str, requests: int) -> dict[str, object]:
    figures = {"requests": requests, "characters": 9_000, "characters_of_list": 7_000}
    return {"run": run, "commit": commit, "solved": 14, **figures}


def test_a_record_keeps_the_runs_of_earlier_reports(tmp_path: Path) -> None:
    record([_report("old", "one", 47), _report("old", "two", 43)], ["report", "one"], tmp_path)
    first = read_record("reader_trial", tmp_path)
    reports = [_report("old", "two", 44), _report("new", "one", 33)]
    record(reports, ["report", "two"], tmp_path)
    second = read_record("reader_trial", tmp_path)
    figures = [(row[0], row[1], row[2]) for row in second.table.rows]
    assert figures == [("old", "14/14", "47/44"), ("new", "14", "33")]
    assert second.result["runs"][0] == first.result["runs"][0]
    assert second.result["runs"][0]["reported"] == first.origin["measured"]
