"""The format `jsonl`: rows `{"id", "name", "server", "description", "input_schema"}`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...errors import CatalogError
from ..tool import Tool
from .reader import Document, Entry, first_object, object_fields, refuse_other_schema_keys


class RowReader:
    """Rows with the fields of a Tool, one per line or in a list.

    The server is the caller's, otherwise the row's. A row's own id is used only if the caller
    requests it and names no server. Otherwise a row could take the id of another server's tool.
    """

    name = "jsonl"

    def recognises(self, value: Any) -> bool:
        """A list whose first object has a name, and an id or a server."""
        row = first_object(value)
        own = isinstance(row.get("id"), str) or "server" in row
        return own and "name" in row and "inputSchema" not in row

    def entries(self, document: Document) -> Iterator[Entry]:
        """Each row, with the server it belongs to."""
        if not isinstance(document.value, list):
            raise CatalogError("rows of tools must be lines of a file or a list")
        keep_ids = document.keep_ids and document.server is None
        for index, row in enumerate(document.value):
            server = document.server_or_default()
            if isinstance(row, dict):
                declared = row.get("server")
                if document.server is None and declared is not None:
                    is_name = isinstance(declared, str) and declared
                    server = document.server_or_default(declared) if is_name else declared
                row = row if keep_ids else {key: row[key] for key in row if key != "id"}
            yield Entry(document.place(index), row, server)

    def tool(self, entry: Entry) -> Tool:
        """The tool of a row."""
        value = object_fields(entry)
        refuse_other_schema_keys(value, "input_schema")
        return Tool.from_dict(value | {"server": entry.server})
