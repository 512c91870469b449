"""Valid arguments for a schema, for calls whose task has no arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

#: Each pattern in the testbed's schemas matches one of these.
_TEXTS = (
    "x",
    "1",
    "OPS-1",
    "OPS",
    "C012345678",
    "U012345678",
    "bkp_0123456789ab",
    "1700000000.000001",
)


def example_arguments(schema: Mapping[str, Any]) -> Any:
    """A small valid value: required properties, and the first of every choice.

    Supports what the testbed's schemas use: types, choices, patterns, lengths, bounds and
    references to `$defs`.

    Args:
        schema: JSON Schema of the arguments.
    """
    return _example(schema, schema.get("$defs", {}))


def _example(schema: Mapping[str, Any], shared: Mapping[str, Any]) -> Any:
    if "$ref" in schema:
        return _example(shared[schema["$ref"].rpartition("/")[2]], shared)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        rest = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}
        return _example({**rest, **choices[0]}, shared)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    match kind[0] if isinstance(kind, list) else kind:
        case "object":
            known = schema.get("properties", {})
            least = schema.get("minProperties", 0)
            names = list(dict.fromkeys((*schema.get("required", ()), *known)))
            names = names[: max(least, len(schema.get("required", ())))]
            return {name: _example(known.get(name, {}), shared) for name in names}
        case "array":
            one = _example(schema.get("items", {}), shared)
            return [one] * max(1, schema.get("minItems", 1))
        case "integer" | "number":
            return max(1, schema.get("minimum", 1))
        case "boolean":
            return True
        case "null":
            return None
    pattern = re.compile(schema.get("pattern", ""))
    text = next((one for one in _TEXTS if pattern.search(one)), "x")
    return text.ljust(schema.get("minLength", 0), "x")
