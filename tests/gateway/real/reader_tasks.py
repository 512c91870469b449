"""Sixteen tasks for a language model that has only the gateway's tools.

Written before any model read them, and before the gateway was asked about any of them. Each has
its material and a check of what is on disk, or of the answer. The same tasks serve every build of
the gateway. Ten servers do them; eight others are of no use for them, one cannot start, and one
never answers a call.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from .material import SITE
from .packages import pypi
from .servers import SERVERS, WORK, RealServer, entries, fill

_BEANCOUNT = ("beancount-mcp==0.1.1", "mcp<2")
_SHEETS = ("mcp-server-spreadsheet==0.3.3",)
_PICTURES = ("farshid-mcp-imageprocessing==0.3.0", "mcp<2")
#: Servers that do the tasks. No other test uses them.
_TEN = (
    RealServer(
        "todo", "todo-txt-mcp==1.0.2", "todo-txt-mcp", (f"{WORK}/todo.txt",), requires=("mcp<2",)
    ),
    RealServer(
        "board", "kanbanger==3.0.0", "kanbanger-mcp", env={"KANBANGER_WORKSPACE": f"{WORK}/board"}
    ),
    RealServer("bibtex", "bibtex-file-mcp==1.1.0", "bibtex-file-mcp", requires=("mcp<2",)),
    RealServer(
        "calendar",
        "ics-calendar-mcp==0.1.0",
        "ics-calendar-mcp",
        env={"ICS_CALENDAR_URL": f"{SITE}/calendar.ics", "ICS_TIMEZONE": "Europe/Oslo"},
        requires=("mcp<2",),
    ),
    RealServer("sheets", _SHEETS[0], "mcp-server-spreadsheet"),
    RealServer(
        "ledger",
        _BEANCOUNT[0],
        "beancount-mcp",
        (f"{WORK}/money/main.bean", "--transport", "stdio"),
        requires=_BEANCOUNT[1:],
    ),
    RealServer("pdf", "@sylphx/pdf-reader-mcp@2.4.0", "pdf-reader-mcp"),
    RealServer(
        "notes",
        "obsidian-mcp-server==0.2.0",
        "obsidian-mcp",
        env={"HOME": f"{WORK}/home"},
        requires=("mcp<2",),
    ),
    RealServer("drawio", "drawio-mcp@1.6.0", "drawio-mcp"),
    RealServer("images", _PICTURES[0], "farshid-mcp-imageprocessing", requires=_PICTURES[1:]),
)
_OTHERS = ("filesystem", "git", "time", "memory", "fetch", "sqlite", "notion", "github")
#: The files of the tasks are of no concern to the server of files.
_DOCUMENTS = (f"{WORK}/documents",)
SERVERS_OF_THE_TRIAL = (
    *_TEN,
    *(
        replace(server, args=_DOCUMENTS) if server.name == "filesystem" else server
        for server in SERVERS
        if server.name in _OTHERS
    ),
)
#: A server that lists two tools and never answers a call.
_SILENT = """
import json, sys
path, width = {"path": {"type": "string"}}, {"width": {"type": "integer"}}
save = {"save_as": {"type": "string"}}
tools = [
    {"name": "scale_photo", "description": "Scale a photo to a width in pixels and save the copy.",
     "inputSchema": {"type": "object", "properties": path | width | save,
                     "required": ["path", "width", "save_as"]}},
    {"name": "photo_details", "description": "Size, date and camera of a photo.",
     "inputSchema": {"type": "object", "properties": path, "required": ["path"]}},
]
for line in sys.stdin:
    message = json.loads(line)
    method, answer = message.get("method"), {}
    if "id" not in message or method == "tools/call":
        continue
    if method == "initialize":
        answer["result"] = {"protocolVersion": message["params"]["protocolVersion"],
                            "capabilities": {"tools": {}},
                            "serverInfo": {"name": "photos", "version": "1"}}
    elif method == "tools/list":
        answer["result"] = {"tools": tools}
    else:
        answer["error"] = {"code": -32601, "message": "Method not found"}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""
#: Variable that the server of mail needs, and that nobody sets.
UNSET_VARIABLE = "TRIAL_MAIL_PASSWORD"
CANNOT_ANSWER = ("mail", "photos")
#: How many of the tasks no tool can do.
IMPOSSIBLE = 2

_TODO = """\
(B) 2026-11-02 Call the roofer +house @phone
2026-11-03 Order tulip bulbs +garden
(C) 2026-11-05 Sharpen the spade +garden @shed
2026-11-08 Book the train to Bergen +trip
2026-11-09 Rake the leaves +garden
(A) 2026-11-10 Renew the passport +trip @errand
2026-11-12 Write about the garden fence +newsletter
"""
_BOARD = """\
# Project Kanban

## BACKLOG
*   [ ] Dark theme for the shop - customers asked for it

## TODO
*   [ ] Template for invoices - with the new address
*   [ ] Invoice numbers per year - wish of the accountant

## DOING
*   [ ] Faster search - three seconds are too long
*   [ ] Newsletter for December

## REVIEW
*   [ ] Photos of the new lamps

## DONE
*   [x] Move to the new server
"""
#: Authors, title and year of each entry of the bibliography.
_ENTRIES = {
    "bell2019tides": ("Bell, Ada and Moe, Jon", "Tides in narrow fjords", 2019),
    "okafor2020salt": ("Okafor, Ines", "Salt and silence", 2020),
    "strand2018ice": ("Strand, Per", "Ice on the inner lakes", 2018),
    "haugen2021kelp": ("Haugen, Siri and Okafor, Ines and Lie, Tor", "Kelp after storms", 2021),
    "lie2017otters": ("Lie, Tor", "Otters and people", 2017),
    "moe2022review": ("Moe, Jon", "On the work of Okafor: a review", 2022),
    "dahl2016sand": ("Dahl, Eva and Bell, Ada", "Where the sand goes", 2016),
    "lie2023reefs": ("Lie, Tor and Okafor, Ines", "Cold reefs", 2023),
    "strand2020maps": ("Strand, Per and Dahl, Eva", "Old maps, new coasts", 2020),
    "okafor2024light": ("Okafor, Ines and Bell, Ada", "Light at depth", 2024),
    "haugen2015birds": ("Haugen, Siri", "Birds of the skerries", 2015),
    "bell2025wind": ("Bell, Ada", "Wind and wave height", 2025),
}
_EVENTS = (
    ("Dentist", "20261203T081500", "20261203T090000", ""),
    ("Inspection of the flat", "20261217T100000", "20261217T110000", "The landlord comes himself."),
    ("Inspection of the car", "20261209T073000", "20261209T083000", "Bring the papers."),
    ("Lunch with the landlord's lawyer", "20261111T120000", "20261111T130000", ""),
    ("Christmas concert", "20261219T180000", "20261219T200000", "Rows 4 and 5."),
    ("Flight to Lisbon", "20270105T064000", "20270105T111000", ""),
)
_LEDGER = """\
option "title" "Household"
option "operating_currency" "EUR"
2026-01-01 open Assets:Bank EUR
2026-01-01 open Assets:Cash EUR
2026-01-01 open Equity:Opening EUR
2026-01-01 open Expenses:Food:Groceries EUR
2026-01-01 open Expenses:Food:Restaurant EUR
2026-01-01 open Expenses:Culture:Books EUR
2026-01-01 open Expenses:Rent EUR

2026-01-01 * "Opening"
  Assets:Bank  9000.00 EUR
  Assets:Cash   400.00 EUR
  Equity:Opening
"""
_PAYMENTS = (
    ("2026-09-28", "Kiwi", "Expenses:Food:Groceries", "58.20"),
    ("2026-10-01", "Landlord", "Expenses:Rent", "850.00"),
    ("2026-10-03", "Kiwi", "Expenses:Food:Groceries", "61.45"),
    ("2026-10-10", "Trattoria", "Expenses:Food:Restaurant", "48.00"),
    ("2026-10-14", "Market", "Expenses:Food:Groceries", "23.90"),
    ("2026-10-22", "Kiwi", "Expenses:Food:Groceries", "70.05"),
    ("2026-10-31", "Market", "Expenses:Food:Groceries", "31.95"),
    ("2026-11-02", "Kiwi", "Expenses:Food:Groceries", "44.10"),
)
_NOTES = {
    "Furniture/Kitchen table.md": "---\ntags: [projekt, wood]\n---\n# Kitchen table\n\n"
    "Two metres by ninety centimetres.\nOak or ash?\n",
    "Furniture/Bench.md": "# Bench\n\nGoes with the table in the kitchen. #projekt\n",
    "Trips/Lisbon.md": "# Lisbon\n\nFlight on 5 January. #trip #projekt\n",
    "Daily/2026-11-20.md": "# 20 November\n\nAsked for prices of oak. The projektor is broken.\n",
}
#: Where the server of notes looks for the place of the vault.
_NOTES_SETTINGS = "home/.config/obsidian-mcp"
_STOCK = """
import openpyxl, sys
book = openpyxl.Workbook()
store = book.active
store.title = "Store"
for row in (("Article", "Pieces", "Price"), ("Screw", 900, 0.05), ("Bracket", 120, 1.4)):
    store.append(row)
ideas = book.create_sheet("Ideas")
for row in (("Title", "Why"), *(pair.split("|") for pair in sys.argv[2].split(";"))):
    ideas.append(row)
book.save(sys.argv[1])
"""
_IDEAS = {
    "Sell used lamps": "customers bring them back",
    "Label shelves": "new staff gets lost",
    "Gift cards": "asked for each December",
    "Repair evening": "fills the shop on Mondays",
    "Map of the shop": "for the web site",
}
_CELLS = """
import json, openpyxl, sys
sheet = openpyxl.load_workbook(sys.argv[1])["Store"]
print(json.dumps([[cell.value for cell in row] for row in sheet.iter_rows()]))
"""
#: Mean brightness of each picture; the ninth is the darkest, and not the smallest file.
_BRIGHTNESS = (120, 90, 201, 77, 64, 140, 58, 99, 31, 45, 180, 73)
_DRAW = """
import cv2, json, numpy, sys
folder, brightness = sys.argv[1], json.loads(sys.argv[2])
noise = numpy.random.default_rng(7)
for number, mean in enumerate(brightness, 1):
    picture = noise.integers(mean - 25, mean + 26, (90, 120, 3)).astype("uint8")
    cv2.imwrite(f"{folder}/shot-{number:02}.png", picture)
ramp = numpy.linspace(0, 255, 1200).astype("uint8")
cv2.imwrite(f"{folder}/harbour.png", numpy.repeat(numpy.tile(ramp, (900, 1))[..., None], 3, 2))
"""
_PRINT = """
import fpdf, json, sys
document = fpdf.FPDF()
document.set_font("Helvetica", size=10)
for title, text in json.loads(sys.stdin.read()):
    document.add_page()
    document.multi_cell(0, 6, title + "\\n\\n" + text)
document.output(sys.argv[1])
"""
_TRANSACTIONS = """
import json, sys
from beancount import loader
from beancount.core.data import Transaction
entries, errors, _ = loader.load_file(sys.argv[1])
print(json.dumps([len(errors), [
    [str(entry.date), f"{entry.payee} {entry.narration}",
     sorted([posting.account, str(posting.units)] for posting in entry.postings)]
    for entry in entries if isinstance(entry, Transaction)]]))
"""


def material(run: Path) -> None:
    """Put everything that the tasks need into `run/work` and `run/site`.

    Args:
        run: folder of the run, without these two.
    """
    work, site = run / "work", run / "site"
    fill(work)
    for folder in ("documents", "board", "money", "pictures", _NOTES_SETTINGS):
        (work / folder).mkdir(parents=True)
    site.mkdir()
    (work / "documents" / "readme.txt").write_text("Old papers of the shop.\n")
    settings = json.dumps({"vault_path": str(work / "vault")})
    (work / _NOTES_SETTINGS / "config.json").write_text(settings)
    (work / "todo.txt").write_text(_TODO)
    (work / "board" / "_kanban.md").write_text(_BOARD)
    (work / "library.bib").write_text("\n".join(map(_entry, _ENTRIES)))
    (site / "calendar.ics").write_bytes(_calendar().encode())
    payments = [
        f'{day} * "{payee}"\n  {account}  {amount} EUR\n  Assets:Bank\n'
        for day, payee, account, amount in _PAYMENTS
    ]
    (work / "money" / "main.bean").write_text("\n".join((_LEDGER, *payments)))
    for name, text in _NOTES.items():
        note = work / "vault" / name
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(text)
    ideas = ";".join(f"{title}|{why}" for title, why in _IDEAS.items())
    _with_package(_SHEETS, _STOCK, work / "stock.xlsx", ideas)
    _with_package(_PICTURES, _DRAW, work / "pictures", json.dumps(_BRIGHTNESS))
    _with_package(("fpdf2==2.8.9",), _PRINT, work / "handbook.pdf", given=json.dumps(_handbook()))


def _entry(key: str) -> str:
    authors, title, year = _ENTRIES[key]
    journal = "Journal of Cold Coasts"
    fields = {"author": authors, "title": title, "journal": journal, "year": str(year)}
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
    return "\n".join((f"@article{{{key},", *lines, "}", ""))


def _calendar() -> str:
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Household//EN"]
    for number, (title, start, end, text) in enumerate(_EVENTS, 1):
        lines += ["BEGIN:VEVENT", f"UID:event-{number}@home", "DTSTAMP:20261101T000000Z"]
        lines += [f"DTSTART;TZID=Europe/Oslo:{start}", f"DTEND;TZID=Europe/Oslo:{end}"]
        lines += [f"SUMMARY:{title}", f"DESCRIPTION:{text}", "END:VEVENT"]
    lines += ["BEGIN:VEVENT", "UID:choir@home", "DTSTAMP:20261101T000000Z", "SUMMARY:Choir"]
    lines += ["DTSTART;TZID=Europe/Oslo:20261105T190000", "DTEND;TZID=Europe/Oslo:20261105T210000"]
    lines += ["RRULE:FREQ=WEEKLY;UNTIL=20261220T000000Z", "END:VEVENT", "END:VCALENDAR", ""]
    return "\r\n".join(lines)


def _handbook() -> list[tuple[str, str]]:
    """Title and text of each page of the handbook: 20,000 characters, and twice that when read.

    The server of PDF files gives each page's text twice.
    """
    subjects = (
        "The staircase", "The laundry", "The bicycle cellar", "The yard", "The lift",
        "The waste room", "Heating", "Water", "Balconies", "Pets", "Noise", "Guests",
        "The roof terrace", "Parking", "Keys", "The letter boxes", "Moving in", "Moving out",
        "Smoke detectors", "The workshop", "The guest flat", "Insurance", "The caretaker",
        "The board of the house",
    )  # fmt: skip
    rules = (
        "{subject}: the rules in this part hold for all who live in the house and for guests.",
        "Who finds damage reports it to the caretaker on the same day, with place and picture.",
        "Between ten in the evening and seven in the morning only what is necessary is done here.",
        "Repairs are ordered by the caretaker alone; bills of others are not paid by the house.",
        "A fee of {fee} kroner is due if something has to be cleaned or put away for somebody.",
        "Changes need the written consent of the board, which answers within {days} days.",
        "The plan of the year hangs beside the door and names who is responsible in which week.",
        "Children below {age} years are here with a grown-up person; this is no reproach to them.",
        "What stands here without a name and a date is kept for {days} days and then given away.",
        "Complaints are made in writing; the caretaker answers in a week, the board in a month.",
    )
    pages = []
    for number, subject in enumerate(subjects, 1):
        values = {"subject": subject, "fee": 150 + 7 * number, "days": 10 + number, "age": 6}
        lines = [rule.format(**values) for rule in rules]
        if subject == "Keys":
            lines.insert(9, "A lost key of the storage room costs 385 kroner; a lost key of a flat,"
                            " 1,240 kroner with the new lock.")  # fmt: skip
        if subject == "Moving out":
            lines.insert(4, "All keys are given back; a missing one is charged as a lost key.")
        pages.append((f"{number}. {subject}", "\n".join(lines)))
    return pages


def configuration(work: Path) -> dict[str, Any]:
    """Entries under `mcpServers`; `{site}` in them stands for the address of the web site.

    Args:
        work: folder that the servers may read and write.

    Raises:
        AssertionError: a package is missing and cannot be installed.
    """
    found, missing = entries(SERVERS_OF_THE_TRIAL, work)
    if missing:
        raise AssertionError(f"the trial needs all its servers: {missing}")
    password = f"${{{UNSET_VARIABLE}}}"
    mail = {"command": "npx", "args": ["-y", "mcp-mail-server"], "env": {"EMAIL_PASS": password}}
    return {
        **found,
        "mail": mail,
        "photos": {"command": sys.executable, "args": ["-c", _SILENT]},
    }


@dataclass(frozen=True, slots=True)
class Task:
    """What a user asks for, and whether it was done.

    Args:
        text: for the model; `{work}` is replaced.
        check: true if it was done; takes the folder and the model's answer.
    """

    text: str
    check: Callable[[Path, str], bool]


def _garden(work: Path, _: str) -> bool:
    # The server of the list removes what it ticked off before from the file.
    lines = (work / "todo.txt").read_text().splitlines()
    to_do = [line for line in lines if not line.startswith("x ")]
    others = [line for line in _TODO.splitlines() if "+garden" not in line.split()]
    stays = all(any(line.startswith(other) for line in to_do) for other in others)
    return stays and not any("+garden" in line.split() for line in to_do)


def _invoice_card(work: Path, answer: str) -> bool:
    columns = _columns(work)
    titles = [line.partition(" - ")[0] for line in columns["DOING"]]
    is_moved = titles.count("Template for invoices") == 1 and len(columns["TODO"]) == 1
    return is_moved and len(titles) == 3 and re.search(r"\b(3|three)\b", answer.lower()) is not None


def _ideas(work: Path, _: str) -> bool:
    cards = [tuple(line.partition(" - ")[::2]) for line in _columns(work)["BACKLOG"]]
    return len(cards) == 1 + len(_IDEAS) and set(_IDEAS.items()) <= set(cards)


def _columns(work: Path) -> dict[str, list[str]]:
    """Column of the board to its cards, as title, ` - ` and description."""
    columns: dict[str, list[str]] = {}
    for line in (work / "board" / "_kanban.md").read_text().splitlines():
        if line.startswith("## "):
            columns[line[3:].strip()] = []
        elif columns and (card := re.match(r"\s*[*-]\s+\[.\]\s+(.*\S)", line)):
            columns[list(columns)[-1]].append(card[1])
    return columns


def _okafor(work: Path, _: str) -> bool:
    keys = re.findall(r"@\w+\{([^,]+),", (work / "okafor.bib").read_text())
    return sorted(keys) == sorted(key for key in _ENTRIES if "Okafor" in _ENTRIES[key][0])


def _kitchen(work: Path, _: str) -> bool:
    lines = (work / "todo.txt").read_text().splitlines()
    return sum("Clean the kitchen" in line and "due:2026-12-16" in line for line in lines) == 1


def _store(work: Path, _: str) -> bool:
    rows = json.loads(_with_package(_SHEETS, _CELLS, work / "stock.xlsx"))
    rows = [row for row in rows if any(cell is not None for cell in row)]
    return rows[3:] == [["Clamp", 40, 3.2], ["Hinge", 15, 1.75]]


def _books(work: Path, _: str) -> bool:
    ledger = work / "money" / "main.bean"
    errors, transactions = json.loads(_with_package(_BEANCOUNT, _TRANSACTIONS, ledger))
    wanted = [["Assets:Cash", "-42.50 EUR"], ["Expenses:Culture:Books", "42.50 EUR"]]
    new = [each for each in transactions if each[0] == "2026-11-20"]
    return errors == 0 and len(new) == 1 and new[0][2] == wanted and "Norli" in new[0][1]


def _tags(work: Path, _: str) -> bool:
    text = "\n".join(path.read_text() for path in (work / "vault").rglob("*.md"))
    old = re.findall(r"\bprojekt\b", text)
    return not old and len(re.findall(r"\bproject\b", text)) == 3 and "projektor" in text


def _oak(work: Path, _: str) -> bool:
    lines = (work / "vault" / "Furniture" / "Kitchen table.md").read_text().split("\n")
    return [line for line in lines if line][-2:] == ["Oak or ash?", "Decision: oak, oiled."]


def _flow(work: Path, _: str) -> bool:
    xml = _diagram((work / "flow.drawio.svg").read_text())
    cells = re.findall(r"<mxCell [^>]*>", xml)
    values = [dict(re.findall(r'(\w+)="([^"]*)"', cell)) for cell in cells]
    titles = {cell["id"]: cell.get("value", "") for cell in values if cell.get("vertex") == "1"}
    edges = {
        (titles.get(cell.get("source", "")), titles.get(cell.get("target", "")))
        for cell in values
        if cell.get("edge") == "1"
    }
    boxes = {title for title in titles.values() if title}
    wanted = {("Order", "Packing"), ("Packing", "Shipping")}
    return boxes == {"Order", "Packing", "Shipping"} and edges == wanted


def _diagram(picture: str) -> str:
    """The XML of the diagram in a picture of draw.io, which may have it deflated."""
    content = html.unescape("".join(re.findall(r'content="([^"]*)"', picture)[:1]))
    for packed in re.findall(r"<diagram[^>]*>([^<]+)</diagram>", content):
        if packed.strip():
            content += unquote(zlib.decompress(base64.b64decode(packed), -15).decode())
    return content


def _small_picture(work: Path, _: str) -> bool:
    header = (work / "harbour-small.png").read_bytes()[:24]
    return struct.unpack(">II", header[16:24]) == (400, 300)


def _mail(_: Path, answer: str) -> bool:
    return UNSET_VARIABLE.lower() in answer.lower()


TASKS = (
    Task(
        "Everything on my to-do list that belongs to the project garden is done. Tick it off. All"
        " else stays open.",
        _garden,
    ),
    Task(
        "On the board of the project I now begin with the template for invoices: its card belongs"
        " where the cards in progress are. How many cards are in progress then? The answer is the"
        " number.",
        _invoice_card,
    ),
    Task(
        "The bibliography {work}/library.bib has papers of several authors. Put those that Okafor"
        " wrote, alone or with others, into the new file {work}/okafor.bib. Do this in one script"
        " with run_code.",
        _okafor,
    ),
    Task(
        "The calendar says on which day of December 2026 my flat is inspected. Put `Clean the"
        " kitchen` on my to-do list, due on the day before.",
        _kitchen,
    ),
    Task(
        "New in the store, for the sheet `Store` of {work}/stock.xlsx: Clamp, 40 pieces, at 3.20"
        " each; Hinge, 15 pieces, at 1.75 each. Add them below the others.",
        _store,
    ),
    Task(
        "How much did I spend on groceries in October 2026? My ledger knows it. The answer is the"
        " sum.",
        lambda _, answer: "187.35" in answer.replace(",", "."),
    ),
    Task(
        "On 20 November 2026 I bought books at Norli for 42.50 EUR and paid in cash. Enter that"
        " into my ledger.",
        _books,
    ),
    Task(
        "In my notes the tag `projekt` is misspelt everywhere. It should be `project`.",
        _tags,
    ),
    Task(
        "Write this as a new last line below my note about the kitchen table: `Decision: oak,"
        " oiled.`",
        _oak,
    ),
    Task(
        "Draw a diagram with three boxes, Order, Packing and Shipping, an arrow from Order to"
        " Packing and one from Packing to Shipping. Its file is {work}/flow.drawio.svg.",
        _flow,
    ),
    Task(
        "I need {work}/pictures/harbour.png smaller: a copy 400 pixels wide, with the same"
        " proportions, as {work}/harbour-small.png.",
        _small_picture,
    ),
    Task(
        "Which of the twelve pictures shot-01.png to shot-12.png in {work}/pictures is the darkest"
        " one? Find out in one script with run_code. The answer is the name of the file.",
        lambda _, answer: re.findall(r"shot-(\d\d)", answer) == ["09"],
    ),
    Task(
        "What does a lost key of the storage room cost, by the house rules in {work}/handbook.pdf?"
        " The answer is the amount.",
        lambda _, answer: "385" in answer,
    ),
    Task(
        "The sheet `Ideas` of {work}/stock.xlsx has five ideas. Each shall become a card in the"
        " backlog of the board: its title, and why it is worth doing as the description. Do this in"
        " one script with run_code.",
        _ideas,
    ),
    Task(
        "Mail `Dinner at seven?` to ines@example.com. If it cannot be sent now, the answer says"
        " what exactly I have to mend on my side.",
        _mail,
    ),
    Task(
        "Water the tomatoes on the balcony for five minutes. If no tool can do that, the answer is"
        " `no tool`.",
        lambda _, answer: "no tool" in answer.lower(),
    ),
)
#: Names this set of tasks in the record.
TASK_SET = hashlib.sha256("\n".join(task.text for task in TASKS).encode()).hexdigest()[:8]


def task_texts(work: Path) -> list[str]:
    """The tasks for the model, in order.

    Args:
        work: folder with the material.
    """
    return [task.text.replace(WORK, str(work)) for task in TASKS]


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
    except (OSError, KeyError, ValueError):  # a file is missing, or part of it
        return False


def _with_package(
    package: tuple[str, ...], program: str, path: Path, *words: str, given: str = ""
) -> str:
    """What a Python program prints that uses the libraries of a package."""
    command = [str(pypi(*package) / "python"), "-c", program, str(path), *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, input=given)
    return done.stdout
