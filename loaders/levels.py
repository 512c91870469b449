"""Levels: how much of a tool the model has read, and the text of a tool at each of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from ..catalog import Tool
from ..catalog.parameter import properties_of
from ..catalog.schema import References, canonical_json

_SHORT_TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "null",
}
_MAX_ARGUMENTS = 32
"""Maximum number of arguments; three dots stand for the rest."""
_MAX_VALUES = 8
"""Maximum number of enum values."""
_MAX_VALUE_LETTERS = 32
_MAX_DEPTH = 4
"""Maximum depth of objects, arrays, alternatives and references."""


class Level(IntEnum):
    """How much of a tool the model has read, from least to most."""

    NAME = 1
    """Only the id."""
    SUMMARY = 2
    """The id and a summary."""
    ARGUMENTS = 3
    """One line with the arguments, without the types of optional ones. Enough for a call."""
    SIGNATURE = 4
    """The arguments with types, without descriptions."""
    FULL = 5
    """The whole definition."""

    @property
    def label(self) -> str:
        """The name of the level in texts and events, such as `signature`."""
        return self.name.lower()


def definition_text(name: str, description: str, input_schema: Mapping[str, Any]) -> str:
    """A definition as compact JSON, as it is counted and written in messages.

    Args:
        name: the tool's id, or its name for the provider.
        description: the description.
        input_schema: JSON Schema of the arguments.
    """
    definition = {"name": name, "description": description, "input_schema": input_schema}
    return json.dumps(definition, ensure_ascii=False, separators=(",", ":"))


def describe(tool: Tool, level: Level, summary: str) -> str:
    """One line about a tool.

    Args:
        tool: the definition.
        level: how much the line says.
        summary: summary of the tool, see `Summaries.of`.
    """
    if level is Level.FULL:
        return definition_text(tool.id, tool.description, tool.input_schema)
    if level is Level.NAME:
        return tool.id
    if level is Level.ARGUMENTS:
        return f"{tool.id}{compact_signature(tool)}"
    arguments = signature(tool) if level is Level.SIGNATURE else ""
    return f"{tool.id}{arguments}: {summary}"


def signature(tool: Tool) -> str:
    """The arguments as `(repo: str, labels?: [str], state?: open|closed)`, required ones first."""
    schema = tool.input_schema
    return f"({_field_types(schema, References(schema), _MAX_DEPTH)})"


def compact_signature(tool: Tool) -> str:
    """The arguments as `(repo; labels state)`: required ones, then the names of the others.

    Required ones have their types, except `str`. This is a third as long as a signature. It is
    enough for a call, because a wrong call is answered with the definition.
    """
    schema = tool.input_schema
    references = References(schema)
    properties = list(properties_of(schema))
    arguments = []
    for name, child, required in properties[:_MAX_ARGUMENTS]:
        kind = _type_text(child, references, _MAX_DEPTH) if required else "str"
        arguments.append(_one_line(name) + ("" if kind == "str" else f": {kind}"))
    required_count = sum(required for *_, required in properties)
    optional = arguments[required_count:]
    if len(properties) > _MAX_ARGUMENTS:
        optional.append("...")
    parts = (", ".join(arguments[:required_count]), " ".join(optional))
    return f"({'; '.join(part for part in parts if part)})"


def _field_types(schema: dict[str, Any], references: References, depth: int) -> str:
    properties = list(properties_of(schema))
    fields = [
        f"{_one_line(name)}{'' if required else '?'}: {_type_text(child, references, depth)}"
        for name, child, required in properties[:_MAX_ARGUMENTS]
    ]
    if len(properties) > _MAX_ARGUMENTS:
        fields.append("...")
    return ", ".join(fields)


def _type_text(schema: object, references: References, depth: int) -> str:
    if not isinstance(schema, dict) or depth == 0:
        return "any"
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return _type_text(references.find(reference), references, depth - 1)
    if "const" in schema:
        return _value_text(schema["const"])
    if isinstance(values := schema.get("enum"), list) and values:
        names = [_value_text(value) for value in values[:_MAX_VALUES]]
        if len(values) > _MAX_VALUES:
            names.append("...")
        return "|".join(names)
    for keyword in ("anyOf", "oneOf", "allOf"):
        if isinstance(branches := schema.get(keyword), list) and branches:
            names = [_type_text(branch, references, depth - 1) for branch in branches[:_MAX_VALUES]]
            return "|".join(dict.fromkeys(names))
    declared = schema.get("type")
    kinds = declared if isinstance(declared, list) else [declared]
    return "|".join(dict.fromkeys(_kind_text(kind, schema, references, depth) for kind in kinds))


def _kind_text(kind: object, schema: dict[str, Any], references: References, depth: int) -> str:
    if kind == "array" or (kind is None and "items" in schema):
        # A list is no level: a call needs the fields of the objects in it.
        return f"[{_type_text(schema.get('items'), references, depth)}]"
    if kind == "object" or (kind is None and "properties" in schema):
        inner = _field_types(schema, references, depth - 1) if depth > 1 else ""
        return f"{{{inner}}}" if inner else "object"
    return _SHORT_TYPES.get(kind, "any") if isinstance(kind, str) else "any"


def _value_text(value: object) -> str:
    return _one_line(value if isinstance(value, str) else canonical_json(value))[
        :_MAX_VALUE_LETTERS
    ]


def _one_line(text: str) -> str:
    return " ".join(text.split())
