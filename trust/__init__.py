"""Trust: quarantines definitions with hidden instructions and definitions that changed."""

from .change import DefinitionChange, PartChange
from .flag import Finding, Flag, quarantined
from .needs_look import LOOK_CODES, needs_look
from .pins import Pin, Pins, approve_definitions, change_pins, make_pins_folder, pins_stamp
from .policy import Trust
from .scan import scan

__all__ = [
    "LOOK_CODES",
    "DefinitionChange",
    "Finding",
    "Flag",
    "PartChange",
    "Pin",
    "Pins",
    "Trust",
    "approve_definitions",
    "change_pins",
    "make_pins_folder",
    "needs_look",
    "pins_stamp",
    "quarantined",
    "scan",
]
