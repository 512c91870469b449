"""Fourteen tasks for a language model that has only the gateway's tools.

Written before any model read them. Each has its material and a check of what is on disk, or of the
answer. The same tasks serve every build of the gateway.
"""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .material import SITE
from .packages import pypi
from .servers import SERVERS, WORK, RealServer, entries, fill

#: Servers of office files and of the second database. No other test uses them.
_OFFICE = (
    RealServer("excel", "excel-mcp-server==2.2.2", "excel-mcp-server", ("stdio",)),
    RealServer("word", "office-word-mcp-server==1.1.11", "word_mcp_server"),
    RealServer(
        "duckdb",
        "mcp-server-motherduck==1.1.0",
        "mcp-server-motherduck",
        ("--db-path", f"{WORK}/sales.duckdb", "--read-write"),
    ),
)
#: Servers for tests of the protocol, without tools that a user has a task for.
_LEFT_OUT = {"everything", "sequential-thinking", "elastic"}
SERVERS_OF_THE_TRIAL = (
    *(server for server in SERVERS if server.name not in _LEFT_OUT),
    *_OFFICE,
)

_SALES = """
import duckdb, sys
with duckdb.connect(sys.argv[1]) as database:
    database.execute("create table sales (day date, product text, price decimal(8, 2), pieces int)")
    database.execute(
        "insert into sales values"
        "('2026-02-27', 'Kettle', 39.90, 80), ('2026-03-02', 'Kettle', 39.90, 21),"
        "('2026-03-05', 'Lamp', 24.50, 60), ('2026-03-19', 'Toaster', 54.00, 24),"
        "('2026-03-30', 'Toaster', 54.00, 6), ('2026-04-01', 'Lamp', 24.50, 300)"
    )
"""
_BUDGET = """
import openpyxl, sys
book = openpyxl.Workbook()
sheet = book.active
sheet.title = "Q1"
for row in (("Item", "Amount"), ("Rent", 1200), ("Paper", 85), ("Travel", 430), ("Food", 260)):
    sheet.append(row)
book.create_sheet("Q2").append(("Item", "Amount"))
book.save(sys.argv[1])
"""
_CELLS = """
import json, openpyxl, sys
sheet = openpyxl.load_workbook(sys.argv[1])["Q1"]
print(json.dumps([[cell.value for cell in row] for row in sheet["A1:B6"]]))
"""
#: Commits of the second repository: message, and the content of its only file.
_COMMITS = (
    ("Start of the downloader", "timeout = 10\n"),
    ("Wait longer", "timeout = 30\n"),
    ("Do not give up at once", "timeout = 30\nretries = 3\n"),
    ("Be polite", "timeout = 30\nretries = 3\npause = 1\n"),
    ("Five attempts", "timeout = 30\nretries = 5\npause = 1\n"),
)
_REPORTS = {
    "north/january.txt": "Visits in the north. Customers: Lund, Solberg.\n",
    "north/february.txt": "Visits in the north. Customers: Bakke, Moen.\n",
    "south/january.txt": "Visits in the south. Customers: Dahl, Halvorsen.\n",
    "south/february.txt": "Visits in the south. Customers: Dahl, Strand.\n",
}
_PAGE = (
    "<html><title>Prices</title><body><h1>Prices of our plans</h1><p>Prices are for each month and"
    " user. They contain the tax.</p><table><tr><th>Plan</th><th>Price</th></tr><tr><td>Free</td>"
    "<td>0.00</td></tr><tr><td>Basic</td><td>17.40</td></tr><tr><td>Team</td><td>23.10</td></tr>"
    "</table></body></html>"
)


def material(run: Path) -> None:
    """Put everything that the tasks need into `run/work` and `run/site`.

    Args:
        run: folder of the run, without these two.
    """
    work = run / "work"
    fill(work)
    with sqlite3.connect(work / "data.db") as database:
        database.execute("insert into cities values ('Gothenburg', 587549)")
    for name, text in _REPORTS.items():
        report = work / "reports" / name
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(text)
    library = work / "downloader"
    library.mkdir()
    _git(library, "init", "--quiet", "--initial-branch", "main")
    _git(library, "config", "user.name", "Tester")
    _git(library, "config", "user.email", "tester@example.com")
    for message, text in _COMMITS:
        (library / "settings.py").write_text(text)
        _git(library, "add", "settings.py")
        _git(library, "commit", "--quiet", "-m", message)
    _with_package("mcp-server-motherduck==1.1.0", _SALES, work / "sales.duckdb")
    _with_package("excel-mcp-server==2.2.2", _BUDGET, work / "budget.xlsx")
    (run / "site").mkdir()
    (run / "site" / "prices.html").write_text(_PAGE)


def configuration(work: Path) -> dict[str, Any]:
    """Entries under `mcpServers`: the real servers, and one that cannot start.

    Args:
        work: folder that the servers may read and write.

    Raises:
        NotInstalledError: a package is missing and cannot be installed.
    """
    found, missing = entries(SERVERS_OF_THE_TRIAL, work)
    if missing:
        raise AssertionError(f"the trial needs all its servers: {missing}")
    down = {"command": "python3", "args": ["-m", "powerpoint_mcp_server"], "start_timeout_s": 20}
    return {**found, "powerpoint": down}


@dataclass(frozen=True, slots=True)
class Task:
    """What a user asks for, and whether it was done.

    Args:
        text: for the model; `{work}` and `{site}` are replaced.
        check: true if it was done; takes the folder and the model's answer.
    """

    text: str
    check: Callable[[Path, str], bool]


def _plan(work: Path, _: str) -> bool:
    text = (work / "notes" / "plan.txt").read_text()
    return text.split("\n")[:3] == ["first line", "ship on Friday", "third line"]


def _archive(work: Path, _: str) -> bool:
    left = {str(path.relative_to(work / "reports")) for path in (work / "reports").rglob("*.txt")}
    moved = [path.read_text() for path in (work / "archive").glob("*.txt")]
    name = "south/january.txt"
    return moved == [_REPORTS[name]] and left == set(_REPORTS) - {name}


def _commit(work: Path, _: str) -> bool:
    repository = work / "repo"
    last = _git(repository, "log", "-1", "--format=%s").strip()
    changed = _git(repository, "show", "--format=", "--name-only").split()
    return (last, changed) == ("Raise the answer", ["code.py"])


def _turku(work: Path, _: str) -> bool:
    with sqlite3.connect(work / "data.db") as database:
        rows = database.execute("select people from cities where name = 'Turku'").fetchall()
    return rows == [(195137,)]


def _best(work: Path, _: str) -> bool:
    return (work / "notes" / "best.txt").read_text().strip() == "Toaster"


def _budget(work: Path, _: str) -> bool:
    cells = json.loads(_with_package("excel-mcp-server==2.2.2", _CELLS, work / "budget.xlsx"))
    kept = cells[0] == ["Item", "Amount"] and cells[4] == ["Food", 260]
    formula = str(cells[5][1]).replace(" ", "").replace("$", "").upper()
    return kept and cells[5][0] == "Total" and formula == "=SUM(B2:B5)"


def _minutes(work: Path, _: str) -> bool:
    with zipfile.ZipFile(work / "minutes.docx") as document:
        xml = document.read("word/document.xml").decode()
    paragraphs = re.findall(r"<w:p[ >].*?</w:p>", xml, re.DOTALL)
    texts = ["".join(re.findall(r"<w:t[^>]*>([^<]*)", each)) for each in paragraphs]
    headed = any("Heading" in each or "Title" in each for each in paragraphs)
    return headed and [text for text in texts if text] == ["Minutes", "All agreed."]


def _kestrel(work: Path, _: str) -> bool:
    rows = map(json.loads, (work / "memory.jsonl").read_text().splitlines())
    return any(
        "Ines Okafor" in row["from"] and "Kestrel" in row["to"] and "lead" in row["relationType"]
        for row in rows
        if row["type"] == "relation"
    )


def _slides(work: Path, answer: str) -> bool:
    text = answer.lower()
    state = r"fail|down|not running|start|error|offline|crash|broken|unavailable"
    says = "powerpoint" in text and "server" in text and re.search(state, text) is not None
    return says and not (work / "kickoff.pptx").exists()


TASKS = (
    Task(
        "In the file {work}/notes/plan.txt, replace the text `second line` with `ship on Friday`."
        " Change nothing else.",
        _plan,
    ),
    Task(
        "One text file in the folders below {work}/reports names the customer Halvorsen. Move it"
        " into the new folder {work}/archive.",
        _archive,
    ),
    Task(
        "The git repository {work}/repo has a changed file and a new file. Commit only the changed"
        " file, with the message `Raise the answer`.",
        _commit,
    ),
    Task(
        "Which commit of the git repository {work}/downloader introduced the variable `retries`?"
        " The answer is the message of that commit.",
        lambda _, answer: "do not give up at once" in answer.lower(),
    ),
    Task(
        "How many people live in all cities of the SQLite database {work}/data.db together? The"
        " answer is the number.",
        lambda _, answer: "1595549" in re.sub(r"[\s.,']", "", answer),
    ),
    Task(
        "Add the city Turku with 195137 people to the cities in the SQLite database.",
        _turku,
    ),
    Task(
        "Which product had the highest revenue (price times pieces) in March 2026? The sales are in"
        " the DuckDB database {work}/sales.duckdb. Write only its name into the new file"
        " {work}/notes/best.txt.",
        _best,
    ),
    Task(
        "In the workbook {work}/budget.xlsx, sheet `Q1`, write the text `Total` into A6, and into"
        " B6 a formula that adds B2 to B5.",
        _budget,
    ),
    Task(
        "Create the Word document {work}/minutes.docx with the heading `Minutes`, and below it the"
        " paragraph `All agreed.`",
        _minutes,
    ),
    Task(
        "Remember for later conversations, in the knowledge graph: the person Ines Okafor leads the"
        " project Kestrel.",
        _kestrel,
    ),
    Task(
        "A call starts at 16:30 in Tokyo. What time is it then in Kolkata? The answer is HH:MM.",
        lambda _, answer: "13:00" in answer or "1:00 pm" in answer.lower(),
    ),
    Task(
        "What does the plan Basic cost, as the web page {site}/prices.html says? The answer is the"
        " price.",
        lambda _, answer: "17.40" in answer,
    ),
    Task(
        "Create the PowerPoint presentation {work}/kickoff.pptx with one slide that has the title"
        " `Kickoff`. If that is not possible now, the answer says why, in one sentence.",
        _slides,
    ),
    Task(
        "Dim the lamp in the living room to 30 per cent. If no tool can do that, the answer is"
        " `no tool`.",
        lambda _, answer: "no tool" in answer.lower(),
    ),
)


def task_texts(work: Path, site: str) -> list[str]:
    """The tasks for the model, in order.

    Args:
        work: folder with the material.
        site: address of the web site.
    """
    return [task.text.replace(WORK, str(work)).replace(SITE, site) for task in TASKS]


def solved(work: Path, answers: dict[str, str]) -> list[bool]:
    """Whether each task was done.

    Args:
        work: folder with the material, after the run.
        answers: number of the task, from "1", to the answer.
    """
    return [_is_done(task, work, answers.get(str(at), "")) for at, task in enumerate(TASKS, 1)]


def _is_done(task: Task, work: Path, answer: str) -> bool:
    try:
        return task.check(work, answer)
    except (OSError, KeyError):  # a file is missing, or part of it
        return False


def _git(repository: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=repository, check=True, capture_output=True)
    return done.stdout.decode()


def _with_package(package: str, program: str, path: Path) -> str:
    """What a Python program prints that uses the libraries of a package."""
    command = [str(pypi(package) / "python"), "-c", program, str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
