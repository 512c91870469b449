"""The hints of MCP's tool annotations, with what absence of one means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

READ_ONLY, DESTRUCTIVE = "readOnlyHint", "destructiveHint"
IDEMPOTENT, OPEN_WORLD = "idempotentHint", "openWorldHint"
#: Model Context Protocol, schema 2025-06-18, ToolAnnotations.
DEFAULTS: Mapping[str, bool] = {
    READ_ONLY: False,
    DESTRUCTIVE: True,
    IDEMPOTENT: False,
    OPEN_WORLD: True,
}


def hints(annotations: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Annotations with the hints that are absent, or no truth value, at their default.

    `destructiveHint` means something only where a tool is not read-only: a read-only tool is
    destructive only if it says so itself.
    """
    given = annotations or {}
    said = {name: value for name in DEFAULTS if isinstance(value := given.get(name), bool)}
    defaults = {**DEFAULTS, DESTRUCTIVE: not said.get(READ_ONLY, DEFAULTS[READ_ONLY])}
    return {**given, **defaults, **said}
