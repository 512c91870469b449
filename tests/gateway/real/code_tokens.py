"""Tokens through the model for one task: call by call, and as a script. One run:

    python -m shortlist.tests.gateway.real.code_tokens

The filesystem server reads 5,000 log entries, and the memory server gets one entity for each
distinct error. A model that makes no mistake is played by this program; the gateway, the servers
and the client are real. Every message is recorded and counted once with cl100k_base. The result is
`lab/results/code_mode.json`.
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from shortlist.evals.report import Table
from shortlist.lab.publishing.record import Record, provenance, write_record
from shortlist.loaders.counting import bundled_counter

from .clients import Sdk2, sdk2
from .gateway_process import Setup, over_http
from .servers import SERVERS, entries

USED = ("filesystem", "git", "time", "memory")
FILES, LINES = 5, 1_000
#: What the errors say; the braces take numbers that differ from entry to entry.
ERRORS = (
    "payments: charge of order {} failed: card declined",
    "payments: charge of order {} failed: gateway timeout",
    "orders: no stock for article {}",
    "orders: order {} not found",
    "mail: message {} bounced",
    "search: shard {} unavailable",
    "search: query {} exceeded its time limit",
    "auth: token of user {} expired",
    "auth: user {} locked",
    "storage: no space left on volume {}",
    "storage: checksum of block {} is wrong",
    "export: job {} ran out of memory",
)
TOOLS = ["filesystem/list_directory", "filesystem/read_text_file", "memory/create_entities"]
SEARCHES = ("read the files of a folder of logs", "create an entity for each error")
SCRIPT = """
import re
from collections import Counter

folder = "{folder}"
listing = (await filesystem.list_directory(path=folder))["content"]
counts = Counter()
for line in listing.splitlines():
    name = line.removeprefix("[FILE] ")
    text = (await filesystem.read_text_file(path=f"{{folder}}/{{name}}"))["content"]
    for entry in text.splitlines():
        if " ERROR " in entry:
            counts[re.sub(r"\\d+", "N", entry.split(" ERROR ")[1])] += 1
made = await memory.create_entities(entities=[
    {{"name": text, "entityType": "error", "observations": [f"seen {{n}} times"]}}
    for text, n in sorted(counts.items())
])
len(made["entities"])
"""


def write_logs(folder: Path) -> dict[str, int]:
    """Log files with 5,000 entries, the same each time; each distinct error and its count."""
    folder.mkdir()
    chosen, seen = random.Random(7), Counter[str]()
    for file in range(FILES):
        lines = []
        for at in range(LINES):
            stamp = f"2026-01-0{file + 1}T{at // 60:02}:{at % 60:02}:{chosen.randrange(60):02}Z"
            number = chosen.randrange(100_000)
            if chosen.random() < 0.02:
                text = chosen.choice(ERRORS)
                seen[text.format("N")] += 1
                lines.append(f"{stamp} ERROR {text.format(number)}")
            else:
                took = chosen.randrange(400)
                lines.append(f"{stamp} INFO web: GET /orders/{number} answered 200 in {took} ms")
        (folder / f"app-{file + 1}.log").write_text("\n".join(lines) + "\n")
    return dict(seen)


@dataclass
class Recorded:
    """A client whose messages are counted, as a model writes and reads them."""

    client: Sdk2
    messages: list[dict[str, Any]] = field(default_factory=list)

    def note(self, sender: str, name: str, text: str) -> None:
        """Count one message."""
        tokens = bundled_counter().count(text)
        self.messages.append({"from": sender, "tool": name, "tokens": tokens})

    async def listed(self) -> None:
        """The definitions of the gateway's tools, which the model has before all else."""
        self.note("gateway", "tools/list", json.dumps(await self.client.tools()))

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """The text of a tool's result."""
        self.note("model", name, json.dumps({"name": name, "arguments": arguments}))
        result = await self.client.call(name, arguments)
        text = "\n".join(part["text"] for part in result["content"])
        assert not result.get("isError"), text
        self.note("gateway", name, text)
        return text

    async def tool(self, name: str, arguments: Mapping[str, Any]) -> str:
        """The whole text of a server's tool; what is too long is read in parts."""
        text = await self.call("call_tool", {"name": name, "arguments": arguments})
        found = re.search(r'\n\[[\d,]+ characters, .*read_result \{"id": "(\w+)"\}.*\]$', text)
        if found is None:
            return text
        parts = [text[: found.start()]]
        while not parts[-1].endswith("[end of the result]"):
            parts.append(await self.call("read_result", {"id": found[1]}))
        return "".join(part.removesuffix("\n[end of the result]") for part in map(_whole, parts))

    @property
    def tokens(self) -> int:
        """Of all messages."""
        return sum(one["tokens"] for one in self.messages)


def _whole(part: str) -> str:
    return re.sub(r"\n\[[\d,]+ characters left\]$", "", part)


async def call_by_call(model: Recorded, folder: Path) -> None:
    """Search, read the definitions, then one call after the other."""
    await model.listed()
    for query in SEARCHES:
        await model.call("search_tools", {"query": query})
    await model.call("get_tool_details", {"names": TOOLS})
    listing = await model.tool(TOOLS[0], {"path": str(folder)})
    counts: Counter[str] = Counter()
    for line in listing.splitlines():
        path = f"{folder}/{line.removeprefix('[FILE] ')}"
        for entry in (await model.tool(TOOLS[1], {"path": path})).splitlines():
            if " ERROR " in entry:
                counts[re.sub(r"\d+", "N", entry.split(" ERROR ")[1])] += 1
    made = [
        {"name": text, "entityType": "error", "observations": [f"seen {n} times"]}
        for text, n in sorted(counts.items())
    ]
    await model.tool(TOOLS[2], {"entities": made})


async def as_a_script(model: Recorded, folder: Path) -> None:
    """Search, read the signatures, look at the beginning of one file, then run one script."""
    await model.listed()
    for query in SEARCHES:
        await model.call("search_tools", {"query": query})
    await model.call("get_tool_details", {"names": TOOLS, "detail": "signature"})
    given = {"path": f"{folder}/app-1.log", "head": 20}
    await model.tool(TOOLS[1], given)
    held = json.loads(await model.call("run_code", {"code": SCRIPT.format(folder=folder)}))
    assert held["error"] is None, held


WAYS = {"call by call": call_by_call, "one script": as_a_script}


def measured(root: Path, *, install: bool) -> Iterator[tuple[str, Recorded]]:
    """Each way and its messages; both must leave the same entities behind.

    Args:
        root: an empty folder.
        install: whether missing packages are installed.

    Raises:
        LookupError: a server is missing.
    """
    for number, (way, run) in enumerate(WAYS.items()):
        work = root / str(number)
        work.mkdir(parents=True)
        wanted = write_logs(work / "logs")
        chosen = [one for one in SERVERS if one.name in USED]
        found, missing = entries(chosen, work, install=install)
        if missing:
            raise LookupError("; ".join(missing))
        own = {"pass_through": 0, "code": run is as_a_script}
        setup = Setup.write(root / f"home-{number}", found, own)
        with over_http(setup) as served:
            served.settle(200)
        recorded, made = anyio.run(_run, setup, work / "logs", run)
        assert made == {text: [f"seen {n} times"] for text, n in wanted.items()}
        yield way, recorded


async def _run(setup: Setup, folder: Path, run: Any) -> tuple[Recorded, dict[str, list[str]]]:
    async with sdk2(setup.command, setup.environment) as client:
        recorded = Recorded(client)
        await run(recorded, folder)
        graph = await client.call("call_tool", {"name": "memory/read_graph", "arguments": {}})
    made = graph["structuredContent"]["entities"]
    return recorded, {one["name"]: one["observations"] for one in made}


def main() -> None:
    """Measure, print and write the record."""
    with tempfile.TemporaryDirectory() as name:
        found = dict(measured(Path(name), install=True))
    rows = [
        (way, str(len(one.messages)), f"{one.tokens:,}", f"{one.messages[0]['tokens']:,}")
        for way, one in found.items()
    ]
    before, after = (one.tokens for one in found.values())
    rows.append(("times fewer", "", f"{before / after:.0f}", ""))
    table = Table(("way", "messages", "tokens", "of them the gateway's definitions"), tuple(rows))
    result = {
        "servers": list(USED),
        "entries": FILES * LINES,
        "errors": len(ERRORS),
        "times_fewer": round(before / after, 1),
        "messages": {way: one.messages for way, one in found.items()},
    }
    title = "Tokens of one task, call by call and as a script"
    words = ["python", "-m", "shortlist.tests.gateway.real.code_tokens"]
    write_record(Record("code_mode", title, table, result, provenance(words)))
    sys.stdout.write("\n".join(" | ".join(row) for row in rows) + "\n")


if __name__ == "__main__":
    main()
