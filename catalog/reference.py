"""Resolves local references in a JSON document (`#/$defs/Label`)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from referencing import Registry


class References:
    """Resolves JSON pointers in one document. Nothing is ever fetched.

    Args:
        document: the whole document, as parsed JSON.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._found: dict[str, object | None] = {}

    @cached_property
    def _registry(self) -> Registry[Any]:
        from referencing import Registry, Resource

        registry: Registry[Any] = Registry()
        made: Registry[Any] = registry.with_resource("", Resource.opaque(self._document))
        return made

    def find(self, reference: str) -> object | None:
        """The value that a reference points to; None if it is outside the document or missing.

        Results are cached.

        Args:
            reference: the value of a `$ref`.
        """
        if reference not in self._found:
            self._found[reference] = self._look_up(reference)
        return self._found[reference]

    def _look_up(self, reference: str) -> object | None:
        from referencing.exceptions import Unresolvable

        if not reference.startswith("#"):
            return None
        try:
            found: object = self._registry.resolver().lookup(reference).contents
        except (Unresolvable, LookupError, TypeError, ValueError):
            return None  # TypeError and ValueError: a pointer that steps into a number or a string
        return found
