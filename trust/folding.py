"""Folding: text as a model reads it, whatever letters it is written in, cut into segments.

A model reads full-width letters, Cyrillic look-alikes inside Latin words and base64 as readily as
plain words, so what it says is looked for in their plain form.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
import unicodedata
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

LONGEST: Final = 20_000
"""Characters read of one text; a description holds at most 16,384."""
DECODED_BYTES: Final = 4_096
"""Bytes decoded of one encoded stretch."""
_SHORT = 40  # a segment under this belongs to the one after it: a tag or a heading on its own line

_LOOKALIKES = str.maketrans(
    "аеорсухіјѕԁһԛԝьвкмнтгАВЕКМНОРСТХІЈЅαοιρντκυχ",
    "aeopcyxijsdhqwbbkmhtrABEKMHOPCTXIJSaoipvtkux",
)
_LETTERS = re.compile(r"[^\W\d_]+")
_MIXES = re.compile(r"[a-zA-Z][\u0370-\u04ff]|[\u0370-\u04ff][a-zA-Z]")
_GAP = re.compile(r"[ \t]{80,}|(?:\n[ \t]*){12,}")
_QUOTES = str.maketrans("\u2018\u2019\u201c\u201d\u2032", "''\"\"'")
_END = re.compile(
    r"(?<=[.!?;])(?<!e\.g\.)(?<!i\.e\.)(?<![ (]np\.)(?<!z\.B\.)[\"')\]]?\s+|(?<=[。！？；])|"
    r"\n+|\s[-*\u2022]\s|\s(?=\w+ ?\((?:str|int|float|bool|"
    r"list|dict|opt|req))"
)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_HEX = re.compile(r"\b(?:[0-9a-f]{2}){16,}\b", re.IGNORECASE)
_ESCAPES = re.compile(r"(?:\\u[0-9a-f]{4}|\\x[0-9a-f]{2}|%[0-9a-f]{2}|&#x?[0-9a-f]+;){6,}", re.I)
_WORDS = re.compile(r"(?<![a-z])[a-z]{2,30}(?:[ ,.'\n]{1,3}[a-z~/.]{1,30}){2}", re.IGNORECASE)


def fold(text: str) -> str:
    """Text in compatibility form, look-alike letters inside Latin words made Latin.

    Args:
        text: cleaned text, see `catalog.text`.
    """
    if text.isascii():
        return text[:LONGEST]
    folded = unicodedata.normalize("NFKC", text[:LONGEST]).translate(_QUOTES)
    return _LETTERS.sub(_latin, folded) if _MIXES.search(folded) else folded


def mixed_words(text: str) -> int:
    """Words that mix Latin letters with look-alikes of other scripts."""
    if text.isascii():
        return 0
    return sum(
        1
        for word in _LETTERS.finditer(text[:LONGEST])
        if len(word[0]) > 3 and _MIXES.search(word[0]) and _latin(word).isascii()
    )


def _latin(word: re.Match[str]) -> str:
    """A word, made Latin if it mixes scripts."""
    return word[0].translate(_LOOKALIKES) if _MIXES.search(word[0]) else word[0]


def padded(text: str) -> bool:
    """Whether white space enough to fill a screen stands before further text."""
    end = len(text.rstrip())
    return any(gap.end() < end for gap in _GAP.finditer(text[:LONGEST]))


def segments(text: str) -> list[str]:
    """Folded text cut at the ends of sentences and lines; short pieces go with the next."""
    pieces: list[str] = []
    held = ""
    for piece in _END.split(text):
        piece = f"{held} {piece.strip()}" if held else piece.strip()
        held = ""
        if len(piece) < _SHORT and not piece.endswith((".", "!", "?")):
            held = piece
        elif piece:
            pieces.append(piece)
    if held:
        pieces.append(held)
    return pieces


def hidden_texts(text: str) -> Iterator[str]:
    """What stretches in base64, hexadecimal or escapes say, where they say words.

    Args:
        text: as it stands in the definition, case kept.
    """
    for stretch in _BASE64.finditer(text):
        yield from _words(_from_base64(stretch[0]))
    for stretch in _HEX.finditer(text):
        yield from _words(bytes.fromhex(stretch[0][: 2 * DECODED_BYTES]))
    for stretch in _ESCAPES.finditer(text):
        plain = html.unescape(unquote(stretch[0]))
        yield from _words(re.sub(r"\\[ux]([0-9a-fA-F]+)", _character, plain).encode())


def _character(escape: re.Match[str]) -> str:
    code = int(escape[1], 16)
    return "" if 0xD800 <= code <= 0xDFFF else chr(code)


def _from_base64(stretch: str) -> bytes:
    plain = stretch.rstrip("=").replace("-", "+").replace("_", "/")[: DECODED_BYTES * 4 // 3]
    plain = plain[: len(plain) - (len(plain) % 4 == 1)]
    try:
        data = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except binascii.Error:
        return b""
    return data.decode("utf-16-le", "ignore").encode() if data[1:8:2] == b"\0\0\0\0" else data


def _words(data: bytes) -> Iterator[str]:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    if _WORDS.search(text):
        yield text
