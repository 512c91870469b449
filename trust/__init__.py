"""Trust: quarantines definitions with hidden instructions and definitions that changed."""

from .change import DefinitionChange, PartChange
from .flag import Finding, Flag, notice, quarantined, tell
from .pins import Pin, Pins, change_pins
from .policy import Trust, revision
from .scan import scan

__all__ = [
    "DefinitionChange",
    "Finding",
    "Flag",
    "PartChange",
    "Pin",
    "Pins",
    "Trust",
    "change_pins",
    "notice",
    "quarantined",
    "revision",
    "scan",
    "tell",
]
