"""How the gateway finds tools for requests written from the names of servers and tools only.

    python -m shortlist.tests.gateway.real.unseen_requests [--record]

Forty requests over eleven servers that no other test and no choice used. They were committed before
any search was run. Do not change them to improve a ranking. A row of `unseen_requests.jsonl` has
the parts of one request; each part names the tools that are right for it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import anyio

from shortlist.evals.report import Table
from shortlist.lab.publishing.record import Record, provenance, write_record

from .clients import sdk2
from .gateway_process import Setup, over_http
from .material import refill
from .servers import SERVERS, RealServer, entries

UNSEEN = (
    RealServer("kubernetes", "mcp-server-kubernetes@4.1.7", "mcp-server-kubernetes"),
    RealServer(
        "slack",
        "@modelcontextprotocol/server-slack@2025.4.25",
        "mcp-server-slack",
        env={"SLACK_BOT_TOKEN": "xoxb-x", "SLACK_TEAM_ID": "T1"},
    ),
    RealServer(
        "trello",
        "@delorenj/mcp-server-trello@1.8.1",
        "mcp-server-trello",
        env={"TRELLO_API_KEY": "x", "TRELLO_TOKEN": "x"},
    ),
    RealServer(
        "airtable",
        "airtable-mcp-server@1.14.0",
        "airtable-mcp-server",
        env={"AIRTABLE_API_KEY": "pat1.x"},
    ),
    RealServer(
        "datadog",
        "@winor30/mcp-server-datadog@1.8.0",
        "mcp-server-datadog",
        env={"DATADOG_API_KEY": "x", "DATADOG_APP_KEY": "x"},
    ),
    RealServer("godot", "@coding-solo/godot-mcp@0.1.1", "godot-mcp"),
    RealServer(
        "google-maps",
        "@modelcontextprotocol/server-google-maps@0.6.2",
        "mcp-server-google-maps",
        env={"GOOGLE_MAPS_API_KEY": "x"},
    ),
    RealServer("blender", "blender-mcp==2.0.0", "blender-mcp"),
    RealServer("ableton", "ableton-mcp==1.4.5", "ableton-mcp"),
    RealServer(
        "powerpoint",
        "office-powerpoint-mcp-server==2.0.7",
        "ppt_mcp_server",
        requires=("mcp<2",),
    ),
    RealServer("redis", "redis-mcp-server==0.5.1", "redis-mcp-server"),
)
_REQUESTS = Path(__file__).with_suffix(".jsonl")
#: Hits that count for a request with one part, and for one with several parts together.
_FIRST, _TOGETHER = 5, 10
#: Seconds until the encoder has read all definitions.
_ENCODING_S = 300.0
#: Joins the steps of a request to one sentence.
_JOIN = ", then "


def requests() -> list[list[dict[str, Any]]]:
    """The parts of each request: a query, and the ids of the tools that are right for it."""
    return [json.loads(line) for line in _REQUESTS.read_text(encoding="utf-8").splitlines()]


async def answers(setup: Setup) -> list[dict[str, Any]]:
    """What each request found, and which of its parts found a right tool.

    Args:
        setup: a gateway that has listed the tools of its servers before.
    """
    rows = []
    async with sdk2(setup.command, setup.environment) as front:

        async def search(**arguments: Any) -> tuple[list[str], str]:
            result = await front.call("search_tools", {**arguments, "explain": True})
            content = result["structuredContent"]
            return [tool["name"] for tool in content["tools"]], content["tier"]

        # Until the encoder has read all definitions, another tier answers.
        with anyio.fail_after(_ENCODING_S):
            while (await search(query="convert a time"))[1] != "hybrid":
                await anyio.sleep(1)
        for parts in requests():
            queries = [part["query"] for part in parts]
            if len(parts) == 1:
                hits, tier = await search(query=queries[0])
                right = {"right": _right(parts, hits[:_FIRST])}
            else:
                hits, tier = await search(queries=queries)
                sentence, _ = await search(query=_JOIN.join(queries))
                right = {
                    "right": _right(parts, hits[:_TOGETHER]),
                    "right_in_one_sentence": _right(parts, sentence[:_TOGETHER]),
                }
            rows.append({"queries": queries, "tier": tier, "hits": hits, **right})
    return rows


def _right(parts: list[dict[str, Any]], hits: list[str]) -> list[bool]:
    """Whether each part has a right tool among the hits."""
    return [any(tool in hits for tool in part["tools"]) for part in parts]


def _share(right: Iterable[bool]) -> str:
    values = list(right)
    return f"{sum(values)} of {len(values)} ({sum(values) / len(values):.0%})"


def table(rows: list[Mapping[str, Any]]) -> Table:
    """The shares of requests and parts with a right tool."""
    single = [row["right"][0] for row in rows if len(row["right"]) == 1]
    several = [row["right"] for row in rows if len(row["right"]) > 1]
    return Table(
        ("requests", "right tool found"),
        (
            (f"one step, in the first {_FIRST}", _share(single)),
            (
                "steps of requests with two or three, in ten hits",
                _share(chain.from_iterable(several)),
            ),
            ("requests with two or three steps, all of them", _share(map(all, several))),
            (
                "these steps in one sentence, in ten hits",
                _share(chain.from_iterable(row.get("right_in_one_sentence", ()) for row in rows)),
            ),
        ),
    )


def main() -> None:
    """Start all servers, send the requests, and print or record what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    # The tree is as the commit says only before the record is written.
    origin = provenance([Path(sys.executable).name, "-m", __spec__.name, *sys.argv[1:]])
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        refill(root / "work")
        available, missing = entries((*SERVERS, *UNSEEN), root / "work")
        setup = Setup.write(root / "home", available, {"pass_through": 0})
        with over_http(setup) as served:
            states = served.settle(600)
        rows = anyio.run(answers, setup)
    for row in rows:
        if not all(row["right"]) or not all(row.get("right_in_one_sentence", ())):
            sys.stdout.write(f"{json.dumps(row)}\n")
    found = table(rows)
    sys.stdout.write(f"servers: {states}; not installed: {missing}\n{found.rows}\n")
    if given.record:
        title = "Requests written from names only, over eleven servers that nothing was chosen on"
        result = {"servers": states, "requests": rows}
        sys.stdout.write(f"{write_record(Record('unseen', title, found, result, origin))}\n")


if __name__ == "__main__":
    main()
