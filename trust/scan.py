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
# A first sentence without a full stop, and one more line that is not its continuation.
_SECOND_LINE: Final = re.compile(r"[^.!?;]{0,400}?\n\s{0,20}[A-Z]")
_INVISIBLE: Final = re.compile(
    r"(\d+) (tag|bidi override|bidi|zero-width|variation selector|combining) character"
)
_MOST_INVISIBLE: Final = {
    "tag": 0,
    "bidi override": 0,
    "bidi": 3,
    "zero-width": 15,
    "variation selector": 8,
    "combining": 60,
}
# Characters that no standard gives a meaning; Apple uses the last of the first block for its logo.
_PRIVATE_USE: Final = re.compile("[\ue000-\uf8fe\U000f0000-\U0010ffff]")
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
    findings = list(_invisible_characters(tool))
    scanned_texts: list[Text] = []
    characters_left = MOST_CHARACTERS
    for text_field in texts(tool):
        if len(text_field.text) > characters_left or len(scanned_texts) == MOST_STRINGS:
            findings.append(
                Finding("too_long", "warn", text_field.where, "not all of it was scanned")
            )
        if characters_left <= 0 or len(scanned_texts) == MOST_STRINGS:
            break
        text = visible(text_field.text[:characters_left], identifier=text_field.identifier)
        text = text[:MOST_CHARACTERS]
        scanned_texts.append(text_field._replace(text=text))
        if not text.isascii() and _PRIVATE_USE.search(text):
            findings.append(
                Finding("hidden_text", "quarantine", text_field.where, "private-use characters")
            )
        characters_left -= max(len(text_field.text), len(text))
    findings += _rule_findings(scanned_texts)
    for text_field in scanned_texts:
        for hidden in decoded(text_field.text):
            where = f"{text_field.where} (encoded)"
            hidden_findings = _rule_findings(
                [Text(where, visible(hidden), slot=text_field.slot, encoded=True)]
            )
            findings += hidden_findings or [
                Finding("encoded_text", "warn", text_field.where, _excerpt(hidden))
            ]
    unique = {
        (finding.code, finding.where): finding
        for finding in sorted(findings, key=lambda finding: finding.level)
    }
    first = sorted(
        unique.values(), key=lambda finding: (finding.level != "quarantine", finding.code)
    )
    return tuple(first[:_MOST_FINDINGS])


def _invisible_characters(tool: Tool) -> Iterator[Finding]:
    """Invisible characters that cleaning removed, if they are enough to spell a word."""
    counts: Counter[str] = Counter()
    for note in tool.cleaned:
        where, _, removed = note.partition(": ")
        if match := _INVISIBLE.match(removed):
            counts[match[2]] += int(match[1])
            if counts[match[2]] > _MOST_INVISIBLE[match[2]]:
                yield Finding("hidden_text", "quarantine", where, removed)


def _rule_findings(fields: list[Text]) -> list[Finding]:
    """The rules that match."""
    passages = _Passages(fields)
    rules = RULES if fields and fields[0].encoded else _OTHER_RULES
    findings = [
        Finding(rule.code, rule.level, *passages.quoted(number))
        for rule in rules
        for number in passages.matches(rule)
    ]
    findings += (
        Finding("imitates_system", "quarantine", *passages.quoted(number))
        for number in passages.blocks()
    )
    return findings


class _Passages:
    """Texts in plain form, cut into numbered sentences, with the concepts in each."""

    def __init__(self, fields: list[Text]) -> None:
        self._fields = fields
        self._plain_texts = [plain(field.text) for field in fields]
        # Line breaks end sentences, but they do not separate the words of a concept.
        self._text = "\n".join(self._plain_texts)
        self._words = "\n".join(text.replace("\n", " ") for text in self._plain_texts)
        self._occurs = cache(partial(_concept_occurs, self._words))
        self._sentences_by_concept: dict[str, frozenset[int]] = {}

    def matches(self, rule: ScanRule) -> Iterable[int]:
        """Numbers of the sentences at which a rule matches."""
        return self._sentences_matching(rule) if all(map(self._occurs, rule.needs)) else ()

    def _sentences_matching(self, rule: ScanRule) -> Iterator[int]:
        needed = [self._sentences_with(name) for name in rule.needs]
        excluding = [self._sentences_with(name) for name in rule.unless]
        for number in sorted(needed[0]):
            for start in range(number - rule.span + 1, number + 1):
                window = self._window(start, rule, number)
                if all(window & sentences for sentences in needed) and not any(
                    window & sentences for sentences in excluding
                ):
                    yield number
                    break

    def blocks(self) -> Iterator[int]:
        """Numbers of the sentences that open a block of instructions in markup of a prompt."""
        if "<" not in self._words:
            return
        for match in islice(BLOCK.finditer(self._words), _MOST_BLOCKS):
            close = f"</{match[1] or match[2]}>"
            end = self._words.find(close, match.end(), match.end() + _LONGEST_BLOCK)
            orders = ORDERS if match[1] else REACHING_ORDERS
            if end > 0 and orders.search(self._words, match.end(), end):
                yield self._sentence_at(match.start())

    def quoted(self, number: int) -> tuple[str, str]:
        """The field of a sentence, and its text."""
        starts = self._sentence_starts
        start = starts[number]
        end = starts[number + 1] if number + 1 < len(starts) else len(self._text)
        where = self._fields[self._field_of(number)].where
        return where, _excerpt(self._text[start : min(end, start + 4 * _EXCERPT)])

    def _sentences_with(self, name: str) -> frozenset[int]:
        """Numbers of the sentences with a concept."""
        sentences = self._sentences_by_concept.get(name)
        if sentences is None:
            matches = CONCEPTS[name].expression.finditer(self._words) if self._occurs(name) else ()
            sentences = self._sentences_by_concept[name] = frozenset(
                self._sentence_at(match.start()) for match in matches
            )
        return sentences

    def _window(self, start: int, rule: ScanRule, number: int) -> frozenset[int]:
        """The sentences from `start` on that a rule reads, all of the same text."""
        field_number = self._field_of(number)
        sentences = frozenset(
            sentence
            for sentence in range(max(start, 0), min(start + rule.span, len(self._sentence_starts)))
            if self._field_of(sentence) == field_number
        )
        field = self._fields[field_number]
        if (rule.slot and not field.slot) or (rule.encoded and not field.encoded):
            return frozenset()
        if field.loose and len(rule.needs) > 1:
            return frozenset()
        if not rule.opening and field.where == "description" and not _SECOND_LINE.match(field.text):
            sentences -= {self._sentence_at(self._field_starts[field_number])}
        return sentences

    def _sentence_at(self, position: int) -> int:
        return bisect_right(self._sentence_starts, position) - 1

    def _field_of(self, number: int) -> int:
        return bisect_right(self._field_starts, self._sentence_starts[number]) - 1

    @cached_property
    def _field_starts(self) -> list[int]:
        """The start of each text."""
        return [0, *accumulate(len(text) + 1 for text in self._plain_texts[:-1])]

    @cached_property
    def _sentence_starts(self) -> list[int]:
        """The start of each sentence. Every text starts a new one."""
        return [0, *(match.end() for match in _END.finditer(self._text))]


def _concept_occurs(text: str, name: str) -> bool:
    """Whether a concept occurs in a text."""
    concept = CONCEPTS[name]
    possible = not concept.letters or any(map(text.__contains__, concept.letters))
    return possible and concept.expression.search(text) is not None


def _excerpt(text: str) -> str:
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
            yield from _texts_inside(value, field)


def _texts_inside(root: dict[str, Any], field: str) -> Iterator[Text]:
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
                yield _joined_text(names, path, slot, identifier=True)
            for key, child in value.items():
                if isinstance(child, str):
                    if child not in _KEYWORDS:
                        yield Text(f"{path}.{key}", child, False, slot)
                elif isinstance(child, dict | list):
                    stack.append((child, f"{path}.{key}"))
        else:
            strings = [item for item in value if isinstance(item, str) and item not in _KEYWORDS]
            if strings:
                yield _joined_text(strings, path, slot)
            stack.extend((item, path) for item in value if isinstance(item, dict | list))


def _joined_text(strings: list[str], path: str, slot: bool, *, identifier: bool = False) -> Text:
    text = " ".join(strings)
    return Text(path, text, identifier, slot, len(text) > _LONG_LIST)
