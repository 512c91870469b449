"""Tool: one immutable tool definition."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from ..errors import ToolError
from .parameter import Parameter, parameters_of_schema
from .schema import (
    canonical_bytes,
    canonical_json,
    checked_text,
    digest,
    misnamed_schema_key,
)
from .text_cleaning import (
    DESCRIPTION_LIMIT,
    ID_LIMIT,
    NAME_LIMIT,
    TAG_LIMIT,
    CleaningNotes,
    clean,
    clean_line,
    visible_line,
)

if TYPE_CHECKING:
    from .operation import Operation

TAGS_LIMIT = 64
"""Tags kept for one tool."""
#: Fields of a row besides the name.
_OPTIONAL_FIELDS = (
    "server description input_schema id title output_schema annotations tags operation"
).split()
#: What `to_saved` leaves out.
_DEFAULT_VALUES = {"server": None, "title": None, "tags": (), "cleaned": ()} | {
    "_output_schema": None,
    "_annotations": None,
    "_operation": None,
}
_NO_PARAMETERS: Final = b'{"properties":{},"type":"object"}'


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Tool:
    """One immutable tool definition.

    Tools are equal if id and content are equal.

    Texts are cleaned and cut to a maximum length (see `text_cleaning`). Schemas are stored as
    canonical JSON and parsed on each access, to save memory and so that no caller can change them.

    Args:
        name: the name used in calls; one line of at most 256 characters.
        server: the server it belongs to, if any; any text of one line.
        description: cut to 16,384 characters.
        input_schema: JSON Schema of the arguments; None means no arguments.
        id: unique in a catalog; `server/name` by default, or the name without a server.
        title: a name for people.
        output_schema: JSON Schema of the result.
        annotations: hints of the server about the tool, as in MCP.
        tags: words that group tools.
        operation: the HTTP request behind a tool of an OpenAPI document, or its JSON form.

    Attributes:
        id: unique in a catalog.
        name: the name used in calls.
        server: the server it belongs to, or None.
        title: a name for people, or None.
        description: what it does, or "".
        tags: words that group tools.
        fingerprint: hash of everything but the id, 32 hexadecimal digits. The order of keys does
            not matter.
        cleaned: what cleaning removed, one line each; ignored by `==`.

    Raises:
        ToolError: a value of the wrong type, empty, too large, or not JSON; names the field.

    Example:
        >>> from shortlist import Tool
        >>> schema = {"type": "object", "properties": {"city": {"type": "string"}}}
        >>> Tool("get_forecast", "weather", "The forecast for a city", schema).id
        'weather/get_forecast'
    """

    id: str
    name: str
    server: str | None
    title: str | None
    description: str
    tags: tuple[str, ...]
    fingerprint: str
    cleaned: tuple[str, ...]
    _input_schema: bytes
    _output_schema: bytes | None
    _annotations: bytes | None
    _operation: bytes | None

    def __init__(
        self,
        name: str,
        server: str | None = None,
        description: str = "",
        input_schema: dict[str, Any] | None = None,
        *,
        id: str | None = None,  # noqa: A002 - the field's name
        title: str | None = None,
        output_schema: dict[str, Any] | None = None,
        annotations: dict[str, Any] | None = None,
        tags: Iterable[str] = (),
        operation: Operation | Mapping[str, Any] | None = None,
    ) -> None:
        notes = CleaningNotes()
        raw_name = name if isinstance(name, str) else None
        try:
            name = _line(name, "name", notes, NAME_LIMIT)
            server = None if server is None else _line(server, "server", notes, NAME_LIMIT)
            default = name if server is None else f"{server}/{name}"
            tool_id = default if id is None else _line(id, "id", notes, ID_LIMIT)
            clean_title = clean_line(
                _text("" if title is None else title, "title"), "title", notes, NAME_LIMIT
            )
            text = clean(_text(description, "description"), "description", notes, DESCRIPTION_LIMIT)
            groups = _tags(tags, notes)
            schema = _frozen(input_schema, "input_schema", notes) or _NO_PARAMETERS
            output = _frozen(output_schema, "output_schema", notes)
            hints = _frozen(annotations, "annotations", notes)
            call = None if operation is None else _frozen_operation(operation, notes)
        except ToolError as error:
            visible = visible_line(raw_name, NAME_LIMIT) if raw_name else None
            raise ToolError(field=error.field, reason=error.reason, tool=visible) from None
        words = canonical_json([name, server, clean_title or None, text, groups]).encode()
        self._set(
            id=tool_id,
            name=name,
            server=server if server is None else sys.intern(server),
            title=clean_title or None,
            description=text,
            tags=groups,
            fingerprint=digest(
                # What a call does is part of the definition.
                (words, schema, output or b"", hints or b"", *(() if call is None else (call,)))
            ),
            cleaned=notes.as_tuple(),
            _input_schema=schema,
            _output_schema=output,
            _annotations=hints,
            _operation=call,
        )

    def _set(self, **values: object) -> None:
        for field, value in values.items():
            object.__setattr__(self, field, value)

    @classmethod
    def _of(cls, values: Mapping[str, object]) -> Tool:
        tool = cls.__new__(cls)
        tool._set(**values)
        return tool

    @property
    def input_schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments: a fresh copy, keys in canonical order."""
        return _thaw(self._input_schema)

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """JSON Schema of the result, if declared: a fresh copy."""
        return None if self._output_schema is None else _thaw(self._output_schema)

    @property
    def annotations(self) -> dict[str, Any] | None:
        """Hints of the server about the tool, if any: a fresh copy."""
        return None if self._annotations is None else _thaw(self._annotations)

    @property
    def operation(self) -> Operation | None:
        """The HTTP request behind a tool of an OpenAPI document; None for other tools."""
        return None if self._operation is None else _operation(self._operation)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The arguments, flattened; computed anew unless the tool was among the last asked for."""
        return _parameters(self._input_schema)

    def with_id(self, id: str) -> Tool:  # noqa: A002 - the field's name
        """A copy of the tool with another id.

        Raises:
            ToolError: the id is empty, too long or not a text.

        Example:
            >>> from shortlist import Tool
            >>> Tool("get_forecast", "weather").with_id("weather/get_forecast~2").id
            'weather/get_forecast~2'
        """
        changed = _line(id, "id", CleaningNotes(), ID_LIMIT)
        return Tool._of({slot: getattr(self, slot) for slot in Tool.__slots__} | {"id": changed})

    def to_dict(self) -> dict[str, Any]:
        """One row of a tools.jsonl file. Fields without a value are left out."""
        row: dict[str, Any] = {
            "id": self.id,
            "name": self.name,
            "server": self.server,
            "description": self.description,
            "input_schema": self.input_schema,
        }
        if self.tags:
            row["tags"] = list(self.tags)
        if self._operation is not None:
            row["operation"] = _thaw(self._operation)
        return row | self._declared("title", "output_schema", "annotations")

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Tool:
        """A tool from a row. Other keys are ignored; null means absent.

        Raises:
            ToolError: a field is missing or bad, or the schema stands under another key than
                `input_schema`.
        """
        if not isinstance(row, Mapping):
            raise ToolError(field="row", reason=f"must be an object, got {type(row).__name__}")
        if "name" not in row:
            raise ToolError(field="name", reason="is missing")
        if key := misnamed_schema_key(row, ("input_schema",)):
            reason = (
                f"is missing, but there is {key!r:.80}; a row has 'input_schema', and "
                "Catalog([...]) reads other formats"
            )
            tool = row["name"] if isinstance(row["name"], str) else None
            raise ToolError(field="input_schema", reason=reason, tool=tool)
        optional = {field: row[field] for field in _OPTIONAL_FIELDS if row.get(field) is not None}
        return cls(row["name"], **optional)

    @classmethod
    def from_function(
        cls, function: Callable[..., Any], *, server: str | None = None, name: str | None = None
    ) -> Tool:
        """A tool of a Python function.

        Its name is the function's, its description and the texts of its arguments come from the
        docstring, and its schema from the annotations. To have it called, give `Session.handle` the
        function under its name.

        Args:
            function: a function whose parameters can be given by name; may be async.
            server: the server that the tool belongs to.
            name: another name; needed for a lambda.

        Raises:
            ToolError: it is no function, a lambda without a name, or a parameter has no JSON
                schema.

        Example:
            >>> from shortlist import Tool
            >>> def refund(invoice: str, amount: float = 0.0) -> str:
            ...     '''Pay an invoice back.'''
            >>> tool = Tool.from_function(refund, server="billing")
            >>> tool.id, tool.description, tool.input_schema["required"]
            ('billing/refund', 'Pay an invoice back.', ['invoice'])
        """
        from .python_function import definition_of

        if not callable(function):
            reason = f"must be a function, got {type(function).__name__}"
            raise ToolError(field="function", reason=reason)
        return cls.from_dict(definition_of(function, name) | {"server": server})

    def to_saved(self) -> dict[str, Any]:
        """A JSON form that `from_saved` reads without checks.

        Example:
            >>> from shortlist import Tool
            >>> Tool.from_saved(Tool("get_forecast", "weather").to_saved()).id
            'weather/get_forecast'
        """
        return {
            slot: value.decode() if isinstance(value, bytes) else value
            for slot in Tool.__slots__
            if (value := getattr(self, slot)) not in (None, ())
        }

    @classmethod
    def from_saved(cls, row: Mapping[str, Any]) -> Tool:
        """A tool from the result of `to_saved`. Any other input is undefined behaviour.

        Raises:
            KeyError, TypeError, AttributeError: the row is not such a form.

        Example:
            >>> from shortlist import Tool
            >>> tool = Tool("get_forecast", "weather")
            >>> Tool.from_saved(tool.to_saved()) == tool
            True
        """
        values = {**_DEFAULT_VALUES, **row}
        if values["server"] is not None:
            values["server"] = sys.intern(values["server"])
        for field in ("tags", "cleaned"):
            values[field] = tuple(values[field])
        for field in ("_input_schema", "_output_schema", "_annotations", "_operation"):
            values[field] = None if values[field] is None else values[field].encode()
        return cls._of(values)

    def to_mcp(self) -> dict[str, Any]:
        """The entry of an MCP `tools/list` result.

        Example:
            >>> from shortlist import Tool
            >>> entry = Tool("get_forecast", "weather", "The forecast for a city").to_mcp()
            >>> entry["name"], entry["inputSchema"]
            ('get_forecast', {'type': 'object', 'properties': {}})
        """
        entry: dict[str, Any] = {"name": self.name, "description": self.description}
        entry["inputSchema"] = {"type": "object"} | self.input_schema
        declared = self._declared("title", "output_schema", "annotations")
        if "output_schema" in declared:
            declared["outputSchema"] = declared.pop("output_schema")
        return entry | declared

    def _declared(self, *fields: str) -> dict[str, Any]:
        values = {field: getattr(self, field) for field in fields}
        return {field: value for field, value in values.items() if value is not None}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tool):
            return NotImplemented
        return self.id == other.id and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash((self.id, self.fingerprint))

    def __repr__(self) -> str:
        return f"Tool({self.id!r}, {self.description[:60]!r})"


def _frozen(value: object, field: str, notes: CleaningNotes) -> bytes | None:
    return None if value is None else canonical_bytes(value, field, notes)


def _frozen_operation(value: Operation | Mapping[str, Any], notes: CleaningNotes) -> bytes:
    from .operation import Operation

    operation = value if isinstance(value, Operation) else Operation.from_dict(value)
    return canonical_bytes(operation.to_dict(), "operation", notes)


@lru_cache(maxsize=64)
def _operation(frozen: bytes) -> Operation:
    from .operation import Operation

    return Operation.from_dict(_thaw(frozen))


@lru_cache(maxsize=8)
def _parameters(frozen: bytes) -> tuple[Parameter, ...]:
    return parameters_of_schema(_thaw(frozen))


def _thaw(frozen: bytes) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(frozen.decode())
    return value


def _text(value: object, field: str) -> str:
    # A copy: kept, a text would keep the block of memory that the JSON it was read from lies in.
    return "".join((checked_text(value, field), ""))


def _line(value: object, field: str, notes: CleaningNotes, limit: int) -> str:
    """A one-line text such as a name or id. Too long is an error, since it cannot be cut."""
    text = _text(value, field)
    if len(text) > 4 * limit:
        raise ToolError(field=field, reason=f"has {len(text):,} characters, more than {limit}")
    line = clean_line(text, field, notes)
    if not line:
        raise ToolError(field=field, reason="is empty, or holds nothing visible")
    if len(line) > limit:
        raise ToolError(field=field, reason=f"has {len(line):,} characters, more than {limit}")
    return line


def _tags(values: object, notes: CleaningNotes) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ToolError(
            field="tags", reason=f"must be a list of texts, got {type(values).__name__}"
        )
    cleaned_tags: dict[str, None] = {}
    for index, value in enumerate(values):
        if index == TAGS_LIMIT:
            notes.add("tags", f"cut to the first {TAGS_LIMIT}")
            break
        field = f"tags[{index}]"
        if tag := clean_line(_text(value, field), field, notes, TAG_LIMIT):
            cleaned_tags[tag] = None
    return tuple(cleaned_tags)
