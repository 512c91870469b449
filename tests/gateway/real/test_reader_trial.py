"""The trial's tasks can be done through the gateway, and its checks see it. Its record grows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import shortlist
from shortlist.lab.publishing.record import read_record

from .reader_tasks import TASK_SET, TASKS, UNSET_VARIABLE, solved
from .reader_trial import ask, prepare, record, report
from .wasted_requests import scripts, wasted

_CALLS = """
todo/list_todos {}
board/move_task {"title": "Template for invoices", "from_column": "TODO", "to_column": "DOING"}
todo/add_todo {"text": "Clean the kitchen due:2026-12-16"}
sheets/append_rows {"file": "{work}/stock.xlsx", "sheet": "Store",
    "data": [["Clamp", 40, 3.2], ["Hinge", 15, 1.75]]}
ledger/beancount_submit_transaction {"transaction":
    "2026-11-20 * \\"Norli\\" \\"Books\\"\\n  Expenses:Culture:Books  42.50 EUR\\n  Assets:Cash"}
notes/obsidian_append {"path": "Furniture/Kitchen table", "content": "Decision: oak, oiled."}
drawio/new_diagram {"file_path": "{work}/flow.drawio.svg"}
drawio/add_nodes {"file_path": "{work}/flow.drawio.svg", "nodes": [
    {"id": "a", "title": "Order", "kind": "Rectangle", "x": 0, "y": 0},
    {"id": "b", "title": "Packing", "kind": "Rectangle", "x": 200, "y": 0},
    {"id": "c", "title": "Shipping", "kind": "Rectangle", "x": 400, "y": 0}]}
drawio/link_nodes {"file_path": "{work}/flow.drawio.svg",
    "edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}]}
images/image_resize {"input_path": "{work}/pictures/harbour.png",
    "output_path": "{work}/harbour-small.png", "width": 400}
"""
#: Number of a task to a call, and where its answer has the task's.
_READINGS = {
    "6": (
        "ledger/beancount_query",
        '{"query": "SELECT sum(position) WHERE account ~ \'Groceries\' AND month = 10"}',
        r"187\.35",
    ),
    "13": (
        "pdf/read_pdf",
        '{"sources": [{"path": "{work}/handbook.pdf", "pages": "15"}], "include_full_text": true}',
        r"storage room costs (385)",
    ),
}
_SCRIPTS = {
    "8": """
for path in ("Furniture/Kitchen table", "Furniture/Bench", "Trips/Lisbon"):
    text = await notes.obsidian_read(path=path)
    text = text.replace("#projekt", "#project").replace("[projekt", "[project")
    await notes.obsidian_write(path=path, content=text)
""",
    "3": """
import re
path = "{work}/library.bib"
keys = re.findall(r"^\\w+$", await bibtex.read_bibtex_file(filepath=path), re.M)
found = []
for key in keys:
    entry = await bibtex.get_bibtex_entry(filepath=path, key=key)
    if re.search("author: .*Okafor", entry):
        found.append(key)
await bibtex.write_bibtex_entries(
    source_filepath=path, target_filepath="{work}/okafor.bib", keys=found, mode="overwrite")
""",
    "12": """
import json
means = []
for number in range(1, 13):
    info = json.loads(await images.image_info(path=f"{work}/pictures/shot-{number:02}.png"))
    means.append((info["mean"], f"shot-{number:02}.png"))
min(means)[1]
""",
    "14": """
rows = await sheets.read_sheet(file="{work}/stock.xlsx", sheet="Ideas")
for row in rows[1:]:
    await board.add_task(title=row[0], column="BACKLOG", description=row[1])
""",
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
        work = str(run / "work")
        answers = {"2": "3", "16": "no tool"}
        for number, (tool, arguments, pattern) in _READINGS.items():
            text = _called(run, tool, arguments.replace("{work}", work))
            match = re.search(pattern, text)
            assert match, text
            answers[number] = match[match.lastindex or 0]
        for line in _CALLS.replace("\n    ", " ").strip().splitlines():
            tool, _, arguments = line.partition(" ")
            text = _called(run, tool, arguments.replace("{work}", work))
            assert not text.startswith("error"), (tool, text)
        for number in (4, 2, 1):
            text = _called(run, "todo/complete_todo", json.dumps({"todo_id": str(number)}))
        for number, code in _SCRIPTS.items():
            script = json.dumps({"code": code.replace("{work}", work)})
            text = ask(run, ["call", "run_code", script])
            assert not text.startswith("error"), text
            answers[number] = str(json.loads(text)["result"])
        query = json.dumps({"query": "send a mail with the server mail"})
        answers["15"] = ask(run, ["call", "search_tools", query])
        assert UNSET_VARIABLE in answers["15"]
        (run / "answers.json").write_text(json.dumps(answers))
    finally:
        _command("stop", run)
    figures = report(run)
    assert figures["not_solved"] == []
    assert figures["solved"] == len(TASKS)
    assert figures["scripts_at_once"] == figures["scripts"] == len(_SCRIPTS)


def _row(
    name: str, arguments: dict[str, Any], tools: dict[str, str] | None = None
) -> dict[str, Any]:
    """A request with tools and their signatures in its answer."""
    shown = [{"name": tool, "signature": text} for tool, text in (tools or {}).items()]
    return {"name": name, "arguments": arguments, "is_error": False, "structured": {"tools": shown}}


def test_each_rule_counts_its_requests() -> None:
    whole, cut = {"a/one": "(x: int)"}, {"a/two": "(x; y z)"}
    failed = {"is_error": True}
    rows = [
        _row("search_tools", {"query": "first"}, whole | cut),
        _row("search_tools", {"query": " First "}, whole | cut),  # repeated
        _row("search_tools", {"query": "again"}, whole),  # repeated: all had a signature
        _row("get_tool_details", {"names": ["a/one"]}, whole),  # details
        _row("get_tool_details", {"names": ["a/two"]}, {"a/two": "(x: int, y?: int)"}),
        _row("call_tool", {"name": "a/two"}) | failed,  # error
        _row("call_tool", {"name": "down/one"}) | failed,
        _row("call_tool", {"name": "down/two"}) | failed,  # error: the second of this server
        _row("call_tool", {"name": "a/one"}),
        _row("call_tool", {"name": "a/one"}),
        _row("search_tools", {"query": "lamp"}, {"b/one": "(;x)"}),
        _row("search_tools", {"queries": ["light"]}, {"b/two": "(;x)"}),  # unused
        _row("list_servers", {}),  # list_servers
    ]
    counts = wasted(rows, ["down"], impossible=1)
    assert counts == {"repeated": 2, "details": 1, "error": 2, "unused": 1, "list_servers": 1}


def test_a_script_after_one_that_failed_is_another_try_of_it() -> None:
    failures = (True, True, False, False, True)
    rows = [_row("run_code", {}) | {"is_error": is_error} for is_error in failures]
    assert scripts(rows) == (3, 1)


def _report(commit: str, run: str, requests: int, tasks: str = TASK_SET) -> dict[str, Any]:
    figures = {"requests": requests, "characters": 9_000, "characters_of_list": 7_000, "wasted": 5}
    counts = {"scripts": 4, "scripts_at_once": 3}
    return {"run": run, "commit": commit, "tasks": tasks, "solved": 14, **figures, **counts}


def test_a_record_keeps_the_runs_of_earlier_reports(tmp_path: Path) -> None:
    record([_report("other", "one", 20, "other tasks")], ["report", "none"], tmp_path)
    record([_report("old", "one", 47), _report("old", "two", 43)], ["report", "one"], tmp_path)
    first = read_record("reader_trial", tmp_path)
    reports = [_report("old", "two", 44), _report("new", "one", 33)]
    record(reports, ["report", "two"], tmp_path)
    second = read_record("reader_trial", tmp_path)
    figures = [(row[0], row[1], row[2], row[-1]) for row in second.table.rows]
    assert figures == [("old", "14/14", "47/44", "6 of 8"), ("new", "14", "33", "3 of 4")]
    assert second.result["runs"][0] == first.result["runs"][0]
    assert second.result["runs"][0]["reported"] == first.origin["measured"]
