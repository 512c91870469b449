"""Schemas of OpenAPI documents: with references replaced, and as JSON Schema of a request."""

from __future__ import annotations

from typing import Any

from ...errors import ToolError
from ..schema import BRANCH_KEYS, NAMED_SCHEMA_KEYS, References, checked_object
from .reader import short_value

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

#: Keys of OpenAPI without a meaning for a request.
_DROPPED_KEYS = frozenset(("xml", "discriminator", "externalDocs"))
_LIST_KEYS = (*BRANCH_KEYS, "prefixItems")
_SINGLE_SCHEMA_KEYS = (
    "items additionalProperties not if then else contains propertyNames unevaluatedItems "
    "unevaluatedProperties"
).split()
#: A schema without these keys is the same in a request.
_KEYS_TO_CONVERT = _DROPPED_KEYS.union(
    NAMED_SCHEMA_KEYS,
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
        elif key in NAMED_SCHEMA_KEYS and isinstance(value, dict):
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


class ValueBudget:
    """Limits the values copied for all operations of a document, shared between them.

    A few kilobytes of references can expand to millions of values. When half of the budget is used,
    each operation gets an equal share of the rest. If nothing is left for a reference, only its
    type is kept.

    Args:
        document: the whole OpenAPI document.

    Attributes:
        references: resolves the document's references.
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


class SchemaCopier:
    """Copies schemas of one document, with references replaced by their targets.

    If a reference is inside itself, or beyond the limits of this module, only its type is kept. So
    a recursive type ends at its first repetition.

    Args:
        document_budget: the budget of all operations of the document.
    """

    def __init__(self, document_budget: ValueBudget) -> None:
        self._document_budget = document_budget
        self._budget = document_budget.share()
        self._copied = 0

    def resolved_object(self, value: Any, field: str) -> dict[str, Any]:
        """The object itself, or the target of its `$ref`.

        Raises:
            ToolError: not an object, or a reference that leads out of the document, nowhere or
                back to itself.
        """
        self._document_budget.take(OBJECT_COST, field)
        for _ in range(REFERENCE_DEPTH):
            resolved = checked_object(value, field)
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
        copy: dict[str, Any] = self._copy(checked_object(value, field), field, (), 0)
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
        self._document_budget.take(len(value), field)
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
            if too_deep or self._budget < self._document_budget.size(reference, inner):
                self._document_budget.shortened += 1
                return _type_of(inner) | copy
            inlined = self._copy(inner, field, (*followed, reference), depth + 1)
            return inlined | copy if isinstance(inlined, dict) else copy
        return {
            key: self._copy(child, f"{field}.{_checked_key(key, field):.80}", followed, depth + 1)
            for key, child in value.items()
        }

    def _look_up(self, reference: Any, field: str) -> Any:
        target = (
            self._document_budget.references.find(reference) if isinstance(reference, str) else None
        )
        if target is None:
            raise missing_target(reference, f"{field:.200}.$ref")
        return target


def missing_target(reference: object, field: str) -> ToolError:
    """The error of a reference whose target is missing, or in another document."""
    reason = f"refers to {short_value(reference)}, which is not in this document"
    return ToolError(field=field, reason=reason)


def _type_of(schema: object) -> dict[str, Any]:
    """The type of a schema that is not copied. It accepts everything that the schema accepts."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    return {"type": kind} if isinstance(kind, str) else {}


def _checked_key(key: object, field: str) -> str:
    if not isinstance(key, str):
        raise ToolError(field=f"{field:.200}", reason=f"has a key of type {type(key).__name__}")
    return key
