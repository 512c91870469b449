"""OpenAPI 3 documents: every operation is a tool, its schema with all references replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ...errors import CatalogError, ToolError
from ..schema import References
from ..tool import Tool
from .reader import Document, Entry, object_at, short_value

REFERENCE_DEPTH = 5
"""Maximum depth of nested references. Beyond it, only the type is kept."""
VALUE_BUDGET = 10_000
"""Maximum values copied for one operation. Beyond it, only the types of references are kept."""
DOCUMENT_BUDGET = 300_000
"""Values copied for all operations of a document, beyond as many as it holds: half a second."""
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
        self._expansion.take(1, field)
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


METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
"""The operations of a path item, in the order of the OpenAPI specification."""
_BODY = "body"
_NOT_IN_NAMES = re.compile(r"[^0-9A-Za-z]+")


class _Operation(NamedTuple):
    method: str
    path: str
    definition: Any
    shared: Any
    expansion: Expansion


class OpenApiReader:
    """A document with `openapi: 3.x`.

    Name: operationId, else method and path. Description: summary, description, and a last line with
    method and path. Arguments: parameters and the properties of the request body, references
    followed; a body that is no object, or whose properties clash with parameters, is the argument
    `body`.
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
        entries: list[Entry] = []
        for path, item in paths.items():
            if not isinstance(path, str):
                raise CatalogError(f"paths: keys must be text, got {short_value(path)}")
            if not path.startswith("x-"):
                entries += _operations(path, item, expansion, server)
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
        operation = object_at(call.definition, call.method)
        operation_id = operation.get("operationId")
        name = operation_id if operation_id is not None else _derived_name(call.method, call.path)
        texts = (_prose(operation.get(key)) for key in ("summary", "description"))
        prose = [text for text in dict.fromkeys(texts) if text]
        try:
            schema = _arguments(operation, call.shared, Inlining(call.expansion))
        except ToolError as error:
            valid_name = name if isinstance(name, str) else None
            raise ToolError(field=error.field, reason=error.reason, tool=valid_name) from None
        return Tool.from_dict(
            {
                "name": name,
                "server": entry.server,
                "title": operation.get("summary"),
                "description": "\n".join([*prose, f"{call.method.upper()} {call.path}"]),
                "input_schema": schema,
                "tags": operation.get("tags"),
            }
        )


def _prose(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _derived_name(method: str, path: str) -> str:
    """`get /users/{id}` as `get_users_id`."""
    return _NOT_IN_NAMES.sub("_", f"{method} {path}").strip("_")


def _operations(path: str, item: Any, expansion: Expansion, server: str | None) -> Iterator[Entry]:
    place = f"paths.{path:.200}"
    if isinstance(item, dict) and "$ref" in item:
        reference = item["$ref"]
        shared = expansion.references.find(reference) if isinstance(reference, str) else None
        item = shared | item if isinstance(shared, dict) else None
    if not isinstance(item, dict):
        yield Entry(place, item, server)
        return
    for method in METHODS:
        if method in item:
            call = _Operation(method, path, item[method], item.get("parameters"), expansion)
            yield Entry(f"{place}.{method}", call, server)


def _arguments(operation: dict[str, Any], shared: Any, inlining: Inlining) -> dict[str, Any]:
    """JSON Schema of an operation's parameters and request body."""
    properties: dict[str, Any] = {}
    required: dict[str, None] = {}
    for field, listed in (("path.parameters", shared), ("parameters", operation.get("parameters"))):
        for index, parameter in enumerate(_list(listed, field)):
            place = f"{field}[{index}]"
            resolved = inlining.target(parameter, place)
            name = resolved.get("name")
            if not isinstance(name, str):
                raise ToolError(field=f"{place}.name", reason="must be text")
            properties[name] = _parameter_schema(resolved, inlining, place)
            required.pop(name, None)
            if resolved.get("required") is True:
                required[name] = None
    if operation.get("requestBody") is not None:
        _add_body(operation["requestBody"], properties, required, inlining)
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return schema | ({"required": list(required)} if required else {})


def _parameter_schema(parameter: dict[str, Any], inlining: Inlining, place: str) -> dict[str, Any]:
    declared = parameter.get("schema")
    if declared is None:
        declared = _media_schema(parameter.get("content"))
    schema = inlining.schema(declared if declared is not None else {}, f"{place}.schema")
    description = _prose(parameter.get("description"))
    return schema | ({"description": description} if description else {})


def _add_body(
    request_body: Any, properties: dict[str, Any], required: dict[str, None], inlining: Inlining
) -> None:
    body = inlining.target(request_body, "requestBody")
    declared = _media_schema(body.get("content"))
    schema = inlining.schema(declared if declared is not None else {}, "requestBody.schema")
    inner = schema.get("properties")
    if isinstance(inner, dict) and inner and not inner.keys() & properties.keys():
        properties.update(inner)
        listed = schema.get("required")
        if body.get("required") is True and isinstance(listed, list):
            required.update((name, None) for name in listed if isinstance(name, str))
        return
    description = _prose(body.get("description"))
    name = _BODY
    while name in properties:
        name = f"{name}_"
    properties[name] = schema | ({"description": description} if description else {})
    if body.get("required") is True:
        required[name] = None


def _media_schema(content: Any) -> Any:
    """The schema of the JSON media type, else of the first one."""
    if not isinstance(content, dict):
        return None
    media = [kind for kind in content if isinstance(kind, str)]
    media.sort(key=lambda kind: "json" not in kind)
    chosen = content[media[0]] if media else None
    return chosen.get("schema") if isinstance(chosen, dict) else None


def _list(value: Any, field: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ToolError(field=field, reason=f"must be a list, got {type(value).__name__}")
    return value
