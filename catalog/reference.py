"""Local references inside a JSON document (`#/$defs/Label`), looked up by the `referencing` library."""

from __future__ import annotations

from typing import Any


def resolve(reference: str, document: dict[str, Any]) -> object | None:
    """What a reference points to inside its document, or None: it leads out of it or nowhere.

    Only JSON pointers are followed; nothing is ever fetched.

    Args:
        reference: the value of a `$ref`.
        document: the whole document, as parsed JSON.
    """
    from referencing import Registry, Resource
    from referencing.exceptions import Unresolvable

    if not reference.startswith("#"):
        return None
    registry: Registry[Any] = Registry().with_resource("", Resource.opaque(document))
    try:
        found: object = registry.resolver().lookup(reference).contents
    except (Unresolvable, LookupError, TypeError, ValueError):
        return None  # TypeError and ValueError: a pointer that steps into a number or a string
    return found
