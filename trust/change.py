"""Change: how a definition differs from the one that was pinned, part by part."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import ndiff
from typing import Any, Literal

from .plain_form import sentences

_PARTS_SHOWN = 3
"""Maximum number of parts named in the summary of a change."""
_ORDER_ADVICE = (
    "the same words in another order; if its server runs Python and lists a set, "
    "PYTHONHASHSEED=0 in the env of its entry keeps one order"
)


@dataclass(frozen=True, slots=True)
class PartChange:
    """One field of a definition that changed.

    Args:
        part: its path, such as `description` or `input_schema.properties.note`.
        before: the old value; None if the field is new.
        after: the present value; None if the field was removed.
    """

    part: str
    before: str | None
    after: str | None

    @property
    def kind(self) -> Literal["added", "removed", "changed"]:
        """Whether the field was added, removed or changed."""
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"

    def lines(self) -> list[str]:
        """The changed sentences: old ones marked `-`, new ones `+`, equal ones with a space."""
        before = sentences(self.before or "")
        after = sentences(self.after or "")
        return [line.rstrip("\n") for line in ndiff(before, after) if not line.startswith("?")]

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {"part": self.part, "kind": self.kind, "before": self.before, "after": self.after}


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """A definition that differs from its pin.

    Args:
        tool_id: id of the tool.
        pinned: fingerprint of the definition that was pinned.
        now: fingerprint of the present definition.
        parts: the changed fields, ordered by path.
    """

    tool_id: str
    pinned: str
    now: str
    parts: tuple[PartChange, ...]

    @property
    def summary(self) -> str:
        """One line with the first differences."""
        summaries = [f"{part.part} {part.kind}" for part in self.parts[:_PARTS_SHOWN]]
        if len(self.parts) > _PARTS_SHOWN:
            summaries.append(f"and {len(self.parts) - _PARTS_SHOWN} more")
        changed = ", ".join(summaries) or "unseen parts"
        advice = f" ({self.advice})" if self.advice else ""
        return f"its definition changed since it was pinned: {changed}{advice}"

    @property
    def advice(self) -> str:
        """What helps if a server writes a list in another order at each start; otherwise ""."""
        before = _word_counts(part.before for part in self.parts)
        after = _word_counts(part.after for part in self.parts)
        return _ORDER_ADVICE if before and before == after else ""

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "id": self.tool_id,
            "pinned": self.pinned,
            "now": self.now,
            "parts": [part.to_dict() for part in self.parts],
        }


def _word_counts(texts: Iterable[str | None]) -> Counter[str]:
    """How often each word is in the texts, wherever it is."""
    return Counter(word for text in texts for word in re.split(r"[\s,]+", text or "") if word)


def changed_parts(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[PartChange, ...]:
    """The changed fields between two definitions in row form."""
    old, new = dict(_leaves(before, "")), dict(_leaves(after, ""))
    return tuple(
        PartChange(part, old.get(part), new.get(part))
        for part in sorted(old.keys() | new.keys())
        if old.get(part) != new.get(part)
    )


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    members: Iterator[tuple[Any, Any]] = iter(())
    if isinstance(value, Mapping):
        members = iter(value.items())
    elif isinstance(value, list):
        members = iter(enumerate(value))
    empty = True
    for key, child in members:
        empty = False
        step = f"[{key}]" if isinstance(key, int) else f".{key}" if path else str(key)
        yield from _leaves(child, f"{path}{step}")
    if empty and path and path != "id":
        yield path, value if isinstance(value, str) else repr(value)
