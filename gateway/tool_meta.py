"""Reads a tool's `_meta`: whether it is for a user interface, and how long its results may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Most characters of a result, even if the tool's `_meta` allows more.
_MOST_CHARS = 500_000


def shows_ui(meta: Mapping[str, Any]) -> bool:
    """Whether the tool has a user interface: a `ui://` resource in its `_meta`."""
    named = [meta.get("ui/resourceUri"), meta.get("openai/outputTemplate")]
    if isinstance(ui := meta.get("ui"), Mapping):
        named.append(ui.get("resourceUri"))
    return any(isinstance(one, str) and one.startswith("ui://") for one in named)


def is_app_only(meta: Mapping[str, Any]) -> bool:
    """Whether the tool is for the user interface alone, and no model may see it."""
    ui = meta.get("ui")
    visibility = ui.get("visibility") if isinstance(ui, Mapping) else None
    return isinstance(visibility, list) and bool(visibility) and "model" not in visibility


def result_chars(meta: Mapping[str, Any]) -> int | None:
    """Most characters of an unchanged result, from the tool's `_meta`; None if it sets no limit."""
    said = meta.get("anthropic/maxResultSizeChars")
    if not isinstance(said, int) or isinstance(said, bool) or said <= 0:
        return None
    return min(said, _MOST_CHARS)
