"""Rows of xlam function-calling data: the functions of a query, and their Python types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ...errors import CatalogError, ToolError
from ...untrusted.json_bytes import read_json
from ..schema import canonical_bytes, checked_object
from ..text_cleaning import CleaningNotes
from ..tool import Tool
from .reader import (
    Document,
    Entry,
    first_object,
    object_fields,
    refuse_other_schema_keys,
)


class XlamReader:
    """Rows `{"query", "tools", ...}` with `tools` as JSON text.

    A repeated function is read once.
    """

    name = "xlam"

    def recognises(self, value: Any) -> bool:
        """A row, or a list of rows, with a query and tools."""
        row = value if isinstance(value, dict) else first_object(value)
        return "query" in row and isinstance(row.get("tools"), str | list)

    def entries(self, document: Document) -> Iterator[Entry]:
        """Each distinct function, at the row that offers it first."""
        rows = [document.value] if isinstance(document.value, dict) else document.value
        if not isinstance(rows, list):
            raise CatalogError("holds no xlam rows: expected lines of a file or a list")
        contents: set[bytes] = set()
        for index, row in enumerate(rows):
            place = document.place(index)
            functions = _functions(row)
            if isinstance(functions, ToolError):
                yield Entry(f"{place}.tools", functions, document.server_or_default())
                continue
            for position, function in enumerate(functions):
                where = f"{place}.tools[{position}]"
                try:
                    content = canonical_bytes(function, "function", CleaningNotes())
                except ToolError:  # reading it as a tool will say what is wrong
                    content = where.encode()
                if content not in contents:
                    contents.add(content)
                    yield Entry(where, function, document.server_or_default())

    def tool(self, entry: Entry) -> Tool:
        """The tool of a function.

        Parameters are required unless they are optional or have a default.
        """
        if isinstance(entry.value, ToolError):
            raise entry.value
        function = object_fields(entry)
        refuse_other_schema_keys(function, "parameters")
        row = {key: function[key] for key in ("name", "description") if key in function}
        schema = _schema(function.get("parameters"))
        return Tool.from_dict(row | {"server": entry.server, "input_schema": schema})


def _functions(row: Any) -> list[Any] | ToolError:
    """The functions of a row, or its problem. Other rows are not affected."""
    if not isinstance(row, dict) or "tools" not in row:
        return ToolError(field="tools", reason="is missing: a row must be an object with tools")
    tools = row["tools"]
    if isinstance(tools, str):
        try:
            tools = read_json(tools)
        except ValueError as error:
            return ToolError(field="tools", reason=f"is not JSON: {error}")
    if not isinstance(tools, list):
        return ToolError(field="tools", reason="must be a list, or the JSON text of one")
    return tools


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
