"""Converts Python annotations in data sets (`List[int], optional`) to JSON Schema."""

from __future__ import annotations

import re
from typing import Any

_TYPES: dict[str, dict[str, Any]] = {
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
_LISTS = frozenset({"list", "array", "tuple", "set", "frozenset", "sequence", "iterable"})
_TOKEN = re.compile(r"[A-Za-z_][\w.]*|\S")
_DEPTH = 8


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
    """Recursive descent over `name[arguments] | ...`, bounded in depth."""

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
        if name in _LISTS:
            kinds = [argument for argument in arguments if argument]
            items = {"items": _any_of(kinds)} if kinds else {}
            unique = {"uniqueItems": True} if name in ("set", "frozenset") else {}
            return {"type": "array"} | items | unique
        if name == "union":
            return _any_of(arguments)
        if name == "optional":
            return arguments[0] if arguments else {}
        return dict(_TYPES.get(name, {}))

    def _arguments(self, depth: int) -> list[dict[str, Any]]:
        """Types up to the closing bracket. Beyond the maximum depth they are skipped."""
        found: list[dict[str, Any]] = []
        if depth > _DEPTH:
            self._at = len(self._tokens)
        while self._at < len(self._tokens) and not self._accept("]"):
            if self._accept("["):
                self._arguments(depth + 1)
            elif not self._accept(","):
                found.append(self.union(depth))
        return found

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
