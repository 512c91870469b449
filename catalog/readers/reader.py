"""The protocol of readers, one per format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...errors import CatalogError, ToolError
from ..pattern import fold
from ..schema import checked_object, misnamed_schema_key
from ..text_cleaning import NAME_LIMIT, visible_line
from ..tool import Tool

_SCHEMA_KEYS = {"inputSchema": "mcp", "input_schema": "anthropic", "parameters": "openai"}
"""Keys for the arguments of a definition, with the format that uses each."""


@dataclass(slots=True)
class Document:
    """One parsed file or value of a source, for a reader.

    Attributes:
        value: the JSON value; for a file of lines, the list of the lines' values.
        label: path of the file; "" for a value in memory.
        server: the caller's server; takes precedence over the document.
        fallback: the server if neither the caller nor the document names one.
        lines: for a file of lines, the line number of each value.
        keep_ids: whether rows keep their ids; see `read_tools`.
        file_names: `folded` names of all files that are read together. A server with the name of a
            file belongs to that file only.
        bad_lines: line number and reason for each line of a file of lines that is not JSON.
        one_of_many: whether the source has other files, which are read even if this one is bad.
        problem: why the file could not be read; None if it was read.
        notes: parts that a reader left out or changed, one sentence each; complete when all tools
            are made.
    """

    value: Any
    label: str = ""
    server: str | None = None
    fallback: str | None = None
    lines: tuple[int, ...] = ()
    keep_ids: bool = False
    file_names: frozenset[str] = frozenset()
    bad_lines: tuple[tuple[int, str], ...] = ()
    one_of_many: bool = False
    problem: CatalogError | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def prefix(self) -> str:
        """Prefix of errors about a part of it."""
        return f"{self.label}: " if self.label else ""

    def place(self, index: int) -> str:
        """The position of the value with this index."""
        return f"line {self.lines[index]}" if self.lines else f"[{index}]"

    def entries(self, values: list[Any], server: str | None, prefix: str = "") -> Iterator[Entry]:
        """Each value of a list as a definition of a server."""
        for index, value in enumerate(values):
            yield Entry(f"{prefix}{self.place(index)}", value, server)

    def server_or_default(self, declared: object = None) -> str | None:
        """The server of a definition, from the caller, the document or the file name.

        Args:
            declared: the server that the document itself names; None if it names none.
        """
        if self.server is not None:
            return self.server
        if not isinstance(declared, str) or not declared:
            return self.fallback
        if self.keep_ids or not self._claims_another(declared):
            return declared
        note = (
            f"claims the server {short_value(declared)}, which another file is named after: "
            f"its tools belong to {short_value(self.fallback)}"
        )
        if note not in self.notes:
            self.notes.append(note)
        return self.fallback

    def _claims_another(self, declared: str) -> bool:
        if not self.file_names:
            return False
        name = folded_server_name(declared)
        return name in self.file_names and name != folded_server_name(self.fallback or "")


@dataclass(frozen=True, slots=True)
class Entry:
    """One definition found in a document.

    Attributes:
        where: its position in the document.
        value: the definition in the format of the document.
        server: its server.
    """

    where: str
    value: Any
    server: str | None


class Reader(Protocol):
    """Reads one format.

    Attributes:
        name: name of the format, for `read_tools(format=...)`.
    """

    name: str

    def recognises(self, value: Any) -> bool:
        """Whether a JSON value looks like this format; must be cheap and must not raise."""
        ...

    def entries(self, document: Document) -> Iterator[Entry]:
        """The definitions of a document, in order.

        Raises:
            CatalogError: the document as a whole is not of this format.
        """
        ...

    def tool(self, entry: Entry) -> Tool:
        """The tool of one definition.

        Raises:
            ToolError: the definition is bad; names the field.
        """
        ...


def object_fields(entry: Entry) -> dict[str, Any]:
    """The definition as an object.

    Raises:
        ToolError: it is not an object.
    """
    return checked_object(entry.value, "definition")


def name_of(definition: dict[str, Any]) -> str | None:
    """The name in a definition, if it is text."""
    name = definition.get("name")
    return name if isinstance(name, str) else None


def refuse_other_schema_keys(definition: dict[str, Any], *schema_keys: str) -> None:
    """Refuse a definition whose schema of arguments is under a key that this format does not use.

    Args:
        definition: the definition.
        schema_keys: the spellings of the key that this format uses; a message has the first.

    Raises:
        ToolError: it has the key of another format, or one such as `schema` or `arguments`, and not
            the key of this format. The message has the format or the key to use.
    """
    if any(definition.get(key) is not None for key in schema_keys):
        return
    for key, name in _SCHEMA_KEYS.items():
        if key not in schema_keys and isinstance(definition.get(key), dict):
            reason = f"is missing, but there is {key!r}: use format {name}, or auto"
            raise ToolError(field=schema_keys[0], reason=reason, tool=name_of(definition))
    if misnamed_key := misnamed_schema_key(definition, schema_keys):
        names = ", ".join(f"{spelling!r} ({name})" for spelling, name in _SCHEMA_KEYS.items())
        reason = (
            f"is missing, but there is {misnamed_key!r:.80}; the schema's key is one of {names}"
        )
        raise ToolError(field=schema_keys[0], reason=reason, tool=name_of(definition))


def folded_server_name(server: str) -> str:
    """A server's name for comparison: cleaned, ignoring letter case and character width."""
    return fold(visible_line(server[: 4 * NAME_LIMIT]))


def short_value(value: object) -> str:
    """A value for an error message: a short text itself, any other value by its type."""
    return f"{value!r:.80}" if isinstance(value, str) else type(value).__name__


def first_object(value: Any) -> dict[str, Any]:
    """The first object of a list, to recognise its format; {} if there is none."""
    if not isinstance(value, list):
        return {}
    return next((item for item in value if isinstance(item, dict)), {})
