"""shortlist: the handful of tools an agent needs this turn, out of thousands."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    """Load a public name from its module on first use (PEP 562), so that importing stays cheap."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
