"""shortlist: the few tools that an agent needs this turn, out of thousands."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .lazy import lazy_names

if TYPE_CHECKING:
    from .catalog import Catalog as Catalog
    from .catalog import Tool as Tool
    from .config import Config as Config
    from .engine import Engine as Engine
    from .errors import ShortlistError as ShortlistError
    from .gating import Gate as Gate
    from .gating import Rule as Rule
    from .gating import State as State
    from .retrieval import Hit as Hit
    from .retrieval import Selection as Selection
    from .session import Session as Session
    from .view import View as View

# Nothing here uses the network unless asked. From 1.29 on, ONNX Runtime reports its use to its
# maker from the moment it is imported, leaves a file for that in the temporary folder, and hangs
# at the exit of a fork. Only this variable, set before the import, prevents it; "0" allows it.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

__version__ = "0.2.0"

_MODULE_OF_NAME = {
    "Catalog": ".catalog",
    "Config": ".config",
    "Engine": ".engine",
    "Gate": ".gating",
    "Hit": ".retrieval",
    "Rule": ".gating",
    "Selection": ".retrieval",
    "Session": ".session",
    "ShortlistError": ".errors",
    "State": ".gating",
    "Tool": ".catalog",
    "View": ".view",
}

__all__ = [*_MODULE_OF_NAME, "__version__"]

__getattr__, __dir__ = lazy_names(__name__, _MODULE_OF_NAME, __all__)
