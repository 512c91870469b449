"""The second half of the right scripts."""

# ruff: noqa: E501 - models write long lines

from __future__ import annotations

import json

from .script_material import LOG, ORDERS, Right

MORE = (
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
        [3, True, "shortlist"],
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
