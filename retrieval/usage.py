"""Usage events: queries with the tools that were right, and how to hold some of them out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..catalog import Tool
from ..catalog.text_file import read_text_file
from ..errors import EvaluationError, RequestError
from .query import MAX_QUERY_CHARS

#: Parts that events and tools are dealt into; each is held out once.
PARTS = 5


@dataclass(frozen=True, slots=True)
class Event:
    """A query and the tools that were right for it.

    Args:
        query: the query.
        relevant: ids of the right tools, at least one, without repetitions.
    """

    query: str
    relevant: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """One split into training and held-out events, as positions in a list of events.

    Args:
        train: events to learn from.
        seen: held-out events of tools that have other events in `train`.
        unseen: held-out events of tools that have none there.
    """

    train: NDArray[np.int64]
    seen: NDArray[np.int64]
    unseen: NDArray[np.int64]


def read_events(path: str | Path) -> tuple[Event, ...]:
    """Events of a JSONL file: rows with `query`, and `tool` (an id) or `relevant` (a list of ids).

    Raises:
        EvaluationError: the file cannot be read, or a row is not an event; names the row.
    """
    text = read_text_file(path, error=EvaluationError)
    events = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                events.append(_event(json.loads(line)))
            except (ValueError, RecursionError) as error:
                raise EvaluationError(f"{path}, row {number}: no event: {error}") from error
    if not events:
        raise EvaluationError(f"{path}: no event in it")
    return tuple(events)


def checked_events(events: Iterable[Event]) -> list[Event]:
    """The events as a list.

    Raises:
        RequestError: an item is not an event; names its position.
    """
    if isinstance(events, str | Mapping) or not isinstance(events, Iterable):
        raise RequestError(f"events: a list of Event, not {type(events).__name__}")
    given = list(events)
    for place, event in enumerate(given):
        if not isinstance(event, Event):
            kind = type(event).__name__
            raise RequestError(f"events[{place}]: an Event, not {kind}; see read_events")
        ids = event.relevant if isinstance(event.relevant, tuple | list) else None
        if (
            not isinstance(event.query, str)
            or ids is None
            or not all(isinstance(tool_id, str) for tool_id in ids)
        ):
            raise RequestError(f"events[{place}]: an Event of a text and a list of tool ids")
    return given


def families(tools: Sequence[Tool]) -> list[str]:
    """For each tool what it shares with its twins: name and description, letters and digits only.

    Twins serve the same requests, so they are held out together.
    """
    return [
        re.sub(r"[\W_]+", " ", f"{tool.name} {tool.description}".casefold()).strip()
        for tool in tools
    ]


def folds(
    queries: Sequence[str], relevant: Sequence[NDArray[np.int64]], family: Sequence[str], salt: str
) -> Iterator[Fold]:
    """Every event held out once with its tools, and once, where they have others, by itself.

    The part an event or a tool falls into depends on its own text and the salt alone; equal
    requests are dealt alike. Events that need tools of both sides are left out of the fold.

    Args:
        queries: the requests.
        relevant: rows of the tools of each, at least one.
        family: of each row, see `families`.
        salt: another one deals anew.

    Yields:
        `PARTS` folds.
    """
    event_part = np.array([_part(f"{salt} request {query}") for query in queries])
    parts = {name: _part(f"{salt} tool {name}") for name in set(family)}
    tool_part = np.array([parts[name] for name in family])
    touched = [np.unique(tool_part[rows]) for rows in relevant]
    for part in range(PARTS):
        outside = np.array([part not in held for held in touched], np.bool_)
        inside = np.array([len(held) == 1 and held[0] == part for held in touched], np.bool_)
        train = np.flatnonzero(outside & (event_part != part))
        known = np.zeros(len(family), np.bool_)
        for event in train.tolist():
            known[relevant[event]] = True
        held_out = np.flatnonzero(outside & (event_part == part))
        seen = [event for event in held_out.tolist() if known[relevant[event]].all()]
        yield Fold(train, np.array(seen, np.int64), np.flatnonzero(inside))


def _part(text: str) -> int:
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % PARTS


def _event(row: Any) -> Event:
    if not isinstance(row, dict):
        raise ValueError(f"an object is due, not {type(row).__name__}")  # noqa: TRY004
    query = row.get("query")
    if not isinstance(query, str) or not query.strip():
        raise ValueError("query: missing or empty")
    if "tool" in row:
        tools = [row["tool"]]
    elif isinstance(row.get("relevant"), list):
        tools = row["relevant"]
    else:
        raise ValueError("tool: missing, and there is no list `relevant`")
    if not tools or not all(isinstance(tool, str) and tool for tool in tools):
        raise ValueError("tool: an id, or in `relevant` a list of at least one id")
    return Event(query[:MAX_QUERY_CHARS], tuple(dict.fromkeys(tools)))
