"""Scanning: does a definition read like orders to the model."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import asdict, dataclass
from itertools import accumulate, chain
from typing import Any, Final

from ..catalog import Tool
from .folding import fold, segments
from .languages import elsewhere
from .lexicon import CONNECTING, CONNECTING_ELSEWHERE, POINTED, POINTED_ELSEWHERE, literals
from .mentions import foreign_tools, names
from .purpose import off_topic, own_call, own_server
from .reading import Passage, passages, words_of
from .relevance import signals_of, still_wanted
from .signal import Signal
from .wording import Said

HELD_FROM: Final = 0.35
"""Sum of the weights of different signals close together from which a tool is held back.

The lowest at which at most 1 % of the benign tools of the training sets are held back.
"""
WINDOW: Final = 4
"""Segments, about sentences, that count as close together."""
_EXCERPT = 160
_NAMED_AFTER = re.compile(r"\b([a-z]+)(?:_\w+)?[`'\"]?(?: \([^)\n]{0,40}\))?: \1\b")
"""An option or argument and its description, `get: Get a list`, which is no order to get one."""
_UNREAD = "\u2026"  # in no expression, so that nothing is found by what was taken out
_FILLED = frozenset({"slot", "hand_over", "imperative"})


@dataclass(frozen=True, slots=True)
class Finding:
    """One signal in one place.

    Args:
        signal: its name.
        reason: what it says of the text.
        weight: its share of what it takes to hold a tool back, see `HELD_FROM`.
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
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Scan:
    """What was found in a tool.

    Args:
        findings: those of the passage that weighs most, heaviest first.
    """

    findings: tuple[Finding, ...] = ()

    @property
    def score(self) -> float:
        """The sum of the weights."""
        return round(sum(finding.weight for finding in self.findings), 2)

    @property
    def flagged(self) -> bool:
        """Whether the tool is to be held back until someone approves it."""
        return bool(self.findings) and self.score >= HELD_FROM

    @property
    def reasons(self) -> tuple[str, ...]:
        """The findings, one line each."""
        return tuple(
            f"{one.where}: {one.reason}{f': {one.text!r}' if one.text else ''}"
            for one in self.findings
        )


def scan(tool: Tool, siblings: Collection[str] = ()) -> Scan:
    """What in a definition reads like orders to the model.

    Args:
        tool: the definition; all its text that a model sees is read.
        siblings: names of the other tools of its server, which it may speak of freely.
    """
    read = tuple(passages(tool))
    pieces = [piece.lower() for passage in read for piece in passage.pieces]
    possible = literals().possible("\n".join(pieces))
    spoken = _concepts(pieces, possible)
    own = _own_names(tool, siblings, read)
    topic = _topic(tool)
    best = Scan()
    start = 0
    for passage in read:
        end = start + len(passage.pieces)
        found = [
            _signals(passage, number, concepts, possible, own, topic)
            for number, concepts in enumerate(spoken[start:end])
        ]
        best = max(best, _heaviest(passage, found, pieces[start:end]), key=lambda one: one.score)
        start = end
    return best


def _own_names(tool: Tool, siblings: Collection[str], read: Sequence[Passage]) -> Set[str] | None:
    """Names the tool may speak of, or None where it speaks of no others."""
    text = "\n".join(piece for passage in read for piece in passage.pieces)
    others = names(text).difference(siblings, (tool.name,))
    if not others:
        return None
    own = frozenset((*siblings, tool.name, *(one.name for one in tool.parameters)))
    return None if others <= own else own


def _topic(tool: Tool) -> str:
    """What the tool is there for, as its name, title, server and first sentence say."""
    first = segments(fold(tool.description))[:1]
    return " ".join(
        (words_of(tool.name), words_of(tool.server or ""), tool.title or "", *first)
    ).lower()


def _concepts(pieces: Sequence[str], possible: Set[str]) -> list[set[str]]:
    """The pointed concepts of each segment; all segments are searched at once, for speed."""
    text = "\n".join(pieces)
    starts = list(accumulate((len(piece) + 1 for piece in pieces), initial=0))
    found: list[set[str]] = [set() for _ in pieces]
    searched = [(name, POINTED[name]) for name in POINTED.keys() & possible]
    if elsewhere(text):
        searched += POINTED_ELSEWHERE.items()
    for name, words in searched:
        for match in words.finditer(text):
            found[min(bisect_right(starts, match.start()), len(pieces)) - 1].add(name)
    return found


def _signals(
    passage: Passage,
    number: int,
    concepts: Set[str],
    possible: Set[str],
    own: Set[str] | None,
    topic: str,
) -> list[Signal]:
    """The signals of one segment."""
    piece = passage.pieces[number]
    said = concepts if own is None else concepts | foreign_tools(piece, own)
    if not said:
        return []
    lower = _NAMED_AFTER.sub(_UNREAD, piece.lower())
    wanted = still_wanted(frozenset(said)) & possible
    said = said | {name for name in wanted if CONNECTING[name].search(lower)}
    if elsewhere(lower):
        said |= {name for name, words in CONNECTING_ELSEWHERE.items() if words.search(lower)}
    if own_call(lower, topic):
        said |= {"own_call"}
    if own_server(lower, topic):
        said |= {"own_server"}
    if passage.where in ("description", "name", "title") and number == 0:
        said -= {
            "imperative",
            "acts",
            "redirect",
        }  # what a tool does is said in the form of an order
    elif passage.slot:
        said |= off_topic(said, f"{topic} {passage.about.lower()}")
        if "off_topic" in said:
            said |= _FILLED
    else:
        said |= off_topic(said, topic)
    return signals_of(said)


def _heaviest(passage: Passage, found: Sequence[Sequence[Signal]], pieces: Sequence[str]) -> Scan:
    """The window of a passage that weighs most, with what its form and its wording tell."""
    form = tuple(
        Finding(one.signal, one.reason, one.weight, passage.where, _cut(one.text))
        for one in passage.form
    )
    best = _ordered(form)
    if not (form or any(found)):
        return best  # wording counts beside what was found, and alone is not even read
    said = Said(pieces, opening=passage.where == "description")
    for start in range(len(found)):
        near: dict[str, Finding] = {}
        for number, signals in enumerate(found[start : start + WINDOW], start):
            for signal in signals:
                if signal.name not in near:
                    text = _cut(passage.pieces[number])
                    near[signal.name] = Finding(
                        signal.name, signal.reason, signal.weight, passage.where, text
                    )
        number, weight = said.heaviest(start, start + WINDOW)
        if weight and (near or form):
            near["wording"] = Finding(
                "wording", said.reason(number), weight, passage.where, _cut(passage.pieces[number])
            )
        best = max(best, _ordered(chain(form, near.values())), key=lambda one: one.score)
    return best


def _ordered(findings: Iterable[Finding]) -> Scan:
    return Scan(tuple(sorted(findings, key=lambda one: (-one.weight, one.signal))))


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _EXCERPT else f"{line[: _EXCERPT - 3]}..."
