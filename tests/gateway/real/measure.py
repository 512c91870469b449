"""What the gateway adds to a call and to a search, and what its definitions cost. One run:

    python -m shortlist.tests.gateway.real.measure [--definitions] [SERVER ...]

It starts all real servers, or those named, compares the gateway with a direct call and with the
library in turn, and writes `lab/results/gateway.json` where all of them take part. With
`--definitions` it counts the definitions alone and keeps the recorded times: a busy machine has the
same definitions, but other times.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio

from shortlist import Engine, Tool
from shortlist.evals.report import Table
from shortlist.gateway.meta_tools.meta_tool_definitions import META_TOOL_NAMES
from shortlist.lab.bench.timing import WARM_UP, Latency, uncollected
from shortlist.lab.publishing.record import Record, provenance, read_record, write_record
from shortlist.loaders.counting import bundled_counter

from .checks import Front, Real, queries_for, real_servers
from .clients import sdk2
from .processes import descendants, processor_seconds
from .servers import SERVERS

_CALLS, _SEARCHES = 400, 300
_DEFINITIONS_ALONE = "--definitions"
#: Tools that answer at once, and what they are called with.
_QUICK: Mapping[str, dict[str, Any]] = {
    "everything/echo": {"message": "hello"},
    "filesystem/read_text_file": {"path": "{work}/notes/plan.txt"},
    "time/convert_time": {"source_timezone": "UTC", "time": "12:00", "target_timezone": "UTC"},
}

Asked = Callable[[int], Awaitable[object]]


async def _in_turn(one: Asked, other: Asked, count: int) -> tuple[list[float], list[float]]:
    """Milliseconds of two things, timed one after the other in changing order."""
    times: tuple[list[float], list[float]] = ([], [])
    for at in range(WARM_UP):
        await one(at)
        await other(at)
    with uncollected():
        for at in range(count):
            for which in (0, 1) if at % 2 else (1, 0):
                start = perf_counter()
                await (one, other)[which](at)
                times[which].append((perf_counter() - start) * 1e3)
    return times


async def _definitions(real: Real) -> dict[str, Any]:
    async with Front(real, "sdk2") as front:
        return _counted(real, await front.tools())


async def _measured(real: Real) -> dict[str, Any]:
    found: dict[str, Any] = {"call": {}}
    async with Front(real, "sdk2") as front:
        gateway = next(
            pid
            for pid, words in descendants(os.getpid()).items()
            if real.setup.command[-1] in words
        )
        for tool, given in _QUICK.items():
            server, _, name = tool.partition("/")
            if server not in real.entries:
                continue
            entry = real.entries[server]
            arguments = json.loads(json.dumps(given).replace("{work}", str(real.work)))
            through = {"name": tool, "arguments": arguments}
            command = [entry["command"], *entry["args"]]
            async with sdk2(command, entry["env"], Path(entry["cwd"])) as direct:
                used = processor_seconds(gateway)
                times = await _in_turn(
                    lambda _: direct.call(name, arguments),  # noqa: B023 - used at once
                    lambda _: front.call("call_tool", through),  # noqa: B023
                    _CALLS,
                )
            used = (processor_seconds(gateway) - used) / (_CALLS + WARM_UP) * 1e3
            found["call"][tool] = _compared("direct", "gateway", *times)
            found["call"][tool]["gateway_processor_ms"] = round(used, 2)
        found["search"] = await _search(real, front)
        found["definitions"] = _counted(real, await front.tools())
    return found


def _counted(real: Real, shown: list[dict[str, Any]]) -> dict[str, Any]:
    """Tokens of the definitions behind the gateway, and of those that it shows."""
    behind = [tool for tools in real.listed.values() for tool in tools]
    return {
        "servers": len(real.listed),
        "tools": len(behind),
        "shown_directly": [one["name"] for one in shown if one["name"] not in META_TOOL_NAMES],
        "tokens_own": tokens([one for one in shown if one["name"] in META_TOOL_NAMES]),
        "tokens_shown": tokens(shown),
        "tokens_behind": tokens(behind),
    }


def tokens(tools: list[dict[str, Any]]) -> int:
    """Tokens of definitions as JSON."""
    return bundled_counter().count(json.dumps(tools))


async def _search(real: Real, front: Any) -> dict[str, Any]:
    tools = [
        Tool(
            one["name"],
            server,
            one.get("description") or "",
            one["inputSchema"],
            title=one.get("title"),
            output_schema=one.get("outputSchema"),
            annotations=one.get("annotations"),
        )
        for server, listed in real.listed.items()
        for one in listed
    ]
    queries = list(queries_for(real).values())
    engine = Engine.from_tools(tools)

    async def library(at: int) -> object:
        return engine.view().search(queries[at * 7 % len(queries)], k=8, abstain=True)

    async def gateway(at: int) -> object:
        return await front.call("search_tools", {"query": queries[at * 7 % len(queries)]})

    return _compared("library", "gateway", *await _in_turn(library, gateway, _SEARCHES))


def _compared(first: str, second: str, one: list[float], other: list[float]) -> dict[str, Any]:
    held = {first: Latency.of(one).to_dict(), second: Latency.of(other).to_dict()}
    added = held[second]["p50_ms"] - held[first]["p50_ms"]
    return {**held, "added_p50_ms": round(added, 3)}


def _table(found: Mapping[str, Any]) -> Table:
    costs = found["definitions"]
    rows: list[tuple[str, str, str, str]] = [
        (
            f"call of `{tool}`, p50 ms",
            f"{one['direct']['p50_ms']:.1f}",
            f"{one['gateway']['p50_ms']:.1f}",
            f"+{one['added_p50_ms']:.1f} (at most 5)",
        )
        for tool, one in found["call"].items()
    ]
    search = found["search"]
    rows.append(
        (
            "search, p50 ms",
            f"{search['library']['p50_ms']:.1f}",
            f"{search['gateway']['p50_ms']:.1f}",
            f"+{search['added_p50_ms']:.1f} (at most 6)",
        )
    )
    rows += [
        (
            f"definitions of {costs['tools']} tools, tokens",
            f"{costs['tokens_behind']:,}",
            f"{costs['tokens_shown']:,}",
            "",
        ),
        ("of these the gateway's own tools", "", f"{costs['tokens_own']:,}", "below 1,100"),
    ]
    return Table(("", "without", "with the gateway", "bar"), tuple(rows))


def main(words: list[str]) -> None:
    names = [word for word in words if word != _DEFINITIONS_ALONE]
    are_timed = len(names) == len(words)
    chosen = [server for server in SERVERS if not names or server.name in names]
    with (
        tempfile.TemporaryDirectory() as folder,
        real_servers(Path(folder), chosen, install=True, first_start=400) as real,
    ):
        if are_timed:
            found = anyio.run(_measured, real)
        else:
            found = {"definitions": anyio.run(_definitions, real)}
        found["missing"] = list(real.missing)
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    if names or real.missing:
        return
    origin = provenance(["python", "-m", "shortlist.tests.gateway.real.measure", *words])
    if not are_timed:
        earlier = read_record("gateway")
        counted = {**found["definitions"], "origin": origin}
        found, origin = {**earlier.result, "definitions": counted}, dict(earlier.origin)
    title = "The gateway beside direct calls and the library"
    write_record(Record("gateway", title, _table(found), found, origin))


if __name__ == "__main__":
    main(sys.argv[1:])
