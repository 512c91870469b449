"""Scripts as a model writes them from signatures alone, and what each must give.

They were written before they were run. Where a reasonable script failed, codemode/ was mended or
the page names the limit.
"""

# ruff: noqa: E501 - models write long lines

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Servers that `make test` has; what needs another runs in `make test-long`.
SMALL_SERVERS = frozenset({"filesystem", "git", "time"})


@dataclass(frozen=True, slots=True)
class Right:
    """A script and its result.

    Args:
        name: what it shows.
        servers: that it calls.
        code: the script; `{work}` is the folder that the servers share.
        result: of the last expression.
        output: that must be printed, among other things.
    """

    name: str
    servers: str
    code: str
    result: Any
    output: str = ""

    @property
    def is_small(self) -> bool:
        """Whether the three small servers are enough."""
        return SMALL_SERVERS.issuperset(self.servers.split())


ORDERS = [
    {
        "id": at,
        "customer": {"name": f"customer {at % 7}", "city": ("Oslo", "Bergen", "Tromsø")[at % 3]},
        "lines": [{"sku": f"A-{at % 5}", "amount": 1 + at % 4, "price": 2.5 * (at % 6)}],
        "paid": at % 4 != 0,
        "at": f"2026-03-{1 + at % 28:02}T10:{at % 60:02}:00+00:00",
    }
    for at in range(200)
]
LOG = [
    f"2026-03-01 12:{at // 60:02}:{at % 60:02} "
    + (f"ERROR worker-{at % 3}: job {at} failed" if at % 50 == 0 else f"INFO job {at} done")
    for at in range(600)
]
_TOTAL = sum(line["amount"] * line["price"] for order in ORDERS for line in order["lines"])


def write_data(work: Path) -> None:
    """Files that the scripts read, the same bytes each time."""
    folder = work / "data"
    folder.mkdir()
    (folder / "orders.json").write_text(json.dumps(ORDERS), encoding="utf-8")
    (folder / "app.log").write_text("\n".join(LOG) + "\n", encoding="utf-8")
    held = io.StringIO()
    rows = csv.writer(held, lineterminator="\n")
    rows.writerow(["name", "zone", "hours"])
    rows.writerows([("Ada", "Europe/Oslo", 30), ("Bo", "Asia/Tokyo", 12), ("Cy", "UTC", 41)])
    (folder / "people.csv").write_text(held.getvalue(), encoding="utf-8")


RIGHT = (
    Right(
        "reads, filters and counts",
        "filesystem",
        """
page = await filesystem.read_text_file(path="{work}/data/app.log")
errors = [line for line in page["content"].splitlines() if "ERROR" in line]
print(f"{len(errors)} errors")
{"errors": len(errors), "first": errors[0], "last": errors[-1]}
""",
        {"errors": 12, "first": LOG[0], "last": LOG[550]},
        "12 errors\n",
    ),
    Right(
        "groups with a regular expression",
        "filesystem",
        r"""
import re
from collections import Counter, defaultdict

text = (await filesystem.read_text_file(path="{work}/data/app.log"))["content"]
pattern = re.compile(r"ERROR (?P<worker>[\w-]+): job (?P<job>\d+) failed")
by_worker = defaultdict(list)
for match in pattern.finditer(text):
    by_worker[match.group("worker")].append(int(match.group("job")))
counts = Counter({worker: len(jobs) for worker, jobs in by_worker.items()})
[counts.most_common(1)[0][1], dict(by_worker)]
""",
        [
            4,
            {
                f"worker-{one}": [at for at in range(0, 600, 50) if at % 3 == one]
                for one in (0, 2, 1)
            },
        ],
    ),
    Right(
        "reads JSON, sums nested objects and sorts",
        "filesystem",
        """
import json

orders = json.loads((await filesystem.read_text_file(path="{work}/data/orders.json"))["content"])
totals: dict[str, float] = {}
for order in orders:
    value = sum(line["amount"] * line["price"] for line in order["lines"])
    city = order["customer"]["city"]
    totals[city] = totals.get(city, 0) + value
ranked = sorted(totals.items(), key=lambda item: item[1], reverse=True)
print(json.dumps(ranked, ensure_ascii=False))
{"total": sum(totals.values()), "best": ranked[0][0], "unpaid": len([o for o in orders if not o["paid"]])}
""",
        {"total": _TOTAL, "best": "Tromsø", "unpaid": 50},
        "Tromsø",
    ),
    Right(
        "reads dates",
        "filesystem",
        """
import json
from datetime import datetime, timedelta, timezone

orders = json.loads((await filesystem.read_text_file(path="{work}/data/orders.json"))["content"])
start = datetime(2026, 3, 10, tzinfo=timezone.utc)
end = start + timedelta(days=7)
week = [o for o in orders if start <= datetime.fromisoformat(o["at"]) < end]
latest = max(week, key=lambda o: o["at"])
[len(week), datetime.fromisoformat(latest["at"]).strftime("%d.%m.%Y")]
""",
        [sum(9 <= at % 28 < 16 for at in range(200)), "16.03.2026"],
    ),
    Right(
        "reads CSV and asks another server for each row",
        "filesystem time",
        """
import asyncio
import csv

text = (await filesystem.read_text_file(path="{work}/data/people.csv"))["content"]
people = list(csv.DictReader(text.splitlines()))
results = await asyncio.gather(*[
    time_.convert_time(source_timezone="UTC", target_timezone=p["zone"], time="12:00") for p in people
])
{p["name"]: r["target"]["datetime"][11:16] for p, r in zip(people, results) if p["zone"] != "Europe/Oslo"}
""",
        {"Bo": "21:00", "Cy": "12:00"},
    ),
    Right(
        "pages through a file from its end",
        "filesystem",
        """
size = 100
found = None
tail = 0
while found is None:
    tail += size
    lines = (await filesystem.read_text_file(path="{work}/data/app.log", tail=tail))["content"].splitlines()
    for line in reversed(lines):
        if "ERROR" in line:
            found = line
            break
    if len(lines) < tail:
        break
found
""",
        LOG[550],
    ),
    Right(
        "goes on after an error",
        "filesystem",
        """
paths = ["{work}/data/people.csv", "{work}/data/missing.csv", "/etc/passwd"]
report = []
for path in paths:
    try:
        page = await filesystem.read_text_file(path=path)
        report.append({"file": path.rsplit("/", 1)[-1], "lines": len(page["content"].splitlines())})
    except RuntimeError as error:
        reason = "missing" if "ENOENT" in str(error) else "denied" if "denied" in str(error) else "?"
        report.append({"file": path.rsplit("/", 1)[-1], "error": reason})
report
""",
        [
            {"file": "people.csv", "lines": 4},
            {"file": "missing.csv", "error": "missing"},
            {"file": "passwd", "error": "denied"},
        ],
    ),
    Right(
        "gathers what may fail",
        "filesystem",
        """
import asyncio

async def read(name: str) -> dict:
    try:
        page = await filesystem.read_text_file(path=f"{work}/data/{name}")
        return {"name": name, "size": len(page["content"])}
    except Exception as e:
        return {"name": name, "error": type(e).__name__}

results = await asyncio.gather(*(read(n) for n in ["people.csv", "nothing.txt"]))
[r for r in results if "error" in r]
""",
        [{"name": "nothing.txt", "error": "RuntimeError"}],
    ),
    Right(
        "tries again",
        "filesystem",
        """
import asyncio

async def retry(call, attempts=3, **arguments):
    last = None
    for attempt in range(1, attempts + 1):
        try:
            return await call(**arguments)
        except RuntimeError as error:
            last = error
            await asyncio.sleep(0.01 * attempt)
    return f"gave up after {attempts}: {last}"

good = await retry(filesystem.read_text_file, path="{work}/notes/plan.txt")
bad = await retry(filesystem.read_text_file, attempts=2, path="{work}/notes/none.txt")
[good["content"].count("line"), bad[:15]]
""",
        [3, "gave up after 2"],
    ),
    Right(
        "walks a tree",
        "filesystem",
        """
import json

tree = json.loads((await filesystem.directory_tree(path="{work}", excludePatterns=["**/.git"]))["content"])

def files(nodes, prefix=""):
    found = []
    for node in nodes:
        path = f"{prefix}{node['name']}"
        if node["type"] == "directory":
            found += files(node.get("children", []), path + "/")
        else:
            found.append(path)
    return found

sorted(path for path in files(tree) if not path.startswith("made"))
""",
        [
            "data.db",
            "data/app.log",
            "data/orders.json",
            "data/people.csv",
            "notes/picture.png",
            "notes/plan.txt",
            "repo/code.py",
            "repo/more.py",
        ],
    ),
    Right(
        "lists, then reads what it listed",
        "filesystem",
        """
listing = (await filesystem.list_directory(path="{work}/repo"))["content"]
names = [line.split("] ", 1)[1] for line in listing.splitlines() if line.startswith("[FILE]")]
contents = {}
for name in sorted(names):
    contents[name] = (await filesystem.read_text_file(path=f"{work}/repo/{name}"))["content"].strip()
contents
""",
        {"code.py": "answer = 43", "more.py": "more = True"},
    ),
    Right(
        "writes a report and reads it again",
        "filesystem",
        """
lines = ["# Report", ""]
text = (await filesystem.read_text_file(path="{work}/data/people.csv"))["content"]
for row in text.strip().split("\\n")[1:]:
    name, zone, hours = row.split(",")
    lines.append(f"- {name:<4}|{int(hours):>4} h")
await filesystem.create_directory(path="{work}/made")
await filesystem.write_file(path="{work}/made/report.md", content="\\n".join(lines) + "\\n")
await filesystem.edit_file(path="{work}/made/report.md", edits=[{"oldText": "# Report", "newText": "# Hours"}])
(await filesystem.read_text_file(path="{work}/made/report.md", head=3))["content"]
""",
        "# Hours\n\n- Ada |  30 h",
    ),
    Right(
        "decodes a picture",
        "filesystem",
        """
import base64

blocks = (await filesystem.read_media_file(path="{work}/notes/picture.png"))["content"]
raw = base64.b64decode(blocks[0]["data"])
{"bytes": len(raw), "is_png": raw[:8] == b"\\x89PNG\\r\\n\\x1a\\n", "type": blocks[0]["mimeType"]}
""",
        {"bytes": 72, "is_png": True, "type": "image/png"},
    ),
    Right(
        "reads a text that has no schema",
        "git",
        r"""
import re

log = await git.git_log(repo_path="{work}/repo", max_count=5)
commits = []
for block in log.split("Commit: ")[1:]:
    match = re.search(r"Author: (.+)\nDate: (.+)\nMessage: (.+)", block)
    if match:
        commits.append({"author": match.group(1), "date": match.group(2)[:10], "message": match.group(3)})
commits
""",
        [{"author": "Tester", "date": "2026-01-02", "message": "first"}],
    ),
    Right(
        "chains two servers",
        "git filesystem",
        """
diff = await git.git_diff_unstaged(repo_path="{work}/repo")
changed = [line[len("+++ b/"):] for line in diff.splitlines() if line.startswith("+++ b/")]
sizes = {}
for name in changed:
    info = (await filesystem.get_file_info(path=f"{work}/repo/{name}"))["content"]
    fields = dict(line.split(": ", 1) for line in info.splitlines() if ": " in line)
    sizes[name] = int(fields["size"])
sizes
""",
        {"code.py": 12},
    ),
    Right(
        "two servers at once",
        "git time",
        """
import asyncio

status, now = await asyncio.gather(
    git.git_status(repo_path="{work}/repo"),
    time_.get_current_time(timezone="UTC"),
)
{"untracked": "more.py" in status, "zone": now["timezone"], "dst": now["is_dst"]}
""",
        {"untracked": True, "zone": "UTC", "dst": False},
    ),
    Right(
        "compares times",
        "time",
        """
from datetime import datetime

r = await time_.convert_time(source_timezone="America/New_York", target_timezone="Asia/Kolkata", time="09:30")
source = datetime.fromisoformat(r["source"]["datetime"])
target = datetime.fromisoformat(r["target"]["datetime"])
assert source == target, "the same moment"
minutes = (target.utcoffset() - source.utcoffset()).total_seconds() / 60
minutes in (570.0, 630.0) and r["time_difference"].startswith("+")
""",
        True,
    ),
    Right(
        "a main function that is run",
        "time",
        """
import asyncio

async def main():
    zones = ["Europe/Oslo", "Asia/Tokyo"]
    times = {}
    for zone in zones:
        result = await time_.get_current_time(timezone=zone)
        times[zone] = result["timezone"]
    return times

asyncio.run(main())
""",
        {"Europe/Oslo": "Europe/Oslo", "Asia/Tokyo": "Asia/Tokyo"},
    ),
    Right(
        "return in place of a last expression",
        "filesystem",
        """
page = await filesystem.read_text_file(path="{work}/data/app.log")
for number, line in enumerate(page["content"].splitlines(), start=1):
    if "ERROR" in line and "worker-1" in line:
        return {"line": number, "text": line}
return None
""",
        {"line": 101, "text": LOG[100]},
    ),
    Right(
        "a long result, whole inside",
        "filesystem",
        """
import json

text = (await filesystem.read_text_file(path="{work}/data/orders.json"))["content"]
print(len(text))
len(json.loads(text))
""",
        200,
        str(len(json.dumps(ORDERS))),
    ),
    Right(
        "arguments in a dict",
        "filesystem",
        """
arguments = {"path": "{work}/data/app.log"}
first = await filesystem.read_text_file(head=1, **arguments)
options = {"path": "{work}/data/app.log", "tail": 2}
last = await filesystem.read_text_file(**options)
[first["content"], last["content"].strip()]
""",
        [LOG[0], LOG[-1]],
    ),
    Right(
        "creates items built in steps",
        "filesystem memory",
        """
import re

text = (await filesystem.read_text_file(path="{work}/data/app.log"))["content"]
seen = {}
for line in text.splitlines():
    match = re.search(r"ERROR (worker-\\d)", line)
    if match:
        seen.setdefault(match.group(1), []).append(line[11:19])
entities = []
for worker, times in sorted(seen.items()):
    entities.append({"name": worker, "entityType": "worker", "observations": [f"failed at {t}" for t in times]})
made = await memory.create_entities(entities=entities)
[(e["name"], len(e["observations"])) for e in made["entities"]]
""",
        [["worker-0", 4], ["worker-1", 4], ["worker-2", 4]],
    ),
    Right(
        "relations with a reserved word as a key",
        "memory",
        """
names = ["alpha", "beta", "gamma"]
await memory.create_entities(entities=[{"name": n, "entityType": "step", "observations": []} for n in names])
await memory.create_relations(relations=[
    {"from": a, "to": b, "relationType": "comes before"} for a, b in zip(names, names[1:])
])
graph = await memory.open_nodes(names=names)
sorted(f'{r["from"]} > {r["to"]}' for r in graph["relations"])
""",
        ["alpha > beta", "beta > gamma"],
    ),
    Right(
        "copies items of one tool to another",
        "memory",
        """
await memory.create_entities(entities=[{"name": "old", "entityType": "note", "observations": ["a", "b"]}])
found = await memory.search_nodes(query="old")
copies = [{**e, "name": "copy of " + e["name"]} for e in found["entities"] if e["name"] == "old"]
await memory.create_entities(entities=copies)
(await memory.open_nodes(names=["copy of old"]))["entities"]
""",
        [{"name": "copy of old", "entityType": "note", "observations": ["a", "b"]}],
    ),
    Right(
        "a query for each row",
        "filesystem sqlite",
        """
import csv

people = list(csv.DictReader((await filesystem.read_text_file(path="{work}/data/people.csv"))["content"].splitlines()))
await sqlite.create_table(query="CREATE TABLE people (name TEXT, zone TEXT, hours INTEGER)")
for person in people:
    await sqlite.write_query(
        query=f"INSERT INTO people VALUES ('{person['name']}', '{person['zone']}', {int(person['hours'])})"
    )
await sqlite.read_query(query="SELECT SUM(hours) AS total, COUNT(*) AS n FROM people")
""",
        "[{'total': 83, 'n': 3}]",
    ),
    Right(
        "a text that looks like Python",
        "sqlite",
        """
import json

raw = await sqlite.read_query(query="SELECT name, people FROM cities ORDER BY people")
rows = json.loads(raw.replace("'", '"'))
{row["name"]: row["people"] for row in rows}
""",
        {"Bergen": 291000, "Oslo": 717000},
    ),
    Right(
        "three servers",
        "sqlite memory everything",
        """
import json

rows = json.loads((await sqlite.read_query(query="SELECT * FROM cities")).replace("'", '"'))
a, b = [row["people"] for row in rows]
answer = await everything.get_sum(a=a, b=b)
await memory.create_entities(entities=[
    {"name": "cities", "entityType": "sum", "observations": [answer]}
])
(await memory.open_nodes(names=["cities"]))["entities"][0]["observations"]
""",
        ["The sum of 291000 and 717000 is 1008000."],
    ),
    Right(
        "structured results and a choice",
        "everything",
        """
cities = ["New York", "Chicago", "Los Angeles"]
weather = {}
for city in cities:
    weather[city] = await everything.get_structured_content(location=city)
warmest = max(weather, key=lambda city: weather[city]["temperature"])
coldest = min(cities, key=lambda city: weather[city]["temperature"])
[warmest, coldest, all(w["humidity"] > 0 for w in weather.values())]
""",
        ["Los Angeles", "New York", True],
    ),
    Right(
        "a list of blocks",
        "everything",
        """
blocks = await everything.get_resource_links(count=3)
links = [b for b in blocks if b["type"] == "resource_link"]
texts = [b["text"] for b in blocks if b.get("text")]
[len(links), len(texts) > 0, links[0]["uri"].split(":")[0]]
""",
        [3, True, "demo"],
    ),
    Right(
        "forty calls at once",
        "everything",
        """
import asyncio

answers = await asyncio.gather(*[everything.echo(message=f"number {i}") for i in range(40)])
numbers = [int(a.split()[-1]) for a in answers]
numbers == list(range(40)) and sum(numbers)
""",
        780,
    ),
    Right(
        "waits for a slow tool, with an own class for what it finds",
        "everything",
        """
class Watch:
    def __init__(self):
        self.done = []

    def note(self, text: str) -> None:
        self.done.append(text.split(".")[0])

watch = Watch()
for i in range(2):
    watch.note(await everything.trigger_long_running_operation(duration=0.2, steps=1))
watch
""",
        {"done": ["Long running operation completed"] * 2},
    ),
    Right(
        "match, walrus, sets and slices",
        "git filesystem",
        """
status = await git.git_status(repo_path="{work}/repo")
states = set()
for line in status.splitlines():
    match line.strip().split(":"):
        case ["modified", name]:
            states.add(("modified", name.strip()))
        case [other] if other.endswith(".py"):
            states.add(("untracked", other))
at, parts = 0, []
text = (await filesystem.read_text_file(path="{work}/notes/plan.txt"))["content"]
while chunk := text[at : at + 12]:
    parts.append(chunk)
    at += 12
[sorted(states), "".join(parts) == text, text.split()[::-2]]
""",
        [[["modified", "code.py"], ["untracked", "more.py"]], True, ["line", "line", "line"]],
    ),
)
