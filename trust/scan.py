"""Scanning: does a definition read like orders to the model."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ..catalog import Tool
from .folding import fold, hidden_texts, mixed_words, padded, segments
from .lexicon import CONNECTING, POINTED
from .mentions import foreign_tools
from .purpose import off_topic
from .signals import SIGNALS, Signal

HELD_FROM: Final = 0.7
"""Sum of the weights of different signals close together from which a tool is held back."""
WINDOW: Final = 4
"""Segments, about sentences, that count as close together."""
TEXTS_LIMIT: Final = 2_000
"""Texts read of one tool's schemas."""
_EXCERPT = 160
_INVISIBLE = re.compile(r"(\d+) (tag|bidi|zero-width|variation selector) character")
_MOST_INVISIBLE = {"tag": 6, "bidi": 3, "zero-width": 15, "variation selector": 8}
_NAMED = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\-./]+")
_MOVED = frozenset({"slot", "hand_over", "imperative"})


@dataclass(frozen=True, slots=True)
class Finding:
    """One signal in one place.

    Args:
        signal: its name.
        reason: what it says of the text.
        weight: its share of what it takes to hold a tool back.
        where: the field, such as `description` or `input_schema.properties.note.description`.
        text: the words it was found in, cut to one line.
    """

    signal: str
    reason: str
    weight: float
    where: str
    text: str

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "signal": self.signal,
            "reason": self.reason,
            "weight": self.weight,
            "where": self.where,
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class Scan:
    """What was found in a tool.

    Args:
        findings: those of the passage that weighs most, heaviest first.
        score: the sum of their weights.
    """

    findings: tuple[Finding, ...]
    score: float

    @property
    def flagged(self) -> bool:
        """Whether the tool is to be held back until someone approves it."""
        return self.score >= HELD_FROM

    @property
    def reasons(self) -> tuple[str, ...]:
        """The findings, one line each."""
        return tuple(f"{one.where}: {one.reason}: {one.text!r}" for one in self.findings)


class _Text(NamedTuple):
    """One text of a definition that a model sees.

    Args:
        where: its path.
        text: what it says.
        slot: whether it stands for a value the model fills in.
    """

    where: str
    text: str
    slot: bool = False


def scan(tool: Tool, siblings: Collection[str] = ()) -> Scan:
    """What in a definition reads like orders to the model.

    All text that a model sees is read: name, title, description, tags, and every string in the
    schemas and annotations, names of parameters included.

    Args:
        tool: the definition.
        siblings: names of the other tools of its server, which it may speak of freely.
    """
    own = frozenset((*siblings, tool.name, *(one.name for one in tool.parameters)))
    first = segments(fold(tool.description).lower())[:1]
    named = _NAMED.sub(" ", f"{tool.name} {tool.server or ''}")
    topic = " ".join((named, tool.title or "", *first)).lower()
    best = _weighed(tuple(_form(tool)))
    for text in _texts(tool):
        about = f"{topic} {_NAMED.sub(' ', text.where).lower()}" if text.slot else topic
        for found in _passages(text, own, about):
            if found.score > best.score:
                best = found
    return best


def _texts(tool: Tool) -> Iterator[_Text]:
    yield _Text("name", _NAMED.sub(" ", tool.name))
    if tool.title:
        yield _Text("title", tool.title)
    yield _Text("description", tool.description)
    for tag in tool.tags:
        yield _Text("tags", tag)
    seen: set[str] = {tool.description}
    for field in ("input_schema", "output_schema", "annotations"):
        value = getattr(tool, field)
        if value is not None:
            yield from _strings(value, field, seen)


def _strings(root: Any, field: str, seen: set[str]) -> Iterator[_Text]:
    """Every string in a schema once, and the names of its parameters."""
    stack: list[tuple[Any, str, bool]] = [(root, field, False)]
    while stack and len(seen) < TEXTS_LIMIT:
        value, path, names = stack.pop()
        if isinstance(value, dict):
            for key, child in value.items():
                if names and len(key) > 12 and key not in seen:
                    seen.add(key)
                    yield _Text(f"{path}.{key}", _NAMED.sub(" ", key), True)
                properties = not names and key in ("properties", "$defs", "definitions")
                stack.append((child, f"{path}.{key}", properties))
        elif isinstance(value, list):
            stack.extend((child, path, False) for child in value)
        elif isinstance(value, str) and len(value) > 12 and value not in seen:
            seen.add(value)
            yield _Text(path, value, field == "input_schema" and path.count(".") > 1)


def _form(tool: Tool) -> Iterator[Finding]:
    """What was removed from the text because nobody can see it."""
    for note in tool.cleaned:
        where, _, what = note.partition(": ")
        found = _INVISIBLE.match(what)
        if found and int(found[1]) > _MOST_INVISIBLE[found[2]]:
            yield Finding("invisible", "holds text that nobody can see", 1.0, where, what)


def _passages(text: _Text, own: Set[str], topic: str) -> Iterator[Scan]:
    """The heaviest passage of a text, and of what is encoded in it."""
    form = []
    if mixed_words(text.text) > 1:
        form.append(_finding("disguise", "writes in letters of other scripts", 0.5, text, ""))
    if padded(text.text):
        form.append(_finding("padding", "pushes text out of sight", 0.5, text, ""))
    yield _passage(fold(text.text), text, own, topic, tuple(form))
    for plain in hidden_texts(text.text):
        encoded = _finding("encoded", "holds encoded text", 0.5, text, plain)
        yield _passage(fold(plain), text, own, topic, (encoded,))


def _passage(
    folded: str, text: _Text, own: Set[str], topic: str, known: tuple[Finding, ...]
) -> Scan:
    """The passage of one text that weighs most."""
    pieces = segments(folded)
    spoken = _concepts(tuple(piece.lower() for piece in pieces))
    found: list[list[tuple[Signal, str]]] = []
    for number, (piece, concepts) in enumerate(zip(pieces, spoken, strict=True)):
        foreign = foreign_tools(piece, own)
        if not concepts and not foreign:
            found.append([])
            continue
        said = concepts | _connecting(piece.lower())
        said |= foreign
        said -= _first_order(number, text)
        if number or text.slot:
            said |= off_topic(said, topic)
        if text.slot and "off_topic" in said:
            said |= _MOVED
        found.append([(signal, piece) for signal in SIGNALS if signal.holds(said)])
    best = _weighed(known)
    for start in range(len(found)):
        heaviest: dict[str, Finding] = {one.signal: one for one in known}
        for signal, piece in (one for near in found[start : start + WINDOW] for one in near):
            heaviest.setdefault(
                signal.name, _finding(signal.name, signal.reason, signal.weight, text, piece)
            )
        passage = _weighed(tuple(heaviest.values()))
        if passage.score > best.score:
            best = passage
    return best


def _first_order(number: int, text: _Text) -> Set[str]:
    """A description's first sentence says what the tool does in the form of an order."""
    return {"imperative"} if number == 0 and text.where == "description" else frozenset()


@lru_cache(maxsize=4096)
def _concepts(pieces: tuple[str, ...]) -> tuple[frozenset[str], ...]:
    """The pointed concepts of each segment."""
    text = "\n".join(pieces)
    found: list[set[str]] = [set() for _ in pieces]
    starts = None
    for name, words in POINTED.items():
        for match in words.finditer(text):
            if starts is None:
                starts = _starts(pieces)
            place = match.start()
            number = next(n for n in range(len(starts) - 1, -1, -1) if starts[n] <= place)
            found[number].add(name)
    return tuple(map(frozenset, found))


def _starts(pieces: tuple[str, ...]) -> list[int]:
    starts, place = [], 0
    for piece in pieces:
        starts.append(place)
        place += len(piece) + 1
    return starts


@lru_cache(maxsize=4096)
def _connecting(piece: str) -> frozenset[str]:
    return frozenset(name for name, words in CONNECTING.items() if words.search(piece))


def _finding(name: str, reason: str, weight: float, text: _Text, piece: str) -> Finding:
    line = " ".join(piece.split())
    cut = line if len(line) <= _EXCERPT else f"{line[: _EXCERPT - 3]}..."
    return Finding(name, reason, weight, text.where, cut)


def _weighed(findings: tuple[Finding, ...]) -> Scan:
    ordered = tuple(sorted(findings, key=lambda one: (-one.weight, one.signal)))
    return Scan(ordered, round(sum(one.weight for one in ordered), 2))
