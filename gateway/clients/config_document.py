"""A client's configuration file as text and as values: JSON with comments, or TOML.

Errors name line and column.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import ConfigError

#: A string, a comment, or a comma. A string is matched first, so that its content stays.
_STRING_COMMENT_OR_COMMA = re.compile(
    r'"(?:[^"\\]|\\.)*"?|//[^\n\r]*|/\*.*?(?:\*/|\Z)|,', re.DOTALL
)
_SPACE = re.compile(r"[ \t\r\n]*")
_NOT_LINE_END = re.compile(r"[^\r\n]")


@dataclass(frozen=True, slots=True)
class Member:
    """Offsets of one member of an object in a text.

    Args:
        key: its key.
        start: offset of the opening quote of the key.
        value_start: offset of the value.
        end: offset after the value.
    """

    key: str
    start: int
    value_start: int
    end: int


def plain_json(text: str) -> str:
    """The text with comments and trailing commas replaced by spaces, so that offsets stay the same.

    Example:
        >>> plain_json('[1, /* two */ 2,]')
        '[1,           2 ]'
    """
    pieces: list[str] = []
    offset = 0
    comma: int | None = None  # index in `pieces` of a comma after which nothing came yet
    for token in _STRING_COMMENT_OR_COMMA.finditer(text):
        between = text[offset : token.start()]
        if comma is not None and between.strip(" \t\r\n"):
            if between.lstrip(" \t\r\n")[0] in "]}":
                pieces[comma] = " "
            comma = None
        pieces.append(between)
        piece = token.group()
        offset = token.end()
        if piece == ",":
            is_doubled = comma is not None or between.rstrip(" \t\r\n")[-1:] in ("[", "{")
            comma = None if is_doubled else len(pieces)
            pieces.append(piece)
        elif piece[0] == "/":
            pieces.append(_NOT_LINE_END.sub(" ", piece))
        else:
            comma = None
            pieces.append(piece)
    rest = text[offset:]
    if comma is not None and rest.lstrip(" \t\r\n")[:1] in ("]", "}"):
        pieces[comma] = " "
    return "".join([*pieces, rest])


def json_comments(text: str) -> tuple[str, ...]:
    """The comments of a JSON text."""
    return tuple(
        token.group()
        for token in _STRING_COMMENT_OR_COMMA.finditer(text)
        if token.group()[0] == "/"
    )


def parse_json(text: str) -> tuple[Any, tuple[str, ...]]:
    """The value of a JSON text that may have comments and trailing commas.

    Returns:
        The value, and the keys that occur twice in one object. The last of them is used.

    Raises:
        json.JSONDecodeError: the text is not JSON; line and column are those of `text`.
        RecursionError: values are nested too deeply.
        ValueError: a number has more digits than Python converts.
    """
    repeated_keys: dict[str, None] = {}

    def build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) < len(pairs):
            keys_read: set[str] = set()
            for key, _ in pairs:
                if key in keys_read:
                    repeated_keys[key] = None
                keys_read.add(key)
        return values

    value = json.loads(plain_json(text), object_pairs_hook=build_object)
    return value, tuple(repeated_keys)


def members(plain: str, offset: int = 0) -> Iterator[Member]:
    """Members of the object that starts at an offset, in order.

    Args:
        plain: valid JSON, as `plain_json` returns it.
        offset: offset of the object; white space before it is skipped.
    """
    decoder = json.JSONDecoder()
    offset = _skip_space(plain, offset) + 1
    while plain[(offset := _skip_space(plain, offset))] != "}":
        start = offset
        key, offset = decoder.raw_decode(plain, offset)
        value_start = _skip_space(plain, _skip_space(plain, offset) + 1)
        _, end = decoder.raw_decode(plain, value_start)
        yield Member(key, start, value_start, end)
        offset = _skip_space(plain, end)
        if plain[offset] == ",":
            offset += 1


def _skip_space(text: str, offset: int) -> int:
    space = _SPACE.match(text, offset)
    return offset if space is None else space.end()


#: Largest file that is read, in bytes. Some clients keep their history in the same file.
MAX_FILE_BYTES = 16 * 1024 * 1024
#: Most levels of tables and lists in a file. Real files have fewer than ten.
_MAX_LEVELS = 100
_TOML_ERROR_PLACE = re.compile(r" \((?:at line (\d+), column (\d+)|at end of document)\)$")


@dataclass(frozen=True, slots=True)
class ConfigDocument:
    """A configuration file that was read.

    Args:
        path: path of the file.
        text: its text, without a byte order mark.
        values: its top-level table.
        is_toml: whether it is TOML; JSON otherwise.
        repeated_keys: keys that occur twice in one JSON object. The last of them is used.
    """

    path: Path
    text: str = field(repr=False)
    values: dict[str, Any] = field(repr=False)
    is_toml: bool
    repeated_keys: tuple[str, ...] = ()

    @property
    def has_comments(self) -> bool:
        """Whether the file has comments."""
        return bool(comments(self.text, is_toml=self.is_toml))


def comments(text: str, *, is_toml: bool) -> tuple[str, ...]:
    """The comments of a text; for TOML, also a `#` after white space in a string."""
    if is_toml:
        return tuple(re.findall(r"(?:^|\s)#.*", text, re.MULTILINE))
    return json_comments(text)


def read_document(path: str | Path) -> ConfigDocument:
    """The values of a TOML or JSON file; JSON may hold comments and trailing commas.

    Args:
        path: the file. With the ending `.toml` it is read as TOML.

    Raises:
        ConfigError: the file cannot be read, is larger than `MAX_FILE_BYTES`, or cannot be parsed.
            The message has line and column, but no text of the file.
    """
    path = Path(path)
    return parse_document(path, read_bytes(path))


def read_bytes(path: Path) -> bytes:
    """The bytes of a configuration file.

    Raises:
        ConfigError: the file cannot be read, or is larger than `MAX_FILE_BYTES`. A missing file is
            its cause.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise ConfigError(f"{path}: cannot be read: {reason}") from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_FILE_BYTES:,} bytes; give a smaller file")
    return data


def parse_document(path: Path, data: bytes) -> ConfigDocument:
    """The values of the bytes of a configuration file; see `read_document`.

    Raises:
        ConfigError: the bytes cannot be parsed.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        text_before = data[: error.start]
        line, column = text_before.count(b"\n") + 1, len(text_before) - text_before.rfind(b"\n")
        raise ConfigError(f"{path}:{line}:{column}: not UTF-8; save it as UTF-8") from None
    is_toml = path.suffix.lower() == ".toml"
    try:
        # Line ends become \n, because tomllib does not accept a lone \r.
        values, repeated_keys = (tomllib.loads(text), ()) if is_toml else parse_json(text)
    except json.JSONDecodeError as error:
        place = f"{path}:{error.lineno}:{error.colno}"
        raise ConfigError(f"{place}: not JSON: {_with_lower_initial(error.msg)}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}:{_toml_place(str(error), text)}: not TOML") from None
    except RecursionError:
        raise _too_deep(path) from None
    except ValueError:
        raise ConfigError(f"{path}:1:1: a number or a date in it is out of range") from None
    if _has_more_levels(values, _MAX_LEVELS):
        raise _too_deep(path)
    if not isinstance(values, dict):
        raise ConfigError(
            f"{path}:1:1: the file must contain a table of settings, not {_kind_of_value(values)}"
        )
    return ConfigDocument(
        path=path, text=text, values=values, is_toml=is_toml, repeated_keys=repeated_keys
    )


def _too_deep(path: Path) -> ConfigError:
    return ConfigError(f"{path}:1:1: tables are nested too deeply")


def _has_more_levels(value: Any, max_levels: int) -> bool:
    """Whether tables and lists are nested deeper than `max_levels` levels."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(max_levels + 1):
        items = [item.values() if isinstance(item, dict) else item for item in level]
        level = [child for item in items for child in item if isinstance(child, dict | list)]
    return bool(level)


def _toml_place(message: str, text: str) -> str:
    place = _TOML_ERROR_PLACE.search(message)
    if place and place.group(1):
        return f"{place.group(1)}:{place.group(2)}"
    return f"{text.count(chr(10)) + 1}:{len(text) - text.rfind(chr(10))}"


def _with_lower_initial(message: str) -> str:
    return message[:1].lower() + message[1:]


def _kind_of_value(value: Any) -> str:
    return {list: "a list", str: "text", bool: "true or false", type(None): "null"}.get(
        type(value), "a number"
    )
