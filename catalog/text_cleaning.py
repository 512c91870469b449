"""Cleans tool text: removes invisible characters, so that a model reads only what a person sees.

Removed, and counted by kind: control characters (tab and newline stay, CR becomes a newline),
zero-width characters, bidirectional controls, Unicode tag characters, stray variation selectors,
lone surrogates, non-characters, and combining marks beyond 30 in a row (the bound of UAX #15's
stream-safe format). Text is then normalised to NFC and cut to its bound.

Kept, because scripts and emoji need them: one zero-width joiner or non-joiner after a letter or
mark of a script that joins (Arabic, Indic, ...), a zero-width joiner between two emoji, and an
emoji or text presentation selector after a symbol. Tag characters are always removed. The flags
of England, Scotland and Wales are a black flag and tag characters, so only the black flag stays.
Their tag characters are counted as the kind `flag tag`.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import cache

NAME_LIMIT = 256
"""Maximum characters of a name, a server or a title. The longest real tool name found has 115."""
ID_LIMIT = 2 * NAME_LIMIT + 1
"""Maximum characters of an id: a server, a slash and a name."""
DESCRIPTION_LIMIT = 16_384
"""Maximum characters of a description, also in a schema. The longest real one found has 8,018."""
TAG_LIMIT = 128
"""Maximum characters of one of a tool's `tags`."""
MARKS_LIMIT = 30
"""Combining marks in a row (UAX #15, section 13); putting them in order takes quadratic time."""
NOTES_LIMIT = 32
"""Maximum number of notes for one tool. A last note counts the others."""

_PLAIN = re.compile(r"[\n\t\x20-\x7e]*")
_PLAIN_LINE = re.compile(r"([\x21-\x7e]+( +[\x21-\x7e]+)*)?")
_ONE_LINE = str.maketrans("\n\t", "  ")
_NEWLINES = re.compile("\r\n?|[\x85\u2028\u2029]")
_JOINING = (
    "\u0600-\u08ff\u0900-\u109f\u1780-\u18af\u1900-\u1aaf\u1b00-\u1c4f\ua800-\ua8ff"
    "\ua930-\ua9df\uaa00-\uaaff\uabc0-\uabff\ufb50-\ufdcf\ufdf0-\ufdff\ufe70-\ufefc\U00010a00-\U00011fff"
)
_EMOJI = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2934\u2935"
    "\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_KEPT_CHARACTERS = (
    rf"(?<=[{_JOINING}])[\u200c\u200d](?![\u200c\u200d])"
    rf"|(?:(?<=[{_EMOJI}])|(?<=[{_EMOJI}]\ufe0f))\u200d(?=[{_EMOJI}])"
    rf"|(?<=[{_EMOJI}])[\ufe0e\ufe0f]"
    r"|(?<=[0-9#*])\ufe0f(?=\u20e3)"
)
_REMOVED_BY_KIND = {
    "control": r"\x00-\x08\x0b-\x1f\x7f-\x9f\u206a-\u206f\ufff9-\ufffb",
    "zero-width": r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200d\u2060-\u2065"
    r"\u3164\ufeff\uffa0",
    "bidi": r"\u061c\u200e\u200f\u202a-\u202c\u2066-\u2069",
    "bidi override": r"\u202d\u202e",
    "tag": r"\U000e0000-\U000e00ff\U000e01f0-\U000e0fff",
    "variation selector": r"\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef",
    "surrogate": r"\ud800-\udfff",
    "non-character": r"\ufdd0-\ufdef\ufff0-\ufff8"
    + "".join(rf"\U{p:04x}fffe\U{p:04x}ffff" for p in range(17)),
}
_FLAG_TAGS = (
    "(?<=\U0001f3f4)\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067"
    "|\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)\U000e007f"
)
#: Matches a kept character (group 1), a flag's tags, or a removed one; the group tells the kind.
_KEPT_OR_REMOVED = re.compile(
    f"({_KEPT_CHARACTERS})|({_FLAG_TAGS})|"
    + "|".join(f"([{characters}])" for characters in _REMOVED_BY_KIND.values())
)
#: Matches characters that may be removed, wherever they stand: a quick test.
_MAYBE_REMOVED = re.compile(f"[{''.join(_REMOVED_BY_KIND.values())}]")
_KIND_OF_GROUP = ("", "", "flag tag", *_REMOVED_BY_KIND)
_JOINERS = re.compile("[\u200c\u200d]")
_LINE_ENDS = "\u2028\u2029"
#: Matches a kept character (group 1), or one that `written_out` writes as its code point.
_KEPT_OR_WRITTEN_OUT = re.compile(
    f"({_KEPT_CHARACTERS})|[{''.join(_REMOVED_BY_KIND.values())}{_LINE_ENDS}]"
)
#: Real text needs two passes. The fourth pass removes all joiners, so that any text ends.
_MAX_PASSES = 4


@cache
def _mark_runs() -> re.Pattern[str]:
    """Runs of combining marks past the bound, with any joiner that would follow them."""
    marks = "".join(
        re.escape(chr(c)) for c in range(0x300, 0x1E950) if unicodedata.combining(chr(c))
    )
    return re.compile(f"([{marks}][{marks}]{{{MARKS_LIMIT - 1}}})[{marks}\u200c\u200d]+")


class CleaningNotes:
    """Records what cleaning removed from one tool, in order."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._more = 0
        self._more_characters: Counter[str] = Counter()

    def add(self, field: str, change: str) -> None:
        """Record a change of a field. Beyond the maximum, only the number is kept."""
        if len(self._lines) < NOTES_LIMIT:
            self._lines.append(f"{field}: {change}")
        else:
            self._more += 1

    def add_removed(self, field: str, count: int, kind: str) -> None:
        """Record removed characters. Beyond the maximum, they are counted over all fields."""
        if len(self._lines) >= NOTES_LIMIT:
            self._more_characters[kind] += count
        self.add(field, _characters(count, kind))

    def as_tuple(self) -> tuple[str, ...]:
        """The notes. Last lines count the characters, and the notes, beyond the maximum."""
        rest = [
            f"other fields: {_characters(count, kind)}"
            for kind, count in self._more_characters.items()
        ]
        more = [f"and {self._more} more"] if self._more else []
        return (*self._lines, *rest, *more)


def _characters(count: int, kind: str) -> str:
    return f"{count} {kind} character{'s' if count > 1 else ''}"


def clean(text: str, field: str, notes: CleaningNotes, limit: int | None = None) -> str:
    """The text without invisible characters, in NFC, at most `limit` characters. Idempotent.

    Args:
        text: any string, lone surrogates included.
        field: name of the field in notes.
        notes: gets one line for each kind of removed characters.
        limit: maximum number of characters; None for no limit.
    """
    length = len(text)
    if limit is not None and length > 4 * limit:
        text = text[: 4 * limit]
    if _PLAIN.fullmatch(text) is None:
        text = _strip(text, field, notes)
    if limit is not None and (length > 4 * limit or len(text) > limit):
        text = text[:limit].rstrip("\u200c\u200d\ufe0f")
        notes.add(field, f"cut from {length:,} to {len(text):,} characters")
    return text


def clean_line(text: str, field: str, notes: CleaningNotes, limit: int | None = None) -> str:
    """The same for a one-line text: trimmed, with spaces for tabs and newlines."""
    if (limit is None or len(text) <= limit) and _PLAIN_LINE.fullmatch(text):
        return text
    return clean(text, field, notes, limit).translate(_ONE_LINE).strip()


def visible_line(text: str, limit: int | None = None) -> str:
    """`clean_line` without notes, for texts of which nobody asks what was removed.

    Args:
        text: any string, lone surrogates included.
        limit: maximum number of characters; None for no limit.
    """
    return clean_line(text, "", CleaningNotes(), limit)


def written_out(text: str) -> str:
    r"""The text with every character that cleaning would remove written out, such as `\u202e`.

    For text that a person reads before deciding something: nothing of it is removed or hidden.

    Args:
        text: any string, lone surrogates included.

    Example:
        >>> written_out("pay \u202e001")
        'pay \\u202e001'
    """
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n")
    return text if _PLAIN.fullmatch(text) else _KEPT_OR_WRITTEN_OUT.sub(_code_point, text)


def _code_point(match: re.Match[str]) -> str:
    if match.lastindex == 1:
        return match[0]
    number = ord(match[0])
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def _strip(text: str, field: str, notes: CleaningNotes) -> str:
    counts: Counter[str] = Counter()
    recomposed = False

    def replacement(match: re.Match[str]) -> str:
        group = match.lastindex or 0
        if group == 1:
            return match[0]
        counts[_KIND_OF_GROUP[group]] += len(match[0])
        return ""

    text = _NEWLINES.sub("\n", text)
    passes = 0
    while True:  # a removal can bring marks together, and reordering those can strand a joiner
        passes += 1
        visible = _KEPT_OR_REMOVED.sub(replacement, text) if _MAYBE_REMOVED.search(text) else text
        if passes == _MAX_PASSES:
            counts["zero-width"] += len(visible)
            visible = _JOINERS.sub("", visible)
            counts["zero-width"] -= len(visible)
        bounded = _mark_runs().sub(r"\1", visible)
        counts["combining"] += len(visible) - len(bounded)
        composed = unicodedata.normalize("NFC", bounded)
        recomposed |= composed != bounded
        if composed == text:
            break
        text = composed
    for kind in (*_REMOVED_BY_KIND, "flag tag", "combining"):
        if count := counts[kind]:
            notes.add_removed(field, count, kind)
    if recomposed:
        notes.add(field, "normalised to NFC")
    return text
