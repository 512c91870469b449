"""OpenAPI 3 documents: every operation is a tool, its schema with all references replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ...errors import CatalogError, ToolError
from ..operation import METHODS
from ..schema import References
from ..tool import Tool
from .openapi_request import Endpoint, annotations_of, read_request, stripped_text
from .reader import Document, Entry, object_at, short_value

REFERENCE_DEPTH = 5
"""Maximum depth of nested references. Beyond it, only the type is kept."""
VALUE_BUDGET = 10_000
"""Maximum values copied for one operation. Beyond it, only the types of references are kept."""
DOCUMENT_BUDGET = 300_000
"""Values copied for all operations of a document, beyond as many as it holds: half a second."""
OBJECT_COST = 5
"""Values that a parameter or body counts as, besides its schema: reading it takes as long."""
NESTING_LIMIT = 64
"""Maximum nesting of a schema with its references replaced."""


class Expansion:
    """Limits the values copied for all operations of a document, shared between them.

    A few kilobytes of references can expand to millions of values. When half of the budget is used,
    each operation gets an equal share of the rest. If nothing is left for a reference, only its
    type is kept.

    Args:
        document: the whole OpenAPI document.

    Attributes:
        operations: number of its operations that were not read yet.
        shortened: number of references of which only the type was kept, because of depth or size.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self.references = References(document)
        self.operations = 0
        self._budget = DOCUMENT_BUDGET + _values(document)
        self._remaining = self._budget
        self._sizes: dict[str, int] = {}
        self.shortened = 0

    def share(self) -> int:
        """Maximum values of the next operation."""
        waiting, self.operations = max(self.operations, 1), self.operations - 1
        if self._remaining > self._budget // 2:
            return VALUE_BUDGET
        return max(min(VALUE_BUDGET, self._remaining // waiting), 0)

    def size(self, reference: str, target: object) -> int:
        """Number of values in the target of a reference, without following its references.

        Cached.
        """
        if reference not in self._sizes:
            self._sizes[reference] = _values(target)
        return self._sizes[reference]

    def take(self, values: int, field: str) -> None:
        """Count values that were copied.

        Raises:
            ToolError: there are far too many values, even without references.
        """
        self._remaining -= values
        if self._remaining < -self._budget:
            reason = (
                f"the document's operations take more than {2 * self._budget:,} values together"
            )
            raise ToolError(field=f"{field:.200}", reason=reason)


def _values(document: Any) -> int:
    """Number of values in a document. Aliases count once."""
    visited: set[int] = set()
    count, waiting = 0, [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list) and id(value) not in visited:
            visited.add(id(value))
            count += len(value)
            waiting.extend(value.values() if isinstance(value, dict) else value)
    return count


class Inlining:
    """Copies schemas of one document, with references replaced by their targets.

    If a reference is inside itself, or beyond the limits of this module, only its type is kept. So
    a recursive type ends at its first repetition.

    Args:
        expansion: the budget of all operations of the document.
    """

    def __init__(self, expansion: Expansion) -> None:
        self._expansion = expansion
        self._budget = expansion.share()
        self._copied = 0

    def target(self, value: Any, field: str) -> dict[str, Any]:
        """The object itself, or the target of its `$ref`.

        Raises:
            ToolError: not an object, or a reference that leads out of the document, nowhere or
                back to itself.
        """
        self._expansion.take(OBJECT_COST, field)
        for _ in range(REFERENCE_DEPTH):
            resolved = object_at(value, field)
            if "$ref" not in resolved:
                return resolved
            value = self._look_up(resolved["$ref"], field)
        raise ToolError(field=field, reason=f"passes through {REFERENCE_DEPTH} references or more")

    def schema(self, value: Any, field: str) -> dict[str, Any]:
        """A copy of a schema that needs no other part of the document.

        Raises:
            ToolError: a reference that leads out of the document or nowhere, or too deep or
                too large a schema.
        """
        if value is True:
            return {}
        copy: dict[str, Any] = self._copy(object_at(value, field), field, (), 0)
        return copy

    def _copy(self, value: Any, field: str, followed: tuple[str, ...], depth: int) -> Any:
        if not isinstance(value, dict | list):
            return value
        if depth > NESTING_LIMIT:
            raise ToolError(
                field=f"{field:.200}", reason=f"nested deeper than {NESTING_LIMIT} levels"
            )
        self._budget -= len(value)
        self._copied += len(value)
        self._expansion.take(len(value), field)
        if self._copied > 2 * VALUE_BUDGET:
            raise ToolError(
                field=f"{field:.200}", reason=f"holds more than {2 * VALUE_BUDGET:,} values"
            )
        if isinstance(value, list):
            return [
                self._copy(item, f"{field}[{i}]", followed, depth + 1)
                for i, item in enumerate(value)
            ]
        reference = value.get("$ref")
        if isinstance(reference, str):
            beside = {key: child for key, child in value.items() if key != "$ref"}
            copy = self._copy(beside, field, followed, depth + 1)
            inner = self._look_up(reference, field)
            if reference in followed:
                return _type_of(inner) | copy
            too_deep = len(followed) == REFERENCE_DEPTH
            if too_deep or self._budget < self._expansion.size(reference, inner):
                self._expansion.shortened += 1
                return _type_of(inner) | copy
            inlined = self._copy(inner, field, (*followed, reference), depth + 1)
            return inlined | copy if isinstance(inlined, dict) else copy
        return {
            key: self._copy(child, f"{field}.{_checked_key(key, field):.80}", followed, depth + 1)
            for key, child in value.items()
        }

    def _look_up(self, reference: Any, field: str) -> Any:
        target = self._expansion.references.find(reference) if isinstance(reference, str) else None
        if target is None:
            reason = f"refers to {short_value(reference)}, which is not in this document"
            raise ToolError(field=f"{field:.200}.$ref", reason=reason)
        return target


def _type_of(schema: object) -> dict[str, Any]:
    """The type of a schema that is not copied. It accepts everything that the schema accepts."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    return {"type": kind} if isinstance(kind, str) else {}


def _checked_key(key: object, field: str) -> str:
    if not isinstance(key, str):
        raise ToolError(field=f"{field:.200}", reason=f"has a key of type {type(key).__name__}")
    return key


_METHODS = tuple(method.lower() for method in METHODS)
_NOT_IN_NAMES = re.compile(r"[^0-9A-Za-z]+")
_DEPRECATED = "deprecated"


class _Operation(NamedTuple):
    """An operation that is not read yet: the value of an `Entry`.

    Attributes:
        definition: the operation as the document has it.
        endpoint: where it is in the document.
        expansion: the budget that all operations of the document share.
    """

    definition: Any
    endpoint: Endpoint
    expansion: Expansion


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
        is_three = version.startswith("3.") if isinstance(version, str) else version == 3.0
        if not is_three:
            raise CatalogError(
                f"openapi: must be 3.x, got {short_value(version)}; convert the document"
            )
        paths = value.get("paths", {})
        if not isinstance(paths, dict):
            raise CatalogError(f"paths: must be an object, got {type(paths).__name__}")
        info = value.get("info")
        server = document.server_of(info.get("title") if isinstance(info, dict) else None)
        expansion = Expansion(value)
        is_version_30 = str(version).startswith("3.0")
        entries: list[Entry] = []
        for path, item in paths.items():
            if not isinstance(path, str):
                raise CatalogError(f"paths: keys must be text, got {short_value(path)}")
            if not path.startswith("x-"):
                endpoint = Endpoint(
                    "", path, None, (None, None, value.get("servers")), is_version_30
                )
                entries += _operations(item, endpoint, expansion, server)
        expansion.operations = len(entries)
        yield from entries
        if expansion.shortened:
            document.notes.append(
                f"{expansion.shortened:,} references are too deep or too large to be spelled out: "
                "of the arguments they describe only the type is kept"
            )

    def tool(self, entry: Entry) -> Tool:
        """The tool of an operation."""
        call = entry.value
        if not isinstance(call, _Operation):
            raise ToolError(field="definition", reason="must be an object with operations")
        method, path = call.endpoint.method, call.endpoint.path
        definition = object_at(call.definition, method)
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
            schema, operation = read_request(definition, call.endpoint, Inlining(call.expansion))
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
    item: Any, endpoint: Endpoint, expansion: Expansion, server: str | None
) -> Iterator[Entry]:
    place = f"paths.{endpoint.path:.200}"
    if isinstance(item, dict) and "$ref" in item:
        reference = item["$ref"]
        shared = expansion.references.find(reference) if isinstance(reference, str) else None
        item = shared | item if isinstance(shared, dict) else None
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
            yield Entry(f"{place}.{method}", _Operation(definition, called, expansion), server)
