"""Usage events: recorded queries, and the tools that were right for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

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
        profile: profile of the caller in a gateway; None where it is not known.
        fingerprints: id of a right tool to the fingerprint that its definition had then, for tools
            where it is known.
    """

    query: str
    relevant: tuple[str, ...]
    profile: str | None = None
    fingerprints: Mapping[str, str] = field(default_factory=dict)


def checked_events(events: Iterable[UsageEvent]) -> list[UsageEvent]:
    """The events as a list.

    Raises:
        RequestError: there are none, or an item is not an event; names its position.
    """
    if isinstance(events, str | Mapping) or not isinstance(events, Iterable):
        raise RequestError(f"events: a list of UsageEvent, not {type(events).__name__}")
    checked = list(events)
    if not checked:
        raise RequestError(
            "events: is empty; give a UsageEvent for each recorded query, with the ids of the "
            "tools that were right for it"
        )
    for place, event in enumerate(checked):
        if not isinstance(event, UsageEvent):
            kind = type(event).__name__
            raise RequestError(
                f"events[{place}]: a UsageEvent(query, tool_ids), not {kind}; "
                "shortlist.evals.dataset.read_queries reads files"
            )
        if not isinstance(event.query, str) or not _are_ids(event.relevant):
            raise RequestError(f"events[{place}]: a UsageEvent needs a text and a list of tool ids")
        if not event.query.strip():
            raise RequestError(f"events[{place}]: the query is empty")
    return checked


def family_numbers(tools: Sequence[Tool]) -> NDArray[np.int64]:
    """A number for each tool that it shares with its twins: those of the same name and description.

    Letters and digits only. Twins serve the same requests, so they are held out together.
    """
    names = [
        re.sub(r"[\W_]+", " ", f"{tool.name} {tool.description}".casefold()).strip()
        for tool in tools
    ]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([numbers[name] for name in names], np.int64)


def _are_ids(value: object) -> bool:
    return isinstance(value, tuple | list) and all(
        isinstance(tool_id, str) and tool_id for tool_id in value
    )
