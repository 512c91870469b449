"""OpenAPI 3 documents: every operation is a tool, its schema with all references replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ...errors import CatalogError, ToolError
from ..operation import METHODS
from ..schema import checked_object
from ..tool import Tool
from .openapi_request import Endpoint, annotations_of, read_request, stripped_text
from .openapi_schema import SchemaCopier, ValueBudget, missing_target
from .reader import Document, Entry, short_value

_METHODS = tuple(method.lower() for method in METHODS)
_NOT_IN_NAMES = re.compile(r"[^0-9A-Za-z]+")
_DEPRECATED = "deprecated"


class _Operation(NamedTuple):
    """An operation that is not read yet: the value of an `Entry`.

    Attributes:
        definition: the operation as the document has it.
        endpoint: where it is in the document.
        budget: the budget that all operations of the document share.
    """

    definition: Any
    endpoint: Endpoint
    budget: ValueBudget


class OpenApiReader:
    """A document with `openapi: 3.x`.

    Name: operationId, else method and path. Description: summary, description, and a last line with
    method and path; a deprecated operation says so first, and has the tag `deprecated`. Arguments
    and request: see `read_request`. Annotations: what the method promises.
    Server: the caller's, else info.title.
    """

    name = "openapi"

    def recognises(self, value: Any) -> bool:
        """An object that says which OpenAPI it is."""
        return isinstance(value, dict) and ("openapi" in value or "swagger" in value)

    def entries(self, document: Document) -> Iterator[Entry]:
        """Each operation."""
        value = document.value
        if not isinstance(value, dict):
            raise CatalogError("is no OpenAPI document: expected an object")
        version = value.get("openapi", value.get("swagger"))
        if isinstance(version, float):  # unquoted in YAML
            version = str(version)
        if not isinstance(version, str) or not version.startswith("3."):
            raise CatalogError(
                f"openapi: must be 3.x, got {short_value(version)}; convert the document"
            )
        paths = value.get("paths", {})
        if not isinstance(paths, dict):
            raise CatalogError(f"paths: must be an object, got {type(paths).__name__}")
        info = value.get("info")
        server = document.server_or_default(info.get("title") if isinstance(info, dict) else None)
        budget = ValueBudget(value)
        is_version_30 = version.startswith("3.0")
        entries: list[Entry] = []
        for path, item in paths.items():
            if not isinstance(path, str):
                raise CatalogError(f"paths: keys must be text, got {short_value(path)}")
            if not path.startswith("x-"):
                endpoint = Endpoint(
                    "",
                    path,
                    None,
                    (None, None, value.get("servers")),
                    is_version_30,
                    value.get("security"),
                )
                entries += _operations(item, endpoint, budget, server)
        budget.operations = len(entries)
        yield from entries
        if budget.shortened:
            document.notes.append(
                f"{budget.shortened:,} references are too deep or too large to be spelled out: "
                "of the arguments they describe only the type is kept"
            )

    def tool(self, entry: Entry) -> Tool:
        """The tool of an operation."""
        call = entry.value
        if isinstance(call, dict):  # a path whose operations were not found
            raise missing_target(call["$ref"], "$ref")
        if not isinstance(call, _Operation):
            raise ToolError(field="definition", reason="must be an object with operations")
        method, path = call.endpoint.method, call.endpoint.path
        definition = checked_object(call.definition, method)
        operation_id = definition.get("operationId")
        name = operation_id if operation_id is not None else _derived_name(method, path)
        texts = (stripped_text(definition.get(key)) for key in ("summary", "description"))
        lines = [text for text in dict.fromkeys(texts) if text]
        is_deprecated = definition.get("deprecated") is True
        tags = definition.get("tags")
        if is_deprecated:
            lines.insert(0, "Deprecated.")
            tags = [*tags, _DEPRECATED] if isinstance(tags, list) else tags or [_DEPRECATED]
        try:
            schema, operation = read_request(definition, call.endpoint, SchemaCopier(call.budget))
        except ToolError as error:
            valid_name = name if isinstance(name, str) else None
            raise ToolError(field=error.field, reason=error.reason, tool=valid_name) from None
        return Tool.from_dict(
            {
                "name": name,
                "server": entry.server,
                "title": definition.get("summary"),
                "description": "\n".join([*lines, f"{method.upper()} {path}"]),
                "input_schema": schema,
                "annotations": annotations_of(method),
                "tags": tags,
                "operation": operation,
            }
        )


def _derived_name(method: str, path: str) -> str:
    """`get /users/{id}` as `get_users_id`."""
    return _NOT_IN_NAMES.sub("_", f"{method} {path}").strip("_")


def _operations(
    item: Any, endpoint: Endpoint, budget: ValueBudget, server: str | None
) -> Iterator[Entry]:
    place = f"paths.{endpoint.path:.200}"
    if isinstance(item, dict) and "$ref" in item:
        reference = item["$ref"]
        shared = budget.references.find(reference) if isinstance(reference, str) else None
        if not isinstance(shared, dict):
            yield Entry(place, item, server)
            return
        item = shared | item
    if not isinstance(item, dict):
        yield Entry(place, item, server)
        return
    for method in _METHODS:
        if method in item:
            definition = item[method]
            own_servers = definition.get("servers") if isinstance(definition, dict) else None
            called = endpoint._replace(
                method=method,
                parameters=item.get("parameters"),
                servers=(own_servers, item.get("servers"), endpoint.servers[2]),
            )
            yield Entry(f"{place}.{method}", _Operation(definition, called, budget), server)
