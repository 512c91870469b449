"""Requests and tools to train on, read from folders in the common form.

A folder holds one sub-folder per set, each with `tools.jsonl` (`id, name, server, description,
input_schema`) and `queries.jsonl` (`query, relevant, style?`).
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ...catalog import Tool
from ...errors import EvaluationError
from ...retrieval.analysis import spaced

#: Most requests taken of a set, where it would drown the others (metatool has 17,513 for 159 tools)
#: or teaches less (the easy words of sealtools).
DEFAULT_CAPS: Mapping[str, int] = {"metatool": 1200, "sealtools": 900}


@dataclass(frozen=True, slots=True)
class TrainingTool:
    """A tool as the recipes see it; `id` is unique over all sets, `server` within its set."""

    id: str
    source: str
    server: str | None
    name: str
    description: str
    parameters: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """What the encoder reads of this tool when it is deployed."""
        return tool_text(self.name, self.description, self.parameters, self.server)


@dataclass(frozen=True, slots=True)
class Request:
    """A request and the positions of the tools that serve it in `TrainingData.tools`."""

    text: str
    relevant: tuple[int, ...]
    style: str
    source: str


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Tools and the requests for some of them."""

    tools: tuple[TrainingTool, ...]
    requests: tuple[Request, ...]

    def counts(self) -> dict[str, dict[str, int]]:
        """Tools, requests and tools with a request of each set."""
        table: dict[str, dict[str, int]] = {}
        for tool in self.tools:
            row = table.setdefault(tool.source, {"tools": 0, "requests": 0, "tools_requested": 0})
            row["tools"] += 1
        requested = {tool for request in self.requests for tool in request.relevant}
        for tool_index in requested:
            table[self.tools[tool_index].source]["tools_requested"] += 1
        for request in self.requests:
            table[request.source]["requests"] += 1
        return table


def tool_text(
    name: str, description: str, parameters: Iterable[str], server: str | None = None
) -> str:
    """Name, server, description and parameter names as one text; any of them may be empty."""
    title = f"{spaced(name)} ({spaced(server)})" if server else spaced(name)
    head = ": ".join(part for part in (title, description.strip()) if part)
    names = ", ".join(spaced(parameter) for parameter in parameters)
    return " ".join(part for part in (head, f"Parameters: {names}" if names else "") if part)


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Objects of a JSON lines file; a line that is none raises EvaluationError with its number."""
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise EvaluationError(f"{path}:{number}: not JSON: {error}") from error
            if not isinstance(row, dict):
                raise EvaluationError(f"{path}:{number}: expected an object, got {type(row)}")
            yield row


def read_tool(row: Mapping[str, Any], source: str) -> TrainingTool:
    """A tool row in the common form; its id gets the set's name in front."""
    tool = Tool(
        row["name"],
        row.get("server"),
        row.get("description") or "",
        row.get("input_schema"),
    )
    return TrainingTool(
        id=f"{source}:{row['id']}",
        source=source,
        server=tool.server,
        name=tool.name,
        description=tool.description,
        parameters=tuple(parameter.name for parameter in tool.parameters),
    )


def _read_set(folder: Path, offset: int) -> tuple[list[TrainingTool], list[Request]]:
    source = folder.name
    tools = [read_tool(row, source) for row in read_rows(folder / "tools.jsonl")]
    place = {tool.id: offset + index for index, tool in enumerate(tools)}
    requests: list[Request] = []
    for number, row in enumerate(read_rows(folder / "queries.jsonl"), 1):
        ids = [f"{source}:{name}" for name in row["relevant"]]
        if missing := [name for name in ids if name not in place]:
            raise EvaluationError(
                f"{folder / 'queries.jsonl'}:{number}: no such tool in tools.jsonl: {missing}"
            )
        if ids:
            relevant = tuple(dict.fromkeys(place[name] for name in ids))
            requests.append(Request(row["query"], relevant, row.get("style") or "", source))
    return tools, requests


def capped(requests: list[Request], limit: int, seed: int) -> list[Request]:
    """At most `limit` requests, spread evenly over the tools they ask for."""
    if len(requests) <= limit:
        return requests
    rng = random.Random(seed)
    queues: defaultdict[int, list[Request]] = defaultdict(list)
    for request in rng.sample(requests, len(requests)):
        queues[request.relevant[0]].append(request)
    chosen: list[Request] = []
    while len(chosen) < limit:
        for queue in queues.values():
            if queue and len(chosen) < limit:
                chosen.append(queue.pop())
    return chosen


def read_training_data(
    directory: Path, *, caps: Mapping[str, int] = DEFAULT_CAPS, seed: int = 0
) -> TrainingData:
    """All sets below `directory`, in the order of their names.

    Args:
        directory: folder of sets in the common form.
        caps: most requests taken of a set, by its name.
        seed: chooses the requests that a cap keeps.

    Raises:
        EvaluationError: no set there, or a row that cannot be used.
    """
    folders = sorted(path.parent for path in directory.glob("*/queries.jsonl"))
    if not folders:
        raise EvaluationError(f"{directory}: no set with a queries.jsonl below it")
    tools: list[TrainingTool] = []
    requests: list[Request] = []
    for folder in folders:
        set_tools, set_requests = _read_set(folder, len(tools))
        tools.extend(set_tools)
        limit = caps.get(folder.name, len(set_requests))
        requests.extend(capped(set_requests, limit, seed))
    return TrainingData(tuple(tools), tuple(requests))


def hold_out(
    data: TrainingData, share: float, *, by: Literal["tool", "server"] = "server", seed: int = 0
) -> tuple[TrainingData, TrainingData]:
    """Two parts with the same tools: no tool (or server) has requests in both.

    A request whose tools fall on both sides goes to the first part's side only if none of its
    tools is held out; otherwise it is dropped, so that the held-out tools stay unseen.

    Args:
        data: what to split.
        share: of the tools or servers that have requests, 0 to 1, to hold out.
        by: what must not be on both sides. Tools without a server count as a server each.
        seed: chooses what is held out.
    """

    def key(index: int) -> str:
        tool = data.tools[index]
        return f"{tool.source}/{tool.server}" if by == "server" and tool.server else tool.id

    keys = sorted({key(index) for request in data.requests for index in request.relevant})
    held = set(random.Random(seed).sample(keys, round(share * len(keys))))
    sides: dict[bool, list[Request]] = {False: [], True: []}
    for request in data.requests:
        inside = {key(index) in held for index in request.relevant}
        if len(inside) == 1:
            sides[inside.pop()].append(request)
    return (
        replace(data, requests=tuple(sides[False])),
        replace(data, requests=tuple(sides[True])),
    )
