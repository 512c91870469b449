"""Bytes of an HTTP answer that should be text: their media type, encoding and characters.

Python's reader of headers takes seconds for a header of 97,000 semicolons, and its decoders for
30 MB of bytes that are no characters.
"""

from __future__ import annotations

import codecs
import re

from . import MAX_DAMAGED_CHARS, MAX_HEADER_CHARS, MAX_LOOP_CHARS

_CHARSET = re.compile(r""";\s*charset\s*=\s*["']?([\w.:-]{1,40})""", re.I | re.A)
#: Codecs of Python that are character sets of the web. Of the others, some are no character sets,
#: some take very long, and some give half surrogate pairs.
_WEB_CODECS = re.compile(
    r"ascii|utf-8(-sig)?|utf-(16|32)(-[bl]e)?|iso8859-\d+|cp\d+|koi8[-_][rut]|mac-\w+|tis-620|hz"
    r"|gbk|gb2312|gb18030|big5(hkscs)?|euc_(jp|kr)|shift_jis|johab|iso2022_(jp|kr)"
)
_ENDIAN = {"utf-16": "utf-16-le", "utf-32": "utf-32-le"}


class DamagedTextError(ValueError):
    """Bytes that are no text in their encoding; the message says so."""


class DamageLimit:
    """Counts the damaged characters of one text.

    Example:
        >>> DamageLimit().count(3)
    """

    def __init__(self) -> None:
        self._damaged_chars = 0

    def count(self, damaged_chars: int) -> None:
        """Count some more.

        Raises:
            DamagedTextError: these are too many.
        """
        self._damaged_chars += damaged_chars
        if self._damaged_chars > MAX_DAMAGED_CHARS:
            raise DamagedTextError(
                f"more than {MAX_DAMAGED_CHARS:,} damaged characters: it is no text in the "
                "encoding that it names"
            )


def media_type(content_type: str) -> str:
    """The media type of a `Content-Type` header, in small letters; "" without one.

    Example:
        >>> media_type("Text/HTML; charset=utf-8")
        'text/html'
    """
    return content_type[:MAX_HEADER_CHARS].partition(";")[0].strip().lower()


def charset(content_type: str) -> str:
    """The codec for the encoding that a `Content-Type` header names; `utf-8` for any other.

    Example:
        >>> charset("text/csv; charset=Windows-1251"), charset("text/csv; charset=punycode")
        ('cp1251', 'utf-8')
    """
    if (match := _CHARSET.search(content_type[:MAX_HEADER_CHARS])) is not None:
        try:
            name = codecs.lookup(match[1]).name
        except LookupError:
            return "utf-8"
        if _WEB_CODECS.fullmatch(name):
            return name
    return "utf-8"


def decoded_text(content: bytes, codec: str = "utf-8") -> str:
    r"""The text of bytes, decoded in parts: other threads run in between.

    Characters that are damaged become U+FFFD.

    Args:
        content: the bytes.
        codec: a result of `charset`.

    Raises:
        DamagedTextError: too many characters are damaged.

    Example:
        >>> decoded_text(b"caf\xe9", "cp1252"), decoded_text(b"caf\xe9")
        ('café', 'caf\ufffd')
    """
    try:
        return _decoded_in_parts(content, codec)
    except DamagedTextError:
        raise
    except UnicodeError:
        # A few codecs know no replacement. UTF-16 and UTF-32 want to begin with their byte order.
        return _decoded_in_parts(content, _ENDIAN.get(codec, "utf-8"))


def is_utf8(content: bytes) -> bool:
    """Whether bytes are text in UTF-8, without damage."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _decoded_in_parts(content: bytes, codec: str) -> str:
    decoder = codecs.getincrementaldecoder(codec)("replace")
    damage, parts = DamageLimit(), []
    for start in range(0, len(content), MAX_LOOP_CHARS):
        text = decoder.decode(content[start : start + MAX_LOOP_CHARS])
        damage.count(text.count("\ufffd"))
        parts.append(text)
    parts.append(decoder.decode(b"", final=True))
    return "".join(parts)
