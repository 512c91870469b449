"""Reads requests and tools for training from folders in the common form.

A folder holds one sub-folder per set, each with `tools.jsonl` (`id, name, server, description,
input_schema`) and `queries.jsonl` (`query, relevant, style?`). The requests written for this
project are in `requests/` beside this file. Each row names the set of its tools. Judgements, about
which other tools serve a request, are there too.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ...catalog import Catalog, Tool
from ...catalog.tool_document import tool_text
from ...errors import EvaluationError
from ...evals.dataset import LabelledQuery
from . import splits

#: Requests written for this project, see the README there.
WRITTEN = Path(__file__).parent / "requests"

#: Name of the file of judgements among them, see `judged`.
JUDGEMENTS = "judgements.jsonl"

#: Most requests of sets that are too large (metatool has 17,513 for 159 tools) or too easy
#: (sealtools).
DEFAULT_CAPS: Mapping[str, int] = {"metatool": 1200, "sealtools": 4500}


@dataclass(frozen=True, slots=True)
class TrainingTool:
    """A tool for training. `id` is unique over all sets, `server` within its set."""

    id: str
    source: str
    server: str | None
    name: str
    description: str
    parameters: tuple[str, ...] = ()

    @property
    def home(self) -> tuple[str, str] | None:
        """The set and the server of the tool; None without a server."""
        return (self.source, self.server) if self.server else None

    @property
    def text(self) -> str:
        """The tool's text for the encoder, as in a search."""
        return tool_text(self.name, self.server, self.description, self.parameters)


@dataclass(frozen=True, slots=True)
class TrainingQuery:
    """A request and the positions of the tools that serve it in `TrainingData.tools`.

    `english` is the original of a translation, otherwise "". `also` are tools that were judged to
    serve the request besides `relevant`.
    """

    text: str
    relevant: tuple[int, ...]
    style: str
    source: str
    english: str = ""
    also: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        """The request's key in judgements: a hash of its set and its English wording."""
        wording = " ".join((self.english or self.text).split())
        return hashlib.blake2b(f"{self.source}\0{wording}".encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Tools, and requests for some of them."""

    tools: tuple[TrainingTool, ...]
    requests: tuple[TrainingQuery, ...]

    @property
    def tools_fingerprint(self) -> str:
        """Hash of the tools, in order."""
        return _digest(self.tools)

    @property
    def fingerprint(self) -> str:
        """Hash of the tools and the requests, in order."""
        return _digest((*self.tools, *self.requests))

    def counts(self) -> dict[str, dict[str, int]]:
        """For each set, the number of tools, of requests, and of tools with a request."""
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


def _digest(parts: Iterable[TrainingTool | TrainingQuery]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(repr(part).encode(errors="replace"))
    return digest.hexdigest()


def read_rows(path: Path, *, needs: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Objects of a JSON lines file.

    Args:
        path: the file.
        needs: required keys of every object.

    Raises:
        EvaluationError: a line is not an object, or lacks a key. The message has the line.
    """
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise EvaluationError(f"{path}:{number}: not JSON: {error}") from error
            if not isinstance(row, dict):
                raise EvaluationError(f"{path}:{number}: expected an object, got {type(row)}")
            if missing := [key for key in needs if key not in row]:
                raise EvaluationError(f"{path}:{number}: lacks {', '.join(missing)}")
            yield row


def read_tool(row: Mapping[str, Any], source: str) -> TrainingTool:
    """A tool from a row in the common form, with the set's name before its id."""
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


def _read_set(
    folder: Path, offset: int, written: Iterable[Path]
) -> tuple[list[TrainingTool], list[TrainingQuery]]:
    source = folder.name
    tools = [
        read_tool(row, source) for row in read_rows(folder / "tools.jsonl", needs=("id", "name"))
    ]
    place = {tool.id: offset + index for index, tool in enumerate(tools)}
    requests: list[TrainingQuery] = []
    needs = ("query", "relevant")
    own = [row["query"] for row in read_rows(folder / "queries.jsonl", needs=needs)]
    for path in (folder / "queries.jsonl", *written):
        for number, row in enumerate(read_rows(path, needs=needs), 1):
            if row.get("set", source) != source:
                continue
            ids = [f"{source}:{name}" for name in row["relevant"]]
            if missing := [name for name in ids if name not in place]:
                raise EvaluationError(f"{path}:{number}: no such tool in tools.jsonl: {missing}")
            if ids:
                relevant = tuple(dict.fromkeys(place[name] for name in ids))
                style, english = row.get("style") or "", _english(row, own, f"{path}:{number}")
                requests.append(TrainingQuery(row["query"], relevant, style, source, english))
    return tools, requests


def _english(row: Mapping[str, Any], own: list[str], where: str) -> str:
    """The English original of a row: in the row itself, or in a line of the set's requests."""
    line = row.get("english_row")
    if line is None:
        return row.get("english") or ""
    if not 1 <= line <= len(own):
        raise EvaluationError(f"{where}: english_row {line}: queries.jsonl has {len(own)} lines")
    return " ".join(own[line - 1].split())


def capped(requests: list[TrainingQuery], limit: int, seed: int) -> list[TrainingQuery]:
    """At most `limit` requests, spread evenly over their tools."""
    if len(requests) <= limit:
        return requests
    rng = random.Random(seed)
    queues: defaultdict[int, list[TrainingQuery]] = defaultdict(list)
    for request in rng.sample(requests, len(requests)):
        queues[request.relevant[0]].append(request)
    chosen: list[TrainingQuery] = []
    while len(chosen) < limit:
        for queue in queues.values():
            if queue and len(chosen) < limit:
                chosen.append(queue.pop())
    return chosen


def read_training_data(
    directory: Path,
    *,
    written: Path | None = WRITTEN,
    caps: Mapping[str, int] = DEFAULT_CAPS,
    seed: int = 0,
) -> TrainingData:
    """All sets below `directory`, in the order of their names.

    Args:
        directory: folder of sets in the common form.
        written: folder of files with further requests for those sets' tools (`set, query, relevant,
            style`; translations also `english` or `english_row`) and with judgements (see
            `judged`); or None. Rows for missing sets are left out.
        caps: set's name to the most requests to use.
        seed: chooses the requests that a cap keeps.

    Raises:
        EvaluationError: there is no set, or a row cannot be used. The message has the row.
    """
    folders = sorted(path.parent for path in directory.glob("*/queries.jsonl"))
    if not folders:
        raise EvaluationError(
            f"{directory}: no subfolder with a queries.jsonl; name the folder of the sets"
        )
    further = [] if written is None else sorted(written.glob("tools-*.jsonl"))
    tools: list[TrainingTool] = []
    requests: list[TrainingQuery] = []
    for folder in folders:
        set_tools, set_requests = _read_set(folder, len(tools), further)
        tools.extend(set_tools)
        limit = caps.get(folder.name, len(set_requests))
        requests.extend(capped(set_requests, limit, seed))
    judgements = None if written is None else written / JUDGEMENTS
    if judgements is not None and judgements.exists():
        requests = judged(requests, tools, judgements)
    return TrainingData(tuple(tools), tuple(requests))


def judged(
    requests: Iterable[TrainingQuery], tools: Sequence[TrainingTool], judgements: Path
) -> list[TrainingQuery]:
    """The requests with the other tools that serve them, without requests that are too vague.

    Args:
        requests: the requests.
        tools: tools of all sets.
        judgements: file of rows `request` (its `key`), `also` (ids with the set's name in front)
            and `unclear` (whether it was found too vague or wrong to train on).
    """
    rows = {row["request"]: row for row in read_rows(judgements, needs=("request",))}
    place = {tool.id: index for index, tool in enumerate(tools)}
    kept: list[TrainingQuery] = []
    for request in requests:
        row = rows.get(request.key, {})
        if not row.get("unclear"):
            also = (place[name] for name in row.get("also", ()) if name in place)
            kept.append(replace(request, also=tuple(also)))
    return kept


def hold_out(
    data: TrainingData, share: float, *, by: Literal["tool", "server"] = "server", seed: int = 0
) -> tuple[TrainingData, TrainingData]:
    """Split the data into two parts with the same tools. No tool (or server) has requests in both.

    The split is that of `splits.hold_out`. Requests for tools on both sides are in neither part.
    No held-out tool serves a request of the first part.

    Args:
        data: data to split.
        share: share of the tools or servers to hold out, 0 to 1.
        by: split by tool or by server. Each tool without a server counts as a server.
        seed: seed of the choice.

    Raises:
        RequestError: the share is not between 0 and 1.
    """
    ids = [tool.id for tool in data.tools]
    catalog = Catalog(
        Tool(
            tool.name,
            f"{tool.source} {tool.server}" if tool.server else None,
            tool.description,
            id=tool.id,
        )
        for tool in data.tools
    )
    queries = [
        LabelledQuery(request.text, tuple(ids[tool] for tool in request.relevant), row=row)
        for row, request in enumerate(data.requests)
    ]
    split = splits.hold_out(catalog, queries, by=by, share=share, seed=seed)
    kept, held = (
        tuple(data.requests[query.row] for query in side) for side in (split.seen, split.unseen)
    )
    kept = tuple(
        replace(request, also=tuple(t for t in request.also if ids[t] not in split.held_out))
        for request in kept
    )
    return replace(data, requests=kept), replace(data, requests=held)
