"""Tools and catalogs: reads, cleans, names and versions tool definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy_names
from .catalog import Catalog
from .collision import Collision
from .parameter import Parameter
from .tool import Tool
from .tool_inputs import ToolInput, Tools

if TYPE_CHECKING:
    from .readers.skill_folder import skill_text
    from .reading import ReadResult, Rejected, read_tools

__all__ = [
    "Catalog",
    "Collision",
    "Parameter",
    "ReadResult",
    "Rejected",
    "Tool",
    "ToolInput",
    "Tools",
    "read_tools",
    "skill_text",
]

# The readers are a third of the import.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(("ReadResult", "Rejected", "read_tools"), ".reading"),
        "skill_text": ".readers.skill_folder",
    },
    __all__,
)
