"""Schemas of OpenAPI documents as JSON Schema of what a request may contain."""

from __future__ import annotations

from typing import Any

#: Keys of OpenAPI without a meaning for a request.
_DROPPED_KEYS = frozenset(("xml", "discriminator", "externalDocs"))
_MAP_KEYS = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_LIST_KEYS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE_SCHEMA_KEYS = (
    "items additionalProperties not if then else contains propertyNames unevaluatedItems "
    "unevaluatedProperties"
).split()
#: A schema without these keys is the same in a request.
_KEYS_TO_CONVERT = _DROPPED_KEYS.union(
    _MAP_KEYS,
    _LIST_KEYS,
    _SINGLE_SCHEMA_KEYS,
    "required nullable exclusiveMinimum exclusiveMaximum".split(),
)
#: Keys of a schema that is nothing but an object with properties.
_PLAIN_KEYS = frozenset(
    "type properties required title description example examples deprecated default $comment "
    "additionalProperties allOf".split()
)


def convert_request_schema(schema: Any, *, is_version_30: bool) -> Any:
    """A schema of what a request may contain.

    Properties with `readOnly` are left out, because only answers have them. With OpenAPI 3.0,
    `nullable` and a boolean `exclusiveMinimum` are replaced by what JSON Schema has for them.

    Args:
        schema: a schema without references, of limited depth. The result can share parts with it.
        is_version_30: whether it is of OpenAPI 3.0.
    """
    return _converted(schema, is_version_30)


def plain_properties(schema: Any) -> tuple[dict[str, Any], list[str]] | None:
    """Properties and required names of a schema that says nothing else; None for other schemas.

    Parts of `allOf` are joined if each is such a schema, and no property occurs in two of them.
    """
    merged = _plain(schema)
    return merged if merged is not None and merged[0] else None


def is_binary(schema: Any) -> bool:
    """Whether a schema stands for bytes of a file."""
    if not isinstance(schema, dict):
        return False
    media_type = schema.get("contentMediaType")
    is_text = not isinstance(media_type, str) or media_type.startswith(
        ("text/", "application/json")
    )
    is_encoded = schema.get("contentEncoding") is not None
    return schema.get("format") == "binary" or not (is_text or is_encoded)


def binary_as_base64(schema: Any) -> Any:
    """A copy of a form's schema in which files, and lists of files, are base64."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return schema
    converted = {}
    for name, child in properties.items():
        converted[name] = _file(child)
        if isinstance(child, dict) and is_binary(child.get("items")):
            converted[name] = child | {"items": _file(child["items"])}
    return schema | {"properties": converted}


def _file(schema: Any) -> Any:
    if not is_binary(schema):
        return schema
    kept = {key: schema[key] for key in ("title", "description", "deprecated") if key in schema}
    return {"type": "string", "contentEncoding": "base64"} | kept


def _converted(
    schema: Any,
    is_version_30: bool,
    outer_read_only: frozenset[str] = frozenset(),
    *,
    is_part: bool = False,
) -> Any:
    """The schema for a request.

    Args:
        schema: a schema.
        is_version_30: whether it is of OpenAPI 3.0.
        outer_read_only: read-only properties of the schemas that this one is a branch of.
        is_part: whether it is a part of `allOf`. Its read-only properties are in `outer_read_only`.
    """
    if not isinstance(schema, dict) or _KEYS_TO_CONVERT.isdisjoint(schema):
        return schema
    read_only = outer_read_only if is_part else outer_read_only | _read_only_names(schema)
    copy: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _DROPPED_KEYS:
            continue
        if key == "properties" and isinstance(value, dict):
            copy[key] = {
                name: _converted(child, is_version_30)
                for name, child in value.items()
                if not _is_read_only(child)
            }
        elif key in _MAP_KEYS and isinstance(value, dict):
            copy[key] = {name: _converted(child, is_version_30) for name, child in value.items()}
        elif key in _LIST_KEYS and isinstance(value, list):
            # A branch of these describes the same object; an item of a tuple does not.
            names = frozenset() if key == "prefixItems" else read_only
            copy[key] = [
                _converted(child, is_version_30, names, is_part=key == "allOf") for child in value
            ]
        elif key in _SINGLE_SCHEMA_KEYS:
            names = read_only if key in ("not", "if", "then", "else") else frozenset()
            copy[key] = _converted(value, is_version_30, names)
        elif key == "required" and isinstance(value, list):
            names_left = [name for name in value if isinstance(name, str) and name not in read_only]
            if names_left:
                copy[key] = names_left
        else:
            copy[key] = value
    return _version_30_converted(copy) if is_version_30 else copy


def _is_read_only(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    branches = schema.get("allOf")
    in_branch = isinstance(branches, list) and any(
        isinstance(branch, dict) and branch.get("readOnly") is True for branch in branches
    )
    return schema.get("readOnly") is True or in_branch


def _read_only_names(schema: dict[str, Any]) -> frozenset[str]:
    """Names of the read-only properties of an object, in its own `properties` or in `allOf`."""
    names: set[str] = set()
    waiting: list[Any] = [schema]
    while waiting:
        part = waiting.pop()
        if not isinstance(part, dict):
            continue
        properties = part.get("properties")
        if isinstance(properties, dict):
            names |= {name for name, child in properties.items() if _is_read_only(child)}
        branches = part.get("allOf")
        waiting += branches if isinstance(branches, list) else ()
    return frozenset(names)


def _version_30_converted(schema: dict[str, Any]) -> dict[str, Any]:
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        is_exclusive = schema.get(exclusive)
        if isinstance(is_exclusive, bool):
            del schema[exclusive]
            if is_exclusive and bound in schema:
                schema[exclusive] = schema.pop(bound)
    if schema.pop("nullable", False) is not True:
        return schema
    kind = schema.get("type")
    if isinstance(kind, str):
        schema["type"] = [kind, "null"]
        choices = schema.get("enum")
        if isinstance(choices, list) and None not in choices:
            schema["enum"] = [*choices, None]
        return schema
    if not any(key in schema for key in ("enum", "allOf", "anyOf", "oneOf", "not")):
        return schema
    kept = {key: schema.pop(key) for key in ("title", "description") if key in schema}
    return kept | {"anyOf": [schema, {"type": "null"}]}


def _plain(schema: Any) -> tuple[dict[str, Any], list[str]] | None:
    if not isinstance(schema, dict) or not schema.keys() <= _PLAIN_KEYS:
        return None
    if schema.get("type", "object") != "object" or schema.get("additionalProperties", False):
        return None
    own, required = schema.get("properties", {}), schema.get("required", [])
    branches = schema.get("allOf", [])
    if (
        not isinstance(own, dict)
        or not isinstance(required, list)
        or not isinstance(branches, list)
    ):
        return None
    properties = dict(own)
    names = [name for name in required if isinstance(name, str)]
    for branch in branches:
        part = _plain(branch)
        # A closed branch forbids the properties of the others.
        if part is None or branch.get("additionalProperties") is False:
            return None
        if any(properties.get(name, child) != child for name, child in part[0].items()):
            return None
        properties |= part[0]
        names += part[1]
    return properties, list(dict.fromkeys(names))
