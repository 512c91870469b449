"""Usage events: queries and the tools that served them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..catalog import Tool
from ..errors import RequestError


@dataclass(frozen=True, slots=True)
class UsageEvent:
    """A query and the tools that were right for it.

    Args:
        query: the query.
        relevant: ids of the right tools, without repetitions; empty if no tool fits.
    """

    query: str
    relevant: tuple[str, ...]


def checked_events(events: Iterable[UsageEvent]) -> list[UsageEvent]:
    """The events as a list.

    Raises:
        RequestError: an item is not an event; names its position.
    """
    if isinstance(events, str | Mapping) or not isinstance(events, Iterable):
        raise RequestError(f"events: a list of Event, not {type(events).__name__}")
    given = list(events)
    for place, event in enumerate(given):
        if not isinstance(event, UsageEvent):
            kind = type(event).__name__
            raise RequestError(f"events[{place}]: an Event, not {kind}")
        if not isinstance(event.query, str) or not _are_ids(event.relevant):
            raise RequestError(f"events[{place}]: an Event needs a text and a list of tool ids")
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


def _are_ids(value: object) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(one, str) and one for one in value)
