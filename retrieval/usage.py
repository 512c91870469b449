"""Usage events, and the adjustments of tool vectors that were learned from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

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
    return numbers_of_texts(names)


def numbers_of_texts(texts: Sequence[str]) -> NDArray[np.int64]:
    """A number for each text, from 0; equal texts have the same."""
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return np.array([numbers[text] for text in texts], np.int64)


def _are_ids(value: object) -> bool:
    return isinstance(value, tuple | list) and all(
        isinstance(tool_id, str) and tool_id for tool_id in value
    )


@dataclass(frozen=True, slots=True, eq=False)
class LearnedChange:
    """A linear change of all tool vectors, those of tools to come included.

    Args:
        matrix: a vector v becomes v + map v, L2-normalised; shape (dim, dim).
        encoder_fingerprint: fingerprint of the encoder.
        events: how many events it was learned from.
    """

    matrix: NDArray[np.float32]
    encoder_fingerprint: str
    events: int

    def vectors(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Vectors of tools with what was learned, from the encoder's; shape (n, dim)."""
        changed = values + values @ self.matrix.T
        lengths = np.linalg.norm(changed, axis=1, keepdims=True)
        unit: NDArray[np.float32] = changed / np.maximum(lengths, np.finfo(np.float32).tiny)
        return unit

    def to_dict(self) -> dict[str, Any]:
        """A summary in JSON form."""
        return {"events": self.events}

    def save(self, file: Path) -> None:
        """Write it to a new file."""
        with file.open("wb") as content:
            np.savez(content, map=self.matrix, model=self.encoder_fingerprint, events=self.events)

    @classmethod
    def load(cls, file: Path) -> Self:
        """What `save` wrote.

        Raises:
            ValueError, KeyError: it is damaged.
        """
        with np.load(file) as saved:
            return cls(saved["map"], str(saved["model"]), int(saved["events"]))
