"""shortlist: the handful of tools an agent needs this turn, out of thousands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import public

if TYPE_CHECKING:
    from .catalog import Catalog, Tool
    from .config import Config
    from .engine import Engine
    from .errors import ShortlistError
    from .retrieval import Hit, Selection, Strategy

__version__ = "0.1.0"

_HOMES = {
    "Catalog": ".catalog",
    "Config": ".config",
    "Engine": ".engine",
    "Hit": ".retrieval",
    "Selection": ".retrieval",
    "ShortlistError": ".errors",
    "Strategy": ".retrieval",
    "Tool": ".catalog",
}

__all__ = [
    "Catalog",
    "Config",
    "Engine",
    "Hit",
    "Selection",
    "ShortlistError",
    "Strategy",
    "Tool",
    "__version__",
]

__getattr__, __dir__ = public(__name__, _HOMES, __all__)
