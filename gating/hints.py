"""The hints of MCP's tool annotations, with their default values."""

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
    """Annotations in which missing and non-boolean hints have their default values.

    `destructiveHint` is true by default, but false for a read-only tool that does not set it.
    """
    given = annotations or {}
    said = {name: value for name in DEFAULTS if isinstance(value := given.get(name), bool)}
    defaults = {**DEFAULTS, DESTRUCTIVE: not said.get(READ_ONLY, DEFAULTS[READ_ONLY])}
    return {**given, **defaults, **said}
