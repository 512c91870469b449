"""Tools and catalogs of them: definitions read, cleaned, named and versioned."""

from __future__ import annotations

from .catalog import Catalog
from .collision import Collision
from .diff import CatalogDiff
from .parameter import Parameter
from .read import ReadResult, Rejected, read_tools
from .tool import Tool

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
