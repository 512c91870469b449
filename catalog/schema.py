"""The JSON of a tool: checked, cleaned, hashed in canonical form, local references resolved.

The value is first checked with an explicit stack and a budget. So too deep, cyclic or too large
values raise a ToolError instead of crashing the process.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import ToolError
from .text_cleaning import DESCRIPTION_LIMIT, CleaningNotes, clean

if TYPE_CHECKING:
    from referencing import Registry


SCHEMA_BYTES = 262_144
"""Maximum bytes of canonical JSON of a schema. The largest real one found has 10,893."""
SCHEMA_DEPTH = 64
"""Maximum nesting of objects and arrays. The deepest real schema found has 18."""
SCHEMA_VALUES = 50_000
"""Maximum number of values in a schema. Shared branches count each time."""
INTEGER_BITS = 1024
"""Maximum bits of an integer: the range of a double, which most JSON parsers support."""

NAMED_SCHEMA_KEYS = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
"""Keywords whose value is an object of schemas by name."""
BRANCH_KEYS = ("allOf", "anyOf", "oneOf")
"""Keywords whose value is a list of schemas of the same value."""

_PROSE_KEYS = frozenset({"description", "title", "$comment"})
_NEEDS_CLEANING = re.compile(r"\\[ubfr]|[^\x20-\x7e]")

#: Keys, in small letters without marks, under which people put the schema of the arguments.
_SCHEMA_KEYS = frozenset(
    {"args", "arguments", "input", "inputs", "parameters", "params", "properties", "schema"}
    | {"argsschema", "argumentsschema", "inputschema", "jsonschema", "parametersjsonschema"}
)

Link: TypeAlias = "tuple[Link, str | int] | None"
"""A place in a value: the place of its container, and the key or index; None for the root."""


def misnamed_schema_key(definition: Mapping[str, Any], own: Sequence[str]) -> str | None:
    """The key that seems to hold the arguments of a definition which has none under its own key.

    Args:
        definition: a definition of a tool.
        own: the keys that are read.

    Returns:
        The key; None if the definition has its schema, or takes no arguments.
    """
    if any(definition.get(key) is not None for key in own):
        return None
    return next(
        (
            key
            for key, value in definition.items()
            if isinstance(key, str)
            and key not in own
            and value
            and isinstance(value, dict | list)
            and key.casefold().replace("_", "").replace("-", "") in _SCHEMA_KEYS
        ),
        None,
    )


def checked_object(value: Any, field: str) -> dict[str, Any]:
    """The value of a field that must be an object.

    Raises:
        ToolError: it is another value.
    """
    if not isinstance(value, dict):
        raise ToolError(field=field, reason=f"must be an object, got {type(value).__name__}")
    return value


def checked_text(value: object, field: str) -> str:
    """The value of a field that must be text.

    Raises:
        ToolError: it is another value.
    """
    if not isinstance(value, str):
        raise ToolError(field=field, reason=f"must be text, got {type(value).__name__}")
    return value


def canonical_bytes(value: object, field: str, notes: CleaningNotes) -> bytes:
    """Canonical JSON of an object, checked and cleaned, as UTF-8.

    Args:
        value: the object, of dict, list, tuple, str, int, float, bool and None.
        field: name of the field in errors and notes.
        notes: records what cleaning removed.

    Raises:
        ToolError: it is not an object, too deep, too large, not JSON, or has NaN or infinity; names
            the position.
    """
    if not isinstance(value, dict):
        raise ToolError(field=field, reason=f"must be an object, got {_kind(value)}")
    overlong = _check(value, field)
    text = "" if overlong else canonical_json(value)
    if overlong or _NEEDS_CLEANING.search(text):
        text = canonical_json(_cleaned(value, field, "", notes))
    frozen = text.encode()
    if len(frozen) > SCHEMA_BYTES:
        raise ToolError(field=field, reason=_too_large(len(frozen)))
    return frozen


def _check(root: dict[Any, Any], field: str) -> bool:
    """Whether a text in it exceeds the maximum length. Raises if it is not valid JSON."""
    overlong = False
    values = size = 0
    stack: list[tuple[Any, Link, int]] = [(root, None, 1)]
    while stack:
        container, link, depth = stack.pop()
        if depth > SCHEMA_DEPTH:
            place = _place(field, link)
            raise ToolError(field=place, reason=f"nested deeper than {SCHEMA_DEPTH} levels")
        values += len(container)
        if values > SCHEMA_VALUES:
            raise ToolError(field=field, reason=f"holds more than {SCHEMA_VALUES:,} values")
        for key, child in _members(container):
            kind = type(child)
            if type(key) is str:
                size += len(key)
            elif not isinstance(key, str) and isinstance(container, dict):
                reason = f"has a key of type {_kind(key)}, and JSON keys are strings"
                raise ToolError(field=_place(field, link), reason=reason)
            if kind is dict or kind is list:
                stack.append((child, (link, key), depth + 1))
            elif kind is str:
                if len(child) > DESCRIPTION_LIMIT:
                    overlong = True
                    size += DESCRIPTION_LIMIT if key in _PROSE_KEYS else len(child)
                else:
                    size += len(child)
            elif isinstance(child, dict | list | tuple):
                stack.append((child, (link, key), depth + 1))
            elif reason := _not_json(child):
                raise ToolError(field=_place(field, (link, key)), reason=reason)
        if size > SCHEMA_BYTES:
            raise ToolError(field=field, reason=_too_large(size))
    return overlong


def _members(container: Any) -> Iterator[tuple[Any, Any]]:
    return iter(container.items()) if isinstance(container, dict) else enumerate(container)


def _not_json(value: object) -> str:
    """Why JSON cannot represent a value that is not a container; "" if it can."""
    if isinstance(value, float):
        return "" if math.isfinite(value) else f"is {value}, which JSON cannot hold"
    if isinstance(value, int):
        wide = value.bit_length() > INTEGER_BITS
        return f"is an integer of more than {INTEGER_BITS} bits" if wide else ""
    if value is None or isinstance(value, str):
        return ""
    return f"is {_kind(value)}, not a JSON value"


def _cleaned(value: Any, field: str, key: str, notes: CleaningNotes) -> Any:
    """A copy with every string cleaned. Recursive, so only for values that passed `_check`."""
    if isinstance(value, str):
        return clean(value, field, notes, DESCRIPTION_LIMIT if key in _PROSE_KEYS else None)
    if isinstance(value, dict):
        copy: dict[str, Any] = {}
        for name, child in value.items():
            visible = clean(name, f"{field} (key)", notes)
            if visible in copy:
                reason = (
                    f"has two keys that read {visible!r:.80} once invisible characters are gone"
                )
                raise ToolError(field=field, reason=reason)
            copy[visible] = _cleaned(child, f"{field}.{visible:.80}", visible, notes)
        return copy
    if isinstance(value, list | tuple):
        return [_cleaned(child, f"{field}[{i}]", "", notes) for i, child in enumerate(value)]
    return value


def _place(field: str, link: Link) -> str:
    steps: list[str] = []
    while link is not None:
        link, key = link
        steps.append(f"[{key}]" if isinstance(key, int) else f".{key:.80}")
    path = "".join(reversed(steps))
    return clean(
        field + (path if len(path) <= 400 else f"{path[:200]}...{path[-200:]}"), "", CleaningNotes()
    )


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__


def _too_large(size: int) -> str:
    return f"takes {size:,} bytes as JSON, more than {SCHEMA_BYTES:,}"


_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def canonical_json(value: object) -> str:
    """JSON text that does not depend on key order: keys sorted, no white space, no NaN.

    Args:
        value: JSON data of bounded depth.

    Raises:
        ValueError: a float that JSON cannot represent.
    """
    return _ENCODER.encode(value)


def digest(parts: Iterable[bytes]) -> str:
    r"""First 32 hexadecimal digits of SHA-256 over the parts, each followed by a newline.

    Args:
        parts: texts without a raw newline, such as canonical JSON, so that no two lists collide.
    """
    return sha256(b"".join(part + b"\n" for part in parts)).hexdigest()[:32]


class References:
    """Resolves JSON pointers in one document. Nothing is ever fetched.

    Args:
        document: the whole document, as parsed JSON.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._targets: dict[str, object | None] = {}

    @cached_property
    def _registry(self) -> Registry[Any]:
        from referencing import Registry, Resource

        registry: Registry[Any] = Registry()
        with_document: Registry[Any] = registry.with_resource("", Resource.opaque(self._document))
        return with_document

    def find(self, reference: str) -> object | None:
        """The value that a reference points to; None if it is outside the document or missing.

        Results are cached.

        Args:
            reference: the value of a `$ref`.
        """
        if reference not in self._targets:
            self._targets[reference] = self._look_up(reference)
        return self._targets[reference]

    def _look_up(self, reference: str) -> object | None:
        from referencing.exceptions import Unresolvable

        if not reference.startswith("#"):
            return None
        try:
            target: object = self._registry.resolver().lookup(reference).contents
        except (Unresolvable, LookupError, TypeError, ValueError):
            return None  # TypeError and ValueError: a pointer that steps into a number or a string
        return target
