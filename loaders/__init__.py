"""What the model of a conversation has read of tools: the record, the pool, and definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from .levels import Level
    from .record import Departure
    from .step import Shown

_MODULE_OF_NAME = {
    "Departure": ".record",
    "Level": ".levels",
    "Shown": ".step",
}
__all__ = ["Departure", "Level", "Shown"]

__getattr__, __dir__ = lazy_names(__name__, _MODULE_OF_NAME, __all__)
