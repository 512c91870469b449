"""Types of results so far, for tools without an output schema."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from ..catalog import Tool

#: Limits: tools; and of one result: values, depth, entries of a list, fields of an object.
_TOOLS, _VALUES, _DEPTH, _ENTRIES, _FIELDS = 1_000, 500, 5, 20, 40
#: Form of a field's name. Other keys are data, such as the names of users.
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}\Z")


class ObservedTypes:
    """Types of results of tools without an output schema, for one agent.

    It stores types and names of fields, but no values. The least recently called tools are removed.
    Do not share it between users: names of fields may reveal content of a result.

    Example:
        >>> from shortlist import Tool
        >>> seen, tool = ObservedTypes(), Tool("list", "issues")
        >>> seen.add(tool, [{"title": "a", "at": 1}, {"title": "b"}])
        >>> seen.schema(tool)["items"]["required"]
        ['title']
    """

    def __init__(self) -> None:
        self._seen: OrderedDict[Tool, _Shape] = OrderedDict()
        # Scripts add types on an event loop, while a thread may write stubs.
        self._lock = Lock()

    def add(self, tool: Tool, value: object) -> None:
        """Record the type of a result, if the tool has no output schema.

        Args:
            tool: the tool of the result.
            value: the value that the script got.
        """
        if tool.output_schema:
            return
        with self._lock:
            shape = self._seen.setdefault(tool, _Shape())
            self._seen.move_to_end(tool)
            _Reader().read(shape, value, 0)
            if len(self._seen) > _TOOLS:
                self._seen.popitem(last=False)

    def schema(self, tool: Tool) -> dict[str, Any] | None:
        """The results so far as a JSON Schema; None if there was none.

        Args:
            tool: the tool. Results of an earlier definition are not used.
        """
        with self._lock:
            shape = self._seen.get(tool)
            return None if shape is None else shape.schema()

    def count(self, tool: Tool) -> int:
        """Number of results behind the schema."""
        shape = self._seen.get(tool)
        return 0 if shape is None else shape.count


@dataclass(slots=True, eq=False)
class _Shape:
    """Types at one position of a result."""

    count: int = 0
    scalars: dict[str, None] = field(default_factory=dict)
    items: _Shape | None = None
    objects: int = 0
    #: None if the keys are data.
    fields: dict[str, _Shape] | None = field(default_factory=dict)

    def schema(self) -> dict[str, Any]:
        found: list[dict[str, Any]] = [{"type": kind} for kind in self.scalars]
        if self.items is not None:
            items = self.items.schema() if self.items.count else {}
            found.append({"type": "array", "items": items})
        if self.objects and not self.fields:
            found.append({"type": "object"})
        elif self.objects and self.fields:
            found.append(
                {
                    "type": "object",
                    "properties": {name: one.schema() for name, one in self.fields.items()},
                    "required": [
                        name for name, one in self.fields.items() if one.count == self.objects
                    ],
                }
            )
        return found[0] if len(found) == 1 else {"anyOf": found} if found else {}


class _Reader:
    """Reads the type of one result, within the limits."""

    def __init__(self) -> None:
        self._left = _VALUES

    def read(self, shape: _Shape, value: object, depth: int) -> None:
        shape.count += 1
        self._left -= 1
        if isinstance(value, Mapping):
            self._object(shape, value, depth)
        elif isinstance(value, list):
            shape.items = shape.items or _Shape()
            if depth < _DEPTH:
                for one in value[:_ENTRIES]:
                    if self._left > 0:
                        self.read(shape.items, one, depth + 1)
        else:
            shape.scalars[_KINDS.get(type(value), "string")] = None

    def _object(self, shape: _Shape, value: Mapping[Any, Any], depth: int) -> None:
        shape.objects += 1
        fields = shape.fields
        named = all(isinstance(key, str) and _FIELD.match(key) for key in value)
        too_many = fields is None or len(value) > _FIELDS or len({*fields, *value}) > _FIELDS
        if fields is None or too_many or not named or depth >= _DEPTH or self._left < len(value):
            shape.fields = None
            return
        for key, one in value.items():
            self.read(fields.setdefault(key, _Shape()), one, depth + 1)


_KINDS = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
