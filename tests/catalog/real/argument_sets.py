"""Arguments that fit a tool's schema, the same in each run, and arguments that do not."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from shortlist.catalog.arguments import argument_problems

_FORMATS = {
    "date-time": "2026-01-02T03:04:05Z",
    "date": "2026-01-02",
    "email": "ann@example.com",
    "uri": "https://example.com/a?b=c",
    "url": "https://example.com/a",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "ipv4": "192.0.2.1",
}
#: Texts that a request must not take for something else. A slash in a path has tests of its own.
_TEXTS = ("a b", "x&y=z", "50%", "größe", "q?a#b", "+1", "semi;colon", "plain", "a,b", "'quoted'")


def valid_sets(schema: dict[str, Any], seed: str, *, count: int) -> Iterator[dict[str, Any]]:
    """At most `count` different sets that fit: with what is required only, then with more.

    Args:
        schema: a tool's input schema.
        seed: decides the values.
        count: how many are tried.
    """
    seen = []
    for number in range(count):
        chance = random.Random(f"{seed} {number}")
        arguments = _value(schema, chance, depth=0, optional=number / max(count - 1, 1))
        if arguments in seen or argument_problems(schema, arguments):
            continue
        seen.append(arguments)
        yield arguments


def wrong_sets(
    schema: dict[str, Any], valid: dict[str, Any]
) -> Iterator[tuple[dict[str, Any], str]]:
    """Sets with one mistake, each with the place of the mistake."""
    for name in schema.get("required", ()):
        yield {key: value for key, value in valid.items() if key != name}, f"/{name}"
    yield valid | {"no_such_argument": 1}, "/no_such_argument"
    for name, child in schema["properties"].items():
        kind = child.get("type")
        if kind in ("integer", "number", "boolean", "array", "object"):
            yield valid | {name: "no such value"}, f"/{name}"
        elif kind == "string":
            yield valid | {name: 7}, f"/{name}"
        if kind == "string" and "enum" in child:
            yield valid | {name: "no such value"}, f"/{name}"


def _value(schema: Any, chance: random.Random, *, depth: int, optional: float) -> Any:
    if not isinstance(schema, dict):
        return "anything"
    if "const" in schema:
        return schema["const"]
    if choices := schema.get("enum"):
        return chance.choice([choice for choice in choices if choice is not None] or [None])
    for key in ("oneOf", "anyOf"):
        if branches := schema.get(key):
            kept = [one for one in branches if one.get("type") != "null"] or branches
            inner = {name: child for name, child in schema.items() if name != key}
            branch = chance.choice(kept)
            merged = inner | branch
            if "properties" in inner and "properties" in branch:
                merged["properties"] = inner["properties"] | branch["properties"]
            merged["required"] = [*inner.get("required", ()), *branch.get("required", ())]
            return _value(merged, chance, depth=depth, optional=optional)
    if parts := schema.get("allOf"):
        merged = {name: child for name, child in schema.items() if name != "allOf"}
        for part in parts:
            both = merged.get("properties", {}) | part.get("properties", {})
            required = [*merged.get("required", ()), *part.get("required", ())]
            merged = part | merged | {"required": required}
            if both:
                merged["properties"] = both
        return _value(merged, chance, depth=depth, optional=optional)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    if kind == "object":
        required = schema.get("required", ())
        return {
            name: _value(child, chance, depth=depth + 1, optional=optional)
            for name, child in schema.get("properties", {}).items()
            if name in required or (depth < 4 and chance.random() < optional)
        }
    if kind == "array":
        most = min(schema.get("maxItems", 3), 3)
        size = max(schema.get("minItems", 1), chance.randint(1, max(most, 1)))
        items = schema.get("items", {})
        made: list[Any] = []
        for _ in range(size * 4):
            value = _value(items, chance, depth=depth + 1, optional=optional)
            if len(made) < size and not (schema.get("uniqueItems") and value in made):
                made.append(value)
        return made
    if kind == "integer":
        least = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
        return int(least) + chance.randint(0, 3) * int(schema.get("multipleOf", 1))
    if kind == "number":
        return schema.get("minimum", 0) + chance.choice((0.5, 1.25))
    if kind == "boolean":
        return chance.random() < 0.5
    if kind == "null":
        return None
    return _text(schema, chance)


def _text(schema: dict[str, Any], chance: random.Random) -> str:
    if schema.get("contentEncoding") == "base64":
        return "aGVsbG8="
    if (known := _FORMATS.get(schema.get("format", ""))) is not None:
        return known
    for key in ("example", "default"):
        if isinstance(schema.get(key), str) and schema[key] and "pattern" in schema:
            return schema[key]
    text = chance.choice(_TEXTS)
    text += "x" * (schema.get("minLength", 0) - len(text))
    return text[: schema.get("maxLength", len(text))]
