"""Rows `{"id", "name", "server", "description", "input_schema"}`, the form tools are saved in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...errors import CatalogError
from ..tool import Tool
from .protocol import Document, Entry, fields_of, first_object


class RowReader:
    """Rows with the fields of a Tool, one per line or in a list; ids given are honoured."""

    name = "jsonl"

    def recognises(self, value: Any) -> bool:
        """A list whose first object has a name and an id or a server of its own."""
        row = first_object(value)
        own = isinstance(row.get("id"), str) or "server" in row
        return own and "name" in row and "inputSchema" not in row

    def entries(self, document: Document) -> Iterator[Entry]:
        """Each row; a server asked for by the caller fills in where a row has none."""
        if not isinstance(document.value, list):
            raise CatalogError("rows of tools must be lines of a file or a list")
        for index, row in enumerate(document.value):
            yield Entry(document.place(index), row, document.server)

    def tool(self, entry: Entry) -> Tool:
        """The tool of a row."""
        row = fields_of(entry)
        if entry.server is not None and row.get("server") is None:
            row = row | {"server": entry.server}
        return Tool.from_dict(row)
