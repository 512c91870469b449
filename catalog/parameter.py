"""The parameters of a tool, read off its input schema."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from .schema import BRANCH_KEYS, References, canonical_json

PARAMETER_LIMIT = 256
"""Maximum number of parameters of one tool."""
PARAMETER_DEPTH = 8
"""Maximum depth of objects, items and alternatives, references included."""
ENUM_LIMIT = 64
"""Maximum number of values of one parameter."""
_MAX_SCHEMAS_VISITED = 4096

# Most schemas have none of these keywords, which is quickly seen.
_SAME_VALUE_KEYS = frozenset({*BRANCH_KEYS, "$ref"})
_CONTENT_KEYS = frozenset({"items", "additionalProperties"})
_VALUE_KEYS = frozenset({"items", "enum", "const"})


class Parameter(NamedTuple):
    """One parameter of a tool, at any depth of its input schema.

    Attributes:
        name: the property's own name.
        path: its position, such as `filter.labels[].name`; `*` stands for any key.
        description: its text, or "".
        enum: the permitted values, as text.
        required: whether the enclosing object requires it, or one of its alternatives does.
    """

    name: str
    path: str
    description: str
    enum: tuple[str, ...]
    required: bool


class _Frame(NamedTuple):
    """A schema that is still to be visited.

    Attributes:
        schema: the schema.
        path: path of the parameter that it describes, see `Parameter`; "" for all arguments.
        depth: levels of nesting above it.
        followed: references that led to it.
    """

    schema: dict[str, Any]
    path: str
    depth: int
    followed: frozenset[str]


def parameters_of_schema(schema: dict[str, Any]) -> tuple[Parameter, ...]:
    """All parameters of an input schema: outer before inner, required before optional.

    Includes properties, array items, alternatives and local references. Missing and circular
    references, and everything beyond the limits of this module, are left out.

    Args:
        schema: a JSON Schema of an object. Malformed parts are skipped.
    """
    parameters: dict[str, Parameter] = {}
    references = References(schema)
    queue = deque([_Frame(schema, "", 0, frozenset())])
    for _ in range(_MAX_SCHEMAS_VISITED):
        if not queue:
            break
        frame = queue.popleft()
        if frame.path in parameters:
            parameters[frame.path] = _add_details(parameters[frame.path], frame.schema)
        if frame.depth == PARAMETER_DEPTH:
            continue
        if not _SAME_VALUE_KEYS.isdisjoint(frame.schema):
            queue.extend(_alternatives(frame, references))
        for name, child, required in properties_of(frame.schema):
            path = f"{frame.path}.{name}" if frame.path else name
            if path in parameters:
                parameters[path] = parameters[path]._replace(
                    required=parameters[path].required or required
                )
            elif len(parameters) < PARAMETER_LIMIT:
                parameters[path] = Parameter(name, path, "", (), required)
            inner = child if isinstance(child, dict) else {}
            queue.append(_Frame(inner, path, frame.depth + 1, frame.followed))
        if not _CONTENT_KEYS.isdisjoint(frame.schema):
            queue.extend(_contents(frame))
    return tuple(parameters.values())


def properties_of(schema: dict[str, Any]) -> Iterator[tuple[str, Any, bool]]:
    """Name, schema and whether it is required, of each property; required ones first."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return
    listed = schema.get("required")
    required = [n for n in listed if isinstance(n, str)] if isinstance(listed, list) else []
    for name in dict.fromkeys((*required, *properties)):
        if name in properties:
            yield name, properties[name], name in required


def _contents(frame: _Frame) -> Iterator[_Frame]:
    """The schemas of an array's items and of an object's values with free keys."""
    items = frame.schema.get("items")
    for item in items if isinstance(items, list) else [items]:
        if isinstance(item, dict):
            yield frame._replace(schema=item, path=f"{frame.path}[]", depth=frame.depth + 1)
    free = frame.schema.get("additionalProperties")
    if isinstance(free, dict):
        path = f"{frame.path}.*" if frame.path else "*"
        yield frame._replace(schema=free, path=path, depth=frame.depth + 1)


def _alternatives(frame: _Frame, references: References) -> Iterator[_Frame]:
    """The branches and the reference of a schema, which describe the same value as it does."""
    for keyword in BRANCH_KEYS:
        branches = frame.schema.get(keyword)
        for branch in branches if isinstance(branches, list) else []:
            if isinstance(branch, dict):
                yield frame._replace(schema=branch, depth=frame.depth + 1)
    reference = frame.schema.get("$ref")
    if isinstance(reference, str) and reference not in frame.followed:
        target = references.find(reference)
        if isinstance(target, dict):
            followed = frame.followed | {reference}
            yield _Frame(target, frame.path, frame.depth + 1, followed)


def _add_details(parameter: Parameter, schema: dict[str, Any]) -> Parameter:
    """The parameter with the description and the values of one more of its schemas."""
    description = schema.get("description")
    if parameter.description or not isinstance(description, str):
        description = parameter.description
    enum = parameter.enum
    if not _VALUE_KEYS.isdisjoint(schema):
        enum = tuple(dict.fromkeys((*enum, *_values(schema))))[:ENUM_LIMIT]
    return Parameter(parameter.name, parameter.path, description, enum, parameter.required)


def _values(schema: dict[str, Any]) -> Iterator[str]:
    """The permitted values of a schema, or of the items of an array."""
    items = schema.get("items")
    for part in (schema, items) if isinstance(items, dict) else (schema,):
        listed = part.get("enum")
        constant = [part["const"]] if "const" in part else []
        for value in (*(listed if isinstance(listed, list) else []), *constant):
            if value is not None:
                yield value if isinstance(value, str) else canonical_json(value)
