"""Which definitions may be shown: text that gives orders, definitions that changed."""

from .change import Change, PartChange
from .pins import Pin, Pins
from .revision import revision
from .scan import HELD_FROM, Finding, Scan, scan
from .trust import Trust

__all__ = [
    "HELD_FROM",
    "Change",
    "Finding",
    "PartChange",
    "Pin",
    "Pins",
    "Scan",
    "Trust",
    "revision",
    "scan",
]
