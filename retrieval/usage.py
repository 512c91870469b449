"""What users asked and which tools served them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..catalog import Tool
from ..catalog.text_file import read_text_file
from ..errors import EvaluationError, RequestError
from .query import MAX_QUERY_CHARS


@dataclass(frozen=True, slots=True)
class Event:
    """A query and the tools that were right for it.

    Args:
        query: the query.
        relevant: ids of the right tools, at least one, without repetitions.
    """

    query: str
    relevant: tuple[str, ...]


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
        if not isinstance(event.query, str) or not _are_ids(event.relevant):
            raise RequestError(f"events[{place}]: an Event of a text and a list of tool ids")
    return given


def families(tools: Sequence[Tool]) -> NDArray[np.int64]:
    """A number for each tool that it shares with its twins: those of the same name and description.

    Letters and digits only. Twins serve the same requests, so they are held out together.
    """
    names = [
        re.sub(r"[\W_]+", " ", f"{tool.name} {tool.description}".casefold()).strip()
        for tool in tools
    ]
    return numbered(names)


def numbered(texts: Sequence[str]) -> NDArray[np.int64]:
    """A number for each text, from 0; equal texts have the same."""
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return np.array([numbers[text] for text in texts], np.int64)


def _event(row: Any) -> Event:
    if not isinstance(row, dict):
        raise ValueError(f"an object is due, not {type(row).__name__}")  # noqa: TRY004
    query = row.get("query")
    if not isinstance(query, str) or not query.strip():
        raise ValueError("query: missing or empty")
    tools = [row["tool"]] if "tool" in row else row.get("relevant")
    if not tools or not _are_ids(tools):
        raise ValueError("tool: an id, or in `relevant` a list of at least one id")
    return Event(query[:MAX_QUERY_CHARS], tuple(dict.fromkeys(tools)))


def _are_ids(value: object) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(one, str) and one for one in value)
