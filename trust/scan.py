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
from .plain_form import decoded_passages, plain_form, without_disguises
from .scan_rules import CONCEPTS, EMPHASIS_ORDERS, IMITATION_ORDERS, PROMPT_BLOCK, RULES, ScanRule

_END: Final = re.compile(r"(?<=[.!?;])['\")\]]?\s+|\n+|(?<=[。！？；])")
# A first sentence without a full stop, and one more line that is not its continuation.
_SECOND_LINE: Final = re.compile(r"[^.!?;]{0,400}?\n\s{0,20}[A-Z]")
_INVISIBLE: Final = re.compile(
    r"(\d+) (tag|bidi override|bidi|zero-width|variation selector|combining) character"
)
_MAX_INVISIBLE: Final = {
    "tag": 0,
    "bidi override": 0,
    "bidi": 3,
    "zero-width": 15,
    "variation selector": 8,
    "combining": 60,
}
# Characters that no standard gives a meaning; Apple uses the last of the first block for its logo.
_PRIVATE_USE: Final = re.compile("[\ue000-\uf8fe\U000f0000-\U0010ffff]")
_RULES_FOR_PLAIN_TEXT: Final = tuple(rule for rule in RULES if not rule.encoded_text_only)
_EXCERPT_CHARS: Final = 160
_MAX_FINDINGS: Final = 20
_MAX_BLOCKS: Final = 8
_MAX_BLOCK_CHARS: Final = 4_000


def scan(tool: Tool) -> tuple[Finding, ...]:
    """The findings in a definition, quarantine first; empty for most definitions.

    At most `MAX_SCANNED_CHARACTERS` and `MAX_SCANNED_STRINGS` are read. More gives a warning.

    Args:
        tool: the definition; all its text that a model may read is scanned.
    """
    findings = list(_invisible_characters(tool))
    texts = scanned_texts(tool, findings)
    findings += _rule_findings(texts)
    for text_field in texts:
        for hidden in decoded_passages(text_field.text):
            where = f"{text_field.where} (encoded)"
            hidden_findings = _rule_findings(
                [
                    Text(
                        where,
                        without_disguises(hidden),
                        describes_argument=text_field.describes_argument,
                        was_encoded=True,
                    )
                ]
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
    return tuple(first[:_MAX_FINDINGS])


def scanned_texts(tool: Tool, findings: list[Finding] | None = None) -> list[Text]:
    """The texts that a model may read, without disguises, up to the limits.

    Args:
        tool: the definition.
        findings: gets what is wrong with the texts themselves.
    """
    findings = [] if findings is None else findings
    texts: list[Text] = []
    characters_left = MAX_SCANNED_CHARACTERS
    for text_field in texts_of_tool(tool):
        if len(text_field.text) > characters_left or len(texts) == MAX_SCANNED_STRINGS:
            findings.append(
                Finding("too_long", "warn", text_field.where, "not all of it was scanned")
            )
        if characters_left <= 0 or len(texts) == MAX_SCANNED_STRINGS:
            break
        text = without_disguises(
            text_field.text[:characters_left], is_identifier=text_field.is_name
        )
        text = text[:MAX_SCANNED_CHARACTERS]
        texts.append(text_field._replace(text=text))
        if not text.isascii() and _PRIVATE_USE.search(text):
            findings.append(
                Finding("hidden_text", "quarantine", text_field.where, "private-use characters")
            )
        characters_left -= max(len(text_field.text), len(text))
    return texts


def sentences_with(texts: list[Text], rules: Iterable[ScanRule]) -> list[Finding]:
    """The sentences of a definition's texts at which rules match, in order of the rules."""
    passages = _Passages(texts)
    return [
        Finding(rule.code, rule.level, *passages.quoted(number))
        for rule in rules
        for number in passages.matches(rule)
    ]


def _invisible_characters(tool: Tool) -> Iterator[Finding]:
    """Invisible characters that cleaning removed, if they are enough to spell a word."""
    counts: Counter[str] = Counter()
    for note in tool.cleaned:
        # A server chooses the names in the first part.
        where, _, removed = note.rpartition(": ")
        if match := _INVISIBLE.match(removed):
            counts[match[2]] += int(match[1])
            if counts[match[2]] > _MAX_INVISIBLE[match[2]]:
                yield Finding("hidden_text", "quarantine", where, removed)


def _rule_findings(fields: list[Text]) -> list[Finding]:
    """The rules that match."""
    passages = _Passages(fields)
    rules = RULES if fields and fields[0].was_encoded else _RULES_FOR_PLAIN_TEXT
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
    """Texts in plain form, cut into numbered sentences, with the concepts in each.

    Args:
        fields: the texts of a definition, without disguises.
    """

    def __init__(self, fields: list[Text]) -> None:
        self._fields = fields
        self._plain_texts = [plain_form(field.text) for field in fields]
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
            for start in range(number - rule.sentence_count + 1, number + 1):
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
        for match in islice(PROMPT_BLOCK.finditer(self._words), _MAX_BLOCKS):
            close = f"</{match['imitation'] or match['emphasis']}>"
            end = self._words.find(close, match.end(), match.end() + _MAX_BLOCK_CHARS)
            orders = IMITATION_ORDERS if match["imitation"] else EMPHASIS_ORDERS
            if end > 0 and orders.search(self._words, match.end(), end):
                yield self._sentence_at(match.start())

    def quoted(self, number: int) -> tuple[str, str]:
        """The field of a sentence, and its text."""
        starts = self._sentence_starts
        start = starts[number]
        end = starts[number + 1] if number + 1 < len(starts) else len(self._text)
        where = self._fields[self._field_of(number)].where
        return where, _excerpt(self._text[start : min(end, start + 4 * _EXCERPT_CHARS)])

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
            for sentence in range(
                max(start, 0), min(start + rule.sentence_count, len(self._sentence_starts))
            )
            if self._field_of(sentence) == field_number
        )
        field = self._fields[field_number]
        if (rule.arguments_only and not field.describes_argument) or (
            rule.encoded_text_only and not field.was_encoded
        ):
            return frozenset()
        if field.is_long_list and len(rule.needs) > 1:
            return frozenset()
        if (
            not rule.reads_first_sentence
            and field.where == "description"
            and not _SECOND_LINE.match(field.text)
        ):
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
    possible = not concept.required_texts or any(map(text.__contains__, concept.required_texts))
    return possible and concept.expression.search(text) is not None


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _EXCERPT_CHARS else f"{line[: _EXCERPT_CHARS - 3]}..."


MAX_SCANNED_CHARACTERS: Final = 200_000
"""Characters of one definition that are scanned."""
MAX_SCANNED_STRINGS: Final = 20_000
"""Strings of one definition that are scanned."""
_LONG_LIST_CHARS: Final = 500
_SCHEMA_KEYWORDS: Final = frozenset(
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
        is_name: whether it is a name.
        describes_argument: whether it describes a value that the model fills in.
        is_long_list: whether it is a long list of names or values, in which neighbouring words are
            less related.
        was_encoded: whether it was decoded from base64 or hexadecimal.
    """

    where: str
    text: str
    is_name: bool = False
    describes_argument: bool = False
    is_long_list: bool = False
    was_encoded: bool = False


def texts_of_tool(tool: Tool) -> Iterator[Text]:
    """Server, name, id, title, description, tags, and every key and string of schemas and hints."""
    if tool.server:
        yield Text("server", tool.server, is_name=True)
    yield Text("name", tool.name, is_name=True)
    if tool.id not in (tool.name, f"{tool.server}/{tool.name}"):
        yield Text("id", tool.id, is_name=True)
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
    describes_argument = field == "input_schema"
    while stack:
        value, path = stack.pop()
        if isinstance(value, dict):
            names = [key for key in value if key not in _SCHEMA_KEYWORDS]
            if names:
                yield _joined_text(names, path, describes_argument, is_name=True)
            for key, child in value.items():
                if isinstance(child, str):
                    if child not in _SCHEMA_KEYWORDS:
                        yield Text(f"{path}.{key}", child, False, describes_argument)
                elif isinstance(child, dict | list):
                    stack.append((child, f"{path}.{key}"))
        else:
            strings = [
                item for item in value if isinstance(item, str) and item not in _SCHEMA_KEYWORDS
            ]
            if strings:
                yield _joined_text(strings, path, describes_argument)
            stack.extend((item, path) for item in value if isinstance(item, dict | list))


def _joined_text(
    strings: list[str], path: str, describes_argument: bool, *, is_name: bool = False
) -> Text:
    text = " ".join(strings)
    return Text(path, text, is_name, describes_argument, len(text) > _LONG_LIST_CHARS)
