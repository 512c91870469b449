"""Scans the texts of a definition for hidden instructions and for strong wording."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache, cached_property, partial
from itertools import accumulate, islice
from typing import Any, Final, NamedTuple

from ..catalog import Tool
from .flag import Finding
from .plain_form import decoded, plain, visible
from .scan_rules import BLOCK, CONCEPTS, ORDERS, REACHING_ORDERS, RULES, ScanRule

_END: Final = re.compile(r"(?<=[.!?;])['\")\]]?\s+|\n+|(?<=[。！？；])")
_INVISIBLE: Final = re.compile(
    r"(\d+) (tag|bidi|zero-width|variation selector|combining) character"
)
_MOST_INVISIBLE: Final = {
    "tag": 6,
    "bidi": 3,
    "zero-width": 15,
    "variation selector": 8,
    "combining": 60,
}
_OTHER_RULES: Final = tuple(rule for rule in RULES if not rule.encoded)
_EXCERPT: Final = 160
_MOST_FINDINGS: Final = 20
_MOST_BLOCKS: Final = 8
_LONGEST_BLOCK: Final = 4_000


def scan(tool: Tool) -> tuple[Finding, ...]:
    """The findings in a definition, quarantine first; empty for most definitions.

    At most `MOST_CHARACTERS` and `MOST_STRINGS` are read. More gives a warning.

    Args:
        tool: the definition; all its text that a model may read is scanned.
    """
    found = list(_unseen(tool))
    read: list[Text] = []
    left = MOST_CHARACTERS
    for one in texts(tool):
        if len(one.text) > left or len(read) == MOST_STRINGS:
            found.append(Finding("too_long", "warn", one.where, "not all of it was scanned"))
        if left <= 0 or len(read) == MOST_STRINGS:
            break
        text = visible(one.text[:left], identifier=one.identifier)[:MOST_CHARACTERS]
        read.append(one if text == one.text else one._replace(text=text))
        left -= max(len(one.text), len(text))
    found += _scanned(read)
    for one in read:
        for hidden in decoded(one.text):
            where = f"{one.where} (encoded)"
            inside = _scanned([Text(where, visible(hidden), slot=one.slot, encoded=True)])
            found += inside or [Finding("encoded_text", "warn", one.where, _cut(hidden))]
    unique = {(one.code, one.where): one for one in sorted(found, key=lambda one: one.level)}
    first = sorted(unique.values(), key=lambda one: (one.level != "quarantine", one.code))
    return tuple(first[:_MOST_FINDINGS])


def _unseen(tool: Tool) -> Iterator[Finding]:
    """Invisible characters that cleaning removed, if they are enough to spell a word."""
    counts: Counter[str] = Counter()
    for note in tool.cleaned:
        where, _, what = note.partition(": ")
        if match := _INVISIBLE.match(what):
            counts[match[2]] += int(match[1])
            if counts[match[2]] > _MOST_INVISIBLE[match[2]]:
                yield Finding("hidden_text", "quarantine", where, what)


def _scanned(read: list[Text]) -> list[Finding]:
    """The rules that match."""
    passages = _Passages(read)
    rules = RULES if read and read[0].encoded else _OTHER_RULES
    found = [
        Finding(rule.code, rule.level, *passages.quoted(number))
        for rule in rules
        for number in passages.matches(rule)
    ]
    found += (
        Finding("imitates_system", "quarantine", *passages.quoted(number))
        for number in passages.blocks()
    )
    return found


class _Passages:
    """Texts in plain form, cut into numbered sentences, with the concepts in each."""

    def __init__(self, read: list[Text]) -> None:
        self._read = read
        self._whole = plain("\n".join(one.text for one in read))
        self._occurs = cache(partial(_occurs, self._whole))
        self._known: dict[str, frozenset[int]] = {}

    def matches(self, rule: ScanRule) -> Iterable[int]:
        """Numbers of the sentences at which a rule matches."""
        return self._near(rule) if all(map(self._occurs, rule.needs)) else ()

    def _near(self, rule: ScanRule) -> Iterator[int]:
        held = [self._holding(name) for name in rule.needs]
        innocent = [self._holding(name) for name in rule.unless]
        for number in sorted(held[0]):
            for start in range(number - rule.span + 1, number + 1):
                near = self._window(start, rule, number)
                if all(near & one for one in held) and not any(near & one for one in innocent):
                    yield number
                    break

    def blocks(self) -> Iterator[int]:
        """Numbers of the sentences that open a block of instructions in markup of a prompt."""
        if "<" not in self._whole:
            return
        for match in islice(BLOCK.finditer(self._whole), _MOST_BLOCKS):
            close = f"</{match[1] or match[2]}>"
            end = self._whole.find(close, match.end(), match.end() + _LONGEST_BLOCK)
            orders = ORDERS if match[1] else REACHING_ORDERS
            if end > 0 and orders.search(self._whole, match.end(), end):
                yield self._number(match.start())

    def quoted(self, number: int) -> tuple[str, str]:
        """The field of a sentence, and its text."""
        start = self._starts[number]
        end = self._starts[number + 1] if number + 1 < len(self._starts) else len(self._whole)
        where = self._read[self._text_of(number)].where
        return where, _cut(self._whole[start : min(end, start + 4 * _EXCERPT)])

    def _holding(self, name: str) -> frozenset[int]:
        """Numbers of the sentences with a concept."""
        known = self._known.get(name)
        if known is None:
            found = CONCEPTS[name].expression.finditer(self._whole) if self._occurs(name) else ()
            known = self._known[name] = frozenset(self._number(one.start()) for one in found)
        return known

    def _window(self, start: int, rule: ScanRule, number: int) -> frozenset[int]:
        """The sentences from `start` on that a rule reads, all of the same text."""
        text = self._text_of(number)
        near = frozenset(
            one
            for one in range(max(start, 0), min(start + rule.span, len(self._starts)))
            if self._text_of(one) == text
        )
        of = self._read[text]
        if (rule.slot and not of.slot) or (rule.encoded and not of.encoded):
            return frozenset()
        if of.loose and len(rule.needs) > 1:
            return frozenset()
        if not rule.opening and of.where == "description":
            near -= {bisect_right(self._starts, self._begins[text]) - 1}
        return near

    def _number(self, at: int) -> int:
        return bisect_right(self._starts, at) - 1

    def _text_of(self, number: int) -> int:
        return bisect_right(self._begins, self._starts[number]) - 1

    @cached_property
    def _begins(self) -> list[int]:
        """The start of each text."""
        return [0, *accumulate(len(plain(one.text)) + 1 for one in self._read[:-1])]

    @cached_property
    def _starts(self) -> list[int]:
        """The start of each sentence. Every text starts a new one."""
        return [0, *(match.end() for match in _END.finditer(self._whole))]


def _occurs(whole: str, name: str) -> bool:
    """Whether a concept occurs in a text."""
    concept = CONCEPTS[name]
    possible = not concept.letters or any(map(whole.__contains__, concept.letters))
    return possible and concept.expression.search(whole) is not None


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _EXCERPT else f"{line[: _EXCERPT - 3]}..."


MOST_CHARACTERS: Final = 200_000
"""Characters of one definition that are scanned."""
MOST_STRINGS: Final = 20_000
"""Strings of one definition that are scanned."""
_LONG_LIST: Final = 500
_KEYWORDS: Final = frozenset(
    "additionalProperties allOf anyOf default description enum examples items maxItems maxLength "
    "maximum minItems minLength minimum oneOf properties required title type string integer number "
    "boolean array object null $schema destructiveHint idempotentHint openWorldHint "
    "readOnlyHint".split()
)
"""Keywords of JSON Schema and MCP, which are not scanned."""


class Text(NamedTuple):
    """One text of a definition.

    Args:
        where: path of the field, such as `description` or
            `input_schema.properties.note.description`.
        text: the text.
        identifier: whether it is a name.
        slot: whether it describes a value that the model fills in.
        loose: whether it is a long list of names or values, in which neighbouring words are less
            related.
        encoded: whether it was decoded from base64 or hexadecimal.
    """

    where: str
    text: str
    identifier: bool = False
    slot: bool = False
    loose: bool = False
    encoded: bool = False


def texts(tool: Tool) -> Iterator[Text]:
    """Server, name, id, title, description, tags, and every key and string of schemas and hints."""
    if tool.server:
        yield Text("server", tool.server, identifier=True)
    yield Text("name", tool.name, identifier=True)
    if tool.id not in (tool.name, f"{tool.server}/{tool.name}"):
        yield Text("id", tool.id, identifier=True)
    if tool.title:
        yield Text("title", tool.title)
    if tool.description:
        yield Text("description", tool.description)
    if tool.tags:
        yield Text("tags", " ".join(tool.tags))
    for field in ("input_schema", "output_schema", "annotations"):
        if (value := getattr(tool, field)) is not None:
            yield from _inside(value, field)


def _inside(root: dict[str, Any], field: str) -> Iterator[Text]:
    """Every key and string.

    Neighbouring ones are also joined, so that an instruction cannot be split.
    """
    stack: list[tuple[Any, str]] = [(root, field)]
    slot = field == "input_schema"
    while stack:
        value, path = stack.pop()
        if isinstance(value, dict):
            names = [key for key in value if key not in _KEYWORDS]
            if names:
                yield _together(names, path, slot, identifier=True)
            for key, child in value.items():
                if isinstance(child, str):
                    if child not in _KEYWORDS:
                        yield Text(f"{path}.{key}", child, False, slot)
                elif isinstance(child, dict | list):
                    stack.append((child, f"{path}.{key}"))
        else:
            strings = [one for one in value if isinstance(one, str) and one not in _KEYWORDS]
            if strings:
                yield _together(strings, path, slot)
            stack.extend((one, path) for one in value if isinstance(one, dict | list))


def _together(strings: list[str], path: str, slot: bool, *, identifier: bool = False) -> Text:
    text = " ".join(strings)
    return Text(path, text, identifier, slot, len(text) > _LONG_LIST)
