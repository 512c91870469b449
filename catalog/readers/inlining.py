"""Inlining of the references of an OpenAPI document, so that a tool's schema stands alone."""

from __future__ import annotations

from typing import Any

from ...errors import ToolError
from ..reference import References
from .protocol import shown

REFERENCE_DEPTH = 5
"""References followed inside one another; what lies deeper is left unrestricted."""
VALUE_BUDGET = 10_000
"""Values copied for one operation; references met after that are left unrestricted."""
NESTING_LIMIT = 64
"""Nesting of a schema once its references are inlined."""


class Inlining:
    """Copies schemas of one document with their references replaced by what they point to.

    A reference inside itself, or past the bounds of this module, becomes an unrestricted schema,
    so a recursive type is spelled out to its first repetition.

    Args:
        references: the references of the whole OpenAPI document.
    """

    def __init__(self, references: References) -> None:
        self._references = references
        self._budget = VALUE_BUDGET

    def target(self, value: Any, field: str) -> dict[str, Any]:
        """The object itself, or the one its `$ref` leads to.

        Raises:
            ToolError: not an object, or a reference that leads out of the document, nowhere or
                back to itself.
        """
        for _ in range(REFERENCE_DEPTH):
            if not isinstance(value, dict):
                got = type(value).__name__
                raise ToolError(field=field, reason=f"must be an object, got {got}")
            if "$ref" not in value:
                return value
            value = self._look_up(value["$ref"], field)
        raise ToolError(field=field, reason=f"passes through {REFERENCE_DEPTH} references or more")

    def schema(self, value: Any, field: str) -> dict[str, Any]:
        """A copy of a schema that needs no other part of the document.

        Raises:
            ToolError: a reference that leads out of the document or nowhere, or too deep or
                too large a schema.
        """
        if value is True:
            return {}
        if not isinstance(value, dict):
            got = type(value).__name__
            raise ToolError(field=field, reason=f"must be an object, got {got}")
        copy: dict[str, Any] = self._copy(value, field, (), 0)
        return copy

    def _copy(self, value: Any, field: str, followed: tuple[str, ...], depth: int) -> Any:
        if not isinstance(value, dict | list):
            return value
        if depth > NESTING_LIMIT:
            raise ToolError(
                field=f"{field:.200}", reason=f"nested deeper than {NESTING_LIMIT} levels"
            )
        self._budget -= len(value)
        if self._budget < -VALUE_BUDGET:
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
            if reference in followed or len(followed) == REFERENCE_DEPTH or self._budget < 0:
                return copy
            inner = self._look_up(reference, field)
            inlined = self._copy(inner, field, (*followed, reference), depth + 1)
            return inlined | copy if isinstance(inlined, dict) else copy
        return {
            key: self._copy(child, f"{field}.{_step(key, field):.80}", followed, depth + 1)
            for key, child in value.items()
        }

    def _look_up(self, reference: Any, field: str) -> Any:
        found = self._references.find(reference) if isinstance(reference, str) else None
        if found is None:
            reason = f"refers to {shown(reference)}, which is not in this document"
            raise ToolError(field=f"{field:.200}.$ref", reason=reason)
        return found


def _step(key: object, field: str) -> str:
    if not isinstance(key, str):
        raise ToolError(field=f"{field:.200}", reason=f"has a key of type {type(key).__name__}")
    return key
