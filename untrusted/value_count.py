"""Values of strangers, counted with shared structure before anything copies them.

A list that holds another list twice is small, and its copy is twice as large. After 22 such steps
`a = [a, a]` is a list of 4 million values, after 40 no machine can hold it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from . import MAX_DEPTH, MAX_LOOP_CHARS, MAX_LOOP_VALUES

_CONTAINERS = (list, tuple, set, frozenset, Mapping)


class TooLargeError(ValueError):
    """A value that is larger than its limit; the message says which limit."""


class ValueSize(NamedTuple):
    """The size of a value as JSON, with shared parts as often as they occur.

    Args:
        values: numbers, texts, lists, objects and keys.
        chars: characters of texts and keys, and digits of integers.
        depth: levels of lists and objects.
    """

    values: int
    chars: int
    depth: int


def size_of_value(value: Any, *, max_values: int, max_chars: int) -> ValueSize:
    """The size of a value, if it is within the limits.

    Each list and object is looked at once, however often it occurs.

    Args:
        value: lists, tuples, sets, mappings, and anything else as a leaf.
        max_values: most values.
        max_chars: most characters.

    Raises:
        TooLargeError: it has more values, characters or levels than it may have, or contains
            itself.

    Example:
        >>> value = [0]
        >>> for _ in range(40):
        ...     value = [value, value]
        >>> size_of_value(value, max_values=1_000, max_chars=1_000)
        Traceback (most recent call last):
        shortlist.untrusted.value_count.TooLargeError: more than 1,000 values
    """
    return _Counter(max_values, max_chars).size(value, 0)


def is_small(value: Any) -> bool:
    """Whether a value is read on the event loop in about 1 ms. Otherwise use a thread."""
    try:
        size_of_value(value, max_values=MAX_LOOP_VALUES, max_chars=MAX_LOOP_CHARS)
    except TooLargeError:
        return False
    return True


class _Counter:
    def __init__(self, max_values: int, max_chars: int) -> None:
        self._max_values = max_values
        self._max_chars = max_chars
        self._sizes: dict[int, ValueSize] = {}

    def size(self, value: Any, level: int) -> ValueSize:
        if isinstance(value, str | bytes):
            return ValueSize(1, len(value), 0)
        if isinstance(value, int):
            return ValueSize(1, value.bit_length() // 3, 0)
        if not isinstance(value, _CONTAINERS):
            return ValueSize(1, 0, 0)
        if (known_size := self._sizes.get(id(value))) is not None:
            self._check_depth(level + known_size.depth)
            return known_size
        self._check_depth(level + 1)
        values, chars, depth = 1, 0, 0
        parts = [*value.keys(), *value.values()] if isinstance(value, Mapping) else value
        if len(parts) > self._max_values:
            raise TooLargeError(f"more than {self._max_values:,} values")
        for part in parts:
            size = self.size(part, level + 1)
            values, chars, depth = values + size.values, chars + size.chars, max(depth, size.depth)
            if values > self._max_values:
                raise TooLargeError(f"more than {self._max_values:,} values")
            if chars > self._max_chars:
                raise TooLargeError(f"more than {self._max_chars:,} characters")
        size = self._sizes[id(value)] = ValueSize(values, chars, depth + 1)
        return size

    @staticmethod
    def _check_depth(depth: int) -> None:
        if depth > MAX_DEPTH:
            raise TooLargeError(f"nested deeper than {MAX_DEPTH} levels")
