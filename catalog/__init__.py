"""Tools and catalogs of them: definitions read, cleaned, named and versioned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .catalog import Catalog
from .collision import Collision
from .diff import CatalogDiff
from .parameter import Parameter
from .tool import Tool

if TYPE_CHECKING:
    from .read import ReadResult, Rejected, read_tools

__all__ = [
    "Catalog",
    "CatalogDiff",
    "Collision",
    "Parameter",
    "ReadResult",
    "Rejected",
    "Tool",
    "read_tools",
]

_READING = ("ReadResult", "Rejected", "read_tools")


def __getattr__(name: str) -> Any:
    """Load what reads files on first use (PEP 562): the readers are a third of the import."""
    if name not in _READING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import read

    return getattr(read, name)
