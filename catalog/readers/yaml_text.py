"""Reads YAML as JSON from parse events: without tags and without recursion."""

from __future__ import annotations

import re
from typing import Any

YAML_DEPTH = 256
"""Maximum nesting of a YAML text. OpenAPI documents have less than 40."""

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_STRING_TAG = "tag:yaml.org,2002:str"


_MAX_DIGITS = 400


def bounded_integer(text: str, base: int = 10) -> int:
    """A whole number.

    One with more than 400 digits is replaced by another that is too large as well.

    Python refuses to parse thousands of digits, and the whole document would fail.
    """
    return int(text, base) if len(text) <= _MAX_DIGITS else 10**_MAX_DIGITS


def parse_yaml(text: str) -> Any:
    """A JSON value written as YAML 1.2 (core schema): keys are read as text, dates stay text.

    Args:
        text: one YAML document; aliases give shared values.

    Raises:
        ValueError: it is not YAML, nested too deep, or has something that JSON cannot represent:
            other tags, keys that are not scalars, merge keys, an alias inside its own anchor. Names
            the position.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=loader):
            builder.take(event)
    except yaml.YAMLError as error:
        raise ValueError(f"is not YAML: {error}") from None
    if not builder.documents:
        raise ValueError("is empty")
    return builder.root


class _Builder:
    """Builds the value from events, with a stack of open containers and their pending keys.

    Attributes:
        root: the value so far.
        documents: number of documents begun.
    """

    def __init__(self) -> None:
        self.root: Any = None
        self.documents = 0
        self._open: list[Any] = []
        self._keys: list[str | None] = []
        self._anchors: dict[str, Any] = {}
        self._unfinished: list[str | None] = []

    def take(self, event: Any) -> None:
        """Add one parse event."""
        kind = type(event).__name__
        if kind == "DocumentStartEvent":
            self.documents += 1
            if self.documents > 1:
                raise ValueError(f"{_line(event)}: holds a second document")
        elif kind == "ScalarEvent":
            self._add(event, self._scalar(event), event.anchor)
        elif kind in ("MappingStartEvent", "SequenceStartEvent"):
            self._start(event, {} if kind == "MappingStartEvent" else [])
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            self._open.pop()
            self._keys.pop()
            self._unfinished.pop()
        elif kind == "AliasEvent":
            if event.anchor in self._unfinished or event.anchor not in self._anchors:
                raise ValueError(f"{_line(event)}: alias *{event.anchor} has no finished anchor")
            self._add(event, self._anchors[event.anchor], None)

    def _start(self, event: Any, container: Any) -> None:
        if event.tag and not event.implicit:
            raise ValueError(f"{_line(event)}: tag {event.tag} has no meaning in JSON")
        if len(self._open) == YAML_DEPTH:
            raise ValueError(f"{_line(event)}: is nested deeper than {YAML_DEPTH} levels")
        self._add(event, container, event.anchor)
        self._open.append(container)
        self._keys.append(None)
        self._unfinished.append(event.anchor)

    def _add(self, event: Any, value: Any, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = value
        if not self._open:
            self.root = value
        elif isinstance(self._open[-1], list):
            self._open[-1].append(value)
        elif (key := self._keys[-1]) is not None:
            self._open[-1][key] = value
            self._keys[-1] = None
        elif not isinstance(value, str):
            raise ValueError(f"{_line(event)}: a key must be text")
        elif value == "<<":
            raise ValueError(f"{_line(event)}: merge keys (<<) are no part of YAML 1.2")
        else:
            self._keys[-1] = value

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        is_key = bool(self._open) and isinstance(self._open[-1], dict) and self._keys[-1] is None
        if event.tag == _STRING_TAG or is_key or not event.implicit[0]:
            if event.tag not in (None, "!", _STRING_TAG):
                raise ValueError(f"{_line(event)}: tag {event.tag} has no meaning in JSON")
            return text
        return _plain(text)


def _plain(text: str) -> Any:
    """The value of an unquoted scalar, by the core schema of YAML 1.2."""
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _INTEGER.fullmatch(text):
        return bounded_integer(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


def _line(event: Any) -> str:
    return f"line {event.start_mark.line + 1}"
