"""Plain form: one spelling for a text, with disguises removed.

Models understand full-width letters, struck-through letters, HTML entities and `words_joined_so`.
So rules are matched only against the plain form.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
import unicodedata
from collections.abc import Iterator
from typing import Final

_LOOKALIKES: Final = str.maketrans(
    "аеорсухіјѕԁһԛԝьвкмнтгАВЕКМНОРСТХІЈЅαοιρντκυχ",
    "aeopcyxijsdhqwbbkmhtrABEKMHOPCTXIJSaoipvtkux",
)
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_MIXED: Final = re.compile(r"[a-zA-Z][\u0370-\u04ff]|[\u0370-\u04ff][a-zA-Z]")
_MARKS: Final = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+")
_QUOTES: Final = str.maketrans("\u2018\u2019\u201c\u201d\u2032`", "''\"\"''")
_ESCAPE: Final = re.compile(r"\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})|%([0-9a-fA-F]{2})")
# Each begins with the characters it looks for, which `re` finds faster than what lies around them.
_JOINED: Final = re.compile(r"[_.\-](?<=[a-z0-9].)[_.\-]*(?=[a-z0-9])")
_HUMPS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_HYPHENATED: Final = re.compile(r"-\n(?<=[a-z0-9]-.)[^\S\n]*(?=[a-z0-9])")
# Blanks that are more than one, or not a space.
_BLANKS: Final = re.compile(r"\s(?:(?<! )|\s)\s*")
_LIST_MARK: Final = re.compile(r"[-*+•#] |\d{1,3}[.)] ")
# Encoded text may continue on the next lines.
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{16,}(?:\n[A-Za-z0-9+/_-]{4,})*={0,2}")
_NAME: Final = re.compile(r"[A-Za-z_-]+")
_WORD_OF_NAME: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
#: Least number of characters of a word of a name, on average.
_MIN_WORD_CHARS: Final = 4
_HEX: Final = re.compile(r"(?:\b|0x)[0-9a-fA-F]{16,}(?:\n[0-9a-fA-F]{4,})*\b")
_WORDS: Final = re.compile(r"[a-zA-Z]{2,30}(?:[ ,.'\n]{1,3}[a-zA-Z~/.]{1,30}){2}")
_COMMAND: Final = re.compile(r"\b\w{2,12} (?:-\w|[~/$]|https?:)|[|(] ?\w|/\w+/\w+")
_PRINTABLE: Final = re.compile(r"[ -~\n]{8,}")
_END: Final = re.compile(r"(?<=[.!?;])\s+|\n+")
_MAX_DECODED_BYTES: Final = 4_096
"""Maximum number of decoded bytes of one encoded passage."""


def without_disguises(text: str, *, is_identifier: bool = False) -> str:
    """The text with disguises removed, letter case kept.

    Args:
        text: cleaned text, see `catalog.text_cleaning`.
        is_identifier: whether `camelCase` is split too.
    """
    if "\\" in text or "%" in text:
        text = _ESCAPE.sub(_character, text)
    if "&" in text:
        text = html.unescape(html.unescape(text))
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _MARKS.sub("", unicodedata.normalize("NFKD", text)))
        if _MIXED.search(text):
            text = _LETTERS.sub(_latin, text)
    text = text.translate(_QUOTES) if not text.isascii() or "`" in text else text
    return _HUMPS.sub(" ", text) if is_identifier else text


def plain_form(text: str) -> str:
    """A text `without_disguises` in small letters; `_`, `-` and `.` inside words are blanks.

    A line break is a blank. It stays only before a new paragraph or an item of a list.
    """
    text = _HYPHENATED.sub("-", text.lower())
    return _BLANKS.sub(_one_blank, _JOINED.sub(" ", text))


def decoded_passages(text: str) -> Iterator[str]:
    """Decoded passages of base64 or hexadecimal that contain words or a shell command."""
    for stretch in _BASE64.finditer(text):
        if _is_identifier(stretch[0]):
            continue
        yield from _words(_from_base64(stretch[0].replace("\n", "")))
    for stretch in _HEX.finditer(text):
        digits = stretch[0].removeprefix("0x").replace("\n", "")[: 2 * _MAX_DECODED_BYTES]
        yield from _words(bytes.fromhex(digits[: len(digits) // 2 * 2]))


def _is_identifier(stretch: str) -> bool:
    """Whether it is a name, such as the title `searchDocumentsArguments` that pydantic makes.

    Base64 of words has digits, and a change of letter case after two letters.
    """
    return _NAME.fullmatch(stretch) is not None and len(stretch) >= _MIN_WORD_CHARS * len(
        _WORD_OF_NAME.findall(stretch)
    )


def _one_blank(blanks: re.Match[str]) -> str:
    line_breaks = blanks[0].count("\n")
    item = line_breaks and _LIST_MARK.match(blanks.string, blanks.end())
    return "\n" if line_breaks > 1 or item else " "


def _character(escape: re.Match[str]) -> str:
    code = int(escape[1] or escape[2] or escape[3], 16)
    return " " if code < 32 or code > 126 else chr(code)


def _latin(word: re.Match[str]) -> str:
    return word[0].translate(_LOOKALIKES) if _MIXED.search(word[0]) else word[0]


def _from_base64(stretch: str) -> bytes:
    text = stretch.rstrip("=").replace("-", "+").replace("_", "/")[: _MAX_DECODED_BYTES * 4 // 3]
    text = text[: len(text) - (len(text) % 4 == 1)]
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        return b""
    return data.decode("utf-16-le", "ignore").encode() if data[1:8:2] == b"\0\0\0\0" else data


def _words(data: bytes) -> Iterator[str]:
    text = data.decode("utf-8", "ignore")
    prose = len(text) > len(data) // 2 and _WORDS.search(text)
    printable = max(_PRINTABLE.findall(text), key=len, default="")
    if prose or (len(printable) > len(data) // 2 and _COMMAND.search(printable)):
        yield text


def sentences(text: str) -> list[str]:
    """The sentences and lines of a text."""
    return [sentence for sentence in map(str.strip, _END.split(text)) if sentence]
