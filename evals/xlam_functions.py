"""Functions of xlam rows as tools: their parameters have Python types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..catalog import Tool
from ..catalog.schema import checked_object
from ..errors import ToolError


def tool_of_function(function: Mapping[str, Any]) -> Tool:
    """The tool of a function. Parameters are required unless they are optional or have a default.

    Args:
        function: its `name`, `description` and `parameters`, as published.

    Raises:
        ToolError: it is no such function.
    """
    row = {key: function[key] for key in ("name", "description") if key in function}
    return Tool.from_dict(row | {"input_schema": _schema(function.get("parameters"))})


def _schema(parameters: Any) -> dict[str, Any]:
    declared_parameters = checked_object({} if parameters is None else parameters, "parameters")
    if declared_parameters.get("type") == "object" and isinstance(
        declared_parameters.get("properties"), dict
    ):
        return declared_parameters
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in declared_parameters.items():
        if not isinstance(name, str):
            raise ToolError(field="parameters", reason=f"has a key of type {type(name).__name__}")
        declared = checked_object(parameter, f"parameters.{name:.80}").get("type")
        spelling = declared if isinstance(declared, str) else ""
        schema, optional = to_schema(spelling)
        if isinstance(parameter.get("description"), str):
            schema["description"] = parameter["description"]
        if "default" in parameter:
            schema["default"] = parameter["default"]
        elif not optional:
            required.append(name)
        properties[name] = schema
    return {"type": "object", "properties": properties} | (
        {"required": required} if required else {}
    )


_SCHEMA_OF_TYPE: dict[str, dict[str, Any]] = {
    "str": {"type": "string"},
    "string": {"type": "string"},
    "int": {"type": "integer"},
    "integer": {"type": "integer"},
    "float": {"type": "number"},
    "number": {"type": "number"},
    "complex": {"type": "number"},
    "bool": {"type": "boolean"},
    "boolean": {"type": "boolean"},
    "none": {"type": "null"},
    "dict": {"type": "object"},
    "object": {"type": "object"},
    "callable": {"type": "string"},
    "date": {"type": "string", "format": "date"},
    "datetime": {"type": "string", "format": "date-time"},
}
_LIST_TYPES = frozenset({"list", "array", "tuple", "set", "frozenset", "sequence", "iterable"})
_TOKEN = re.compile(r"[A-Za-z_][\w.]*|\S")
_MAX_DEPTH = 8


def to_schema(annotation: str) -> tuple[dict[str, Any], bool]:
    """The JSON Schema of an annotation and whether it is marked optional.

    An unknown type becomes {}, which accepts any value.

    Args:
        annotation: such as `List[int]`, `str, optional` or `Dict[str, Any]`.
    """
    tokens = _TOKEN.findall(annotation)
    schema = _Parser(tokens).union(0) if tokens else {}
    optional = "optional" in (token.lower() for token in tokens)
    return schema, optional


class _Parser:
    """Recursive descent over `name[arguments] | ...`, bounded in depth.

    Args:
        tokens: names and single characters, in order.
    """

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def union(self, depth: int) -> dict[str, Any]:
        """One type, or several joined by `|`."""
        branches = [self._type(depth)]
        while self._accept("|"):
            branches.append(self._type(depth))
        return _any_of(branches)

    def _type(self, depth: int) -> dict[str, Any]:
        name = self._next().rpartition(".")[2].lower()
        arguments = self._arguments(depth + 1) if self._accept("[") else []
        if name in _LIST_TYPES:
            kinds = [argument for argument in arguments if argument]
            items = {"items": _any_of(kinds)} if kinds else {}
            unique = {"uniqueItems": True} if name in ("set", "frozenset") else {}
            return {"type": "array"} | items | unique
        if name == "union":
            return _any_of(arguments)
        if name == "optional":
            return arguments[0] if arguments else {}
        return dict(_SCHEMA_OF_TYPE.get(name, {}))

    def _arguments(self, depth: int) -> list[dict[str, Any]]:
        """Types up to the closing bracket. Beyond the maximum depth they are skipped."""
        arguments: list[dict[str, Any]] = []
        if depth > _MAX_DEPTH:
            self._at = len(self._tokens)
        while self._at < len(self._tokens) and not self._accept("]"):
            if self._accept("["):
                self._arguments(depth + 1)
            elif not self._accept(","):
                arguments.append(self.union(depth))
        return arguments

    def _accept(self, token: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at] == token:
            self._at += 1
            return True
        return False

    def _next(self) -> str:
        token = self._tokens[self._at] if self._at < len(self._tokens) else ""
        self._at += 1
        return token


def _any_of(branches: list[dict[str, Any]]) -> dict[str, Any]:
    """One schema for several: the schema itself if all are equal, {} if one is {}."""
    distinct: list[dict[str, Any]] = []
    for branch in branches:
        if branch not in distinct:
            distinct.append(branch)
    if len(distinct) == 1:
        return distinct[0]
    return {"anyOf": distinct} if distinct and all(distinct) else {}
