"""Replaces references of an OpenAPI document, so that a tool's schema needs no other part."""

from __future__ import annotations

from typing import Any

from ...errors import ToolError
from ..reference import References
from .protocol import object_at, shown

REFERENCE_DEPTH = 5
"""Maximum depth of nested references. Beyond it, only the type is kept."""
VALUE_BUDGET = 10_000
"""Maximum values copied for one operation. Beyond it, only the types of references are kept."""
DOCUMENT_BUDGET = 300_000
"""Values copied for all operations of a document, beyond as many as it holds: half a second."""
NESTING_LIMIT = 64
"""Maximum nesting of a schema with its references replaced."""


class Expansion:
    """Limits the values copied for all operations of a document, shared between them.

    A few kilobytes of references can expand to millions of values. When half of the budget is used,
    each operation gets an equal share of the rest. If nothing is left for a reference, only its
    type is kept.

    Args:
        document: the whole OpenAPI document.

    Attributes:
        operations: number of its operations that were not read yet.
        shortened: number of references of which only the type was kept, because of depth or size.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self.references = References(document)
        self.operations = 0
        self._most = DOCUMENT_BUDGET + _values(document)
        self._left = self._most
        self._sizes: dict[str, int] = {}
        self.shortened = 0

    def share(self) -> int:
        """Maximum values of the next operation."""
        waiting, self.operations = max(self.operations, 1), self.operations - 1
        if self._left > self._most // 2:
            return VALUE_BUDGET
        return max(min(VALUE_BUDGET, self._left // waiting), 0)

    def size(self, reference: str, target: object) -> int:
        """Number of values in the target of a reference, without following its references.

        Cached.
        """
        if reference not in self._sizes:
            self._sizes[reference] = _values(target)
        return self._sizes[reference]

    def take(self, values: int, field: str) -> None:
        """Count values that were copied.

        Raises:
            ToolError: there are far too many values, even without references.
        """
        self._left -= values
        if self._left < -self._most:
            reason = f"the document's operations take more than {2 * self._most:,} values together"
            raise ToolError(field=f"{field:.200}", reason=reason)


def _values(document: Any) -> int:
    """Number of values in a document. Aliases count once."""
    seen: set[int] = set()
    count, waiting = 0, [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list) and id(value) not in seen:
            seen.add(id(value))
            count += len(value)
            waiting.extend(value.values() if isinstance(value, dict) else value)
    return count


class Inlining:
    """Copies schemas of one document, with references replaced by their targets.

    If a reference is inside itself, or beyond the limits of this module, only its type is kept. So
    a recursive type ends at its first repetition.

    Args:
        expansion: the budget of all operations of the document.
    """

    def __init__(self, expansion: Expansion) -> None:
        self._expansion = expansion
        self._budget = expansion.share()
        self._copied = 0

    def target(self, value: Any, field: str) -> dict[str, Any]:
        """The object itself, or the target of its `$ref`.

        Raises:
            ToolError: not an object, or a reference that leads out of the document, nowhere or
                back to itself.
        """
        self._expansion.take(1, field)
        for _ in range(REFERENCE_DEPTH):
            found = object_at(value, field)
            if "$ref" not in found:
                return found
            value = self._look_up(found["$ref"], field)
        raise ToolError(field=field, reason=f"passes through {REFERENCE_DEPTH} references or more")

    def schema(self, value: Any, field: str) -> dict[str, Any]:
        """A copy of a schema that needs no other part of the document.

        Raises:
            ToolError: a reference that leads out of the document or nowhere, or too deep or
                too large a schema.
        """
        if value is True:
            return {}
        copy: dict[str, Any] = self._copy(object_at(value, field), field, (), 0)
        return copy

    def _copy(self, value: Any, field: str, followed: tuple[str, ...], depth: int) -> Any:
        if not isinstance(value, dict | list):
            return value
        if depth > NESTING_LIMIT:
            raise ToolError(
                field=f"{field:.200}", reason=f"nested deeper than {NESTING_LIMIT} levels"
            )
        self._budget -= len(value)
        self._copied += len(value)
        self._expansion.take(len(value), field)
        if self._copied > 2 * VALUE_BUDGET:
            raise ToolError(
                field=f"{field:.200}", reason=f"holds more than {2 * VALUE_BUDGET:,} values"
            )
        if isinstance(value, list):
            return [
                self._copy(item, f"{field}[{i}]", followed, depth + 1)
                for i, item in enumerate(value)
            ]
        reference = value.get("$ref")
        if isinstance(reference, str):
            beside = {key: child for key, child in value.items() if key != "$ref"}
            copy = self._copy(beside, field, followed, depth + 1)
            inner = self._look_up(reference, field)
            if reference in followed:
                return _type_of(inner) | copy
            too_deep = len(followed) == REFERENCE_DEPTH
            if too_deep or self._budget < self._expansion.size(reference, inner):
                self._expansion.shortened += 1
                return _type_of(inner) | copy
            inlined = self._copy(inner, field, (*followed, reference), depth + 1)
            return inlined | copy if isinstance(inlined, dict) else copy
        return {
            key: self._copy(child, f"{field}.{_step(key, field):.80}", followed, depth + 1)
            for key, child in value.items()
        }

    def _look_up(self, reference: Any, field: str) -> Any:
        found = self._expansion.references.find(reference) if isinstance(reference, str) else None
        if found is None:
            reason = f"refers to {shown(reference)}, which is not in this document"
            raise ToolError(field=f"{field:.200}.$ref", reason=reason)
        return found


def _type_of(schema: object) -> dict[str, Any]:
    """The type of a schema that is not copied. It accepts everything that the schema accepts."""
    found = schema.get("type") if isinstance(schema, dict) else None
    return {"type": found} if isinstance(found, str) else {}


def _step(key: object, field: str) -> str:
    if not isinstance(key, str):
        raise ToolError(field=f"{field:.200}", reason=f"has a key of type {type(key).__name__}")
    return key
