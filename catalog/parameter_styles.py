"""How a value of an OpenAPI parameter is written in a path, query, header, cookie or form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

Style = Literal[
    "simple", "label", "matrix", "form", "spaceDelimited", "pipeDelimited", "deepObject"
]
Place = Literal["path", "query", "header", "cookie", "body"]

PARAMETER_PLACES = ("path", "query", "header", "cookie")
"""The places of parameters."""
STYLES: dict[str, tuple[Style, ...]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
    "body": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
}
"""The styles of each place, as in the OpenAPI specification. The first one is the default."""

_DELIMITERS = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}
#: Reserved characters that may stay as they are with `allowReserved`. Those that separate
#: parameters (`&`, `=`, `+`, `#`) are always encoded, so that a value cannot add parameters.
_RESERVED_CHARS = ":/?@!$'()*,;[]"
#: Characters that a cookie's value may have without encoding.
_COOKIE_CHARS = "!#$&'()*+/:<=>?@[]^`{|}"
_HEADER_VALUE = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?")


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a value is written in its place.

    Args:
        style: style of the OpenAPI specification; "" if the value is JSON.
        explode: whether each item of a list or object is a parameter of its own.
        allow_reserved: whether reserved characters of a query stay as they are.
        is_base64: whether the value is base64 of the bytes that are sent.
    """

    style: Style | Literal[""]
    explode: bool
    allow_reserved: bool = False
    is_base64: bool = False


FORM_ENCODING = Encoding("form", explode=True)
"""The encoding of parameters in a query, and of fields of a form, that declare none."""


def default_encoding(place: Place) -> Encoding:
    """The encoding of a parameter that declares none."""
    style = STYLES[place][0]
    return Encoding(style, explode=style == "form")


def plain_text(value: Any) -> str:
    """A value as text without encoding: JSON, but texts without quotation marks."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def path_text(name: str, value: Any, encoding: Encoding) -> str:
    """What replaces `{name}` in a path, percent-encoded."""
    if encoding.style == "matrix":
        return _matrix_text(_quoted(name), value, encoding)
    prefix = "." if encoding.style == "label" else ""
    if not encoding.style or not isinstance(value, dict | list):
        return prefix + _quoted(_single(value, encoding))
    if not encoding.explode:
        return prefix + ",".join(_flat(value))
    items = (f"{key}={item}" if key else item for key, item in _items(value))
    return prefix + (prefix or ",").join(items)


def _matrix_text(name: str, value: Any, encoding: Encoding) -> str:
    if not isinstance(value, dict | list):
        pairs = [(name, _quoted(plain_text(value)))]
    elif encoding.explode:
        pairs = [(key or name, item) for key, item in _items(value)]
    else:
        pairs = [(name, ",".join(_flat(value)))]
    return "".join(f";{key}={text}" if text else f";{key}" for key, text in pairs)


def query_pairs(name: str, value: Any, encoding: Encoding) -> Iterator[tuple[str, str]]:
    """Names and values in a query, percent-encoded.

    An empty list or object has none.
    """
    safe = _RESERVED_CHARS if encoding.allow_reserved else ""
    key = _quoted(name)
    if not encoding.style or not isinstance(value, dict | list):
        yield key, _quoted(_single(value, encoding), safe)
    elif encoding.style == "deepObject":
        for path, item in _deep_items(value, name):
            yield _quoted(path), _quoted(plain_text(item), safe)
    elif encoding.explode:
        for item_key, item in _items(value, safe):
            yield item_key or key, item
    elif value:
        yield key, _DELIMITERS[encoding.style].join(_flat(value, safe))


def header_text(value: Any, encoding: Encoding) -> str:
    """A header's value.

    Raises:
        ValueError: it has line ends or other characters that headers cannot have.
    """
    if not encoding.style or not isinstance(value, dict | list):
        text = _single(value, encoding)
    elif isinstance(value, list):
        text = ",".join(map(plain_text, value))
    elif encoding.explode:
        text = ",".join(f"{key}={plain_text(item)}" for key, item in value.items())
    else:
        text = ",".join(f"{key},{plain_text(item)}" for key, item in value.items())
    if not _HEADER_VALUE.fullmatch(text):
        raise ValueError("one line of printable ASCII characters, without blanks around it")
    return text


def cookie_pairs(name: str, value: Any, encoding: Encoding) -> Iterator[tuple[str, str]]:
    """Names and values of cookies, percent-encoded where a cookie cannot have the character."""
    key = quote(name, safe="!#$&'*+^`|")
    if not encoding.style or not isinstance(value, dict | list):
        yield key, quote(_single(value, encoding), safe=_COOKIE_CHARS)
    elif encoding.explode:
        for item_key, item in _items(value, _COOKIE_CHARS):
            yield item_key or key, item
    elif value:
        yield key, "%2C".join(_flat(value, _COOKIE_CHARS))


def _single(value: Any, encoding: Encoding) -> str:
    """A value that is written as one text."""
    if not encoding.style:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return plain_text(value)


def _quoted(text: str, safe: str = "") -> str:
    return quote(text, safe=safe)


def _items(value: dict[str, Any] | list[Any], safe: str = "") -> Iterator[tuple[str, str]]:
    """Key and text of each item; the key is "" in a list."""
    if isinstance(value, list):
        yield from (("", _quoted(plain_text(item), safe)) for item in value)
    else:
        yield from ((_quoted(key), _quoted(plain_text(item), safe)) for key, item in value.items())


def _flat(value: dict[str, Any] | list[Any], safe: str = "") -> Iterator[str]:
    """The items of a list, or keys and items of an object in turns."""
    for key, item in _items(value, safe):
        if isinstance(value, dict):
            yield key
        yield item


def _deep_items(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Path with brackets and value, for each value that is no list or object."""
    if not isinstance(value, dict | list):
        yield path, value
        return
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in entries:
        yield from _deep_items(item, f"{path}[{key}]")
