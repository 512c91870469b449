"""Scripts as a model writes them from signatures alone, and what each must give.

They were written before they were run. Where a reasonable script failed, codemode/ was mended or
the page names the limit.
"""

# ruff: noqa: E501 - models write long lines

from __future__ import annotations

from .more_right_scripts import MORE
from .script_material import LOG, TOTAL, Right

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
        {"total": TOTAL, "best": "Tromsø", "unpaid": 50},
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
    *MORE,
)
