"""Converts JSON Schema to Python types for a type checker."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from typing import Any

from ..catalog.schema import References

#: Type for schemas that are wrong, too deep or too large.
ANY_TYPE = "Any"
#: Limits for one tool: subschemas, their depth, and characters of one type.
_MAX_SUBSCHEMAS, _MAX_DEPTH, _MAX_TYPE_CHARS = 1_000, 12, 4_000
_MAX_FIELDS, _MAX_BRANCHES = 200, 20
_MAX_CHOICES, _MAX_CHOICE_CHARS = 40, 800
_PYTHON_TYPE_BY_SCHEMA_TYPE = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
}
#: Names in the text of types.
TYPE_NAMES = frozenset({"Any", "Literal", "NotRequired", "TypedDict", "dict", "list"}) | frozenset(
    _PYTHON_TYPE_BY_SCHEMA_TYPE.values()
)
#: Added to the TypedDict of an argument that may have further fields.
_OR_DICT = " | dict[str, Any]"
_NAME_PARTS = re.compile(r"[^\W_]+")
_MAX_NAME_CHARS = 48


class TypeDefinitions:
    """The TypedDicts of one stub file, with unique names.

    Args:
        reserved: names that may not be used.

    Attributes:
        texts: the definitions as Python, in the order in which they were added.
    """

    def __init__(self, reserved: frozenset[str] = frozenset()) -> None:
        self._used_names = set(reserved)
        self._name_by_body: dict[str, str] = {}
        self.texts: list[str] = []

    def reserve_name(self, suggestion: str) -> str:
        """Reserve an unused name that is similar to the wanted one."""
        base = "".join(part[:1].upper() + part[1:] for part in _NAME_PARTS.findall(suggestion))
        base = base[-_MAX_NAME_CHARS:].lstrip("0123456789") or "Object"
        if not base.isidentifier():
            base = "Object"
        candidate, number = base, 2
        while candidate in self._used_names:
            candidate, number = f"{base}{number}", number + 1
        self._used_names.add(candidate)
        return candidate

    def add(self, name: str, fields: Mapping[str, str], *, recursive: bool) -> str:
        """Define a TypedDict, or return the name of one with the same fields.

        Args:
            name: an unused name.
            fields: name to type.
            recursive: whether the fields refer to the name.

        Returns:
            The name of the definition.
        """
        if all(_is_name(key) for key in fields):
            lines = "\n".join(f"    {key}: {kind}" for key, kind in fields.items())
            text = f"class {name}(TypedDict):\n{lines or '    pass'}\n"
        else:
            entries = ", ".join(f"{key!a}: {kind}" for key, kind in fields.items())
            text, lines = f'{name} = TypedDict("{name}", {{{entries}}})\n', entries
        if not recursive and (existing := self._name_by_body.get(lines)) is not None:
            return existing
        self._name_by_body.setdefault(lines, name)
        self.texts.append(text)
        return name


class TypeWriter:
    """Writes the types of one schema.

    Args:
        schema: JSON Schema of the arguments or the result. It is untrusted.
        definitions: receives the TypedDicts.
        prefix: prefix of their names.
        is_argument: whether the value is an argument. If it may have unknown fields, an argument
            is a TypedDict or any dict. A result is a dict, because the checker would refuse an
            unknown key of a TypedDict.
    """

    def __init__(
        self,
        schema: dict[str, Any],
        definitions: TypeDefinitions,
        prefix: str,
        *,
        is_argument: bool = False,
    ) -> None:
        self._references = References(schema)
        self._definitions = definitions
        self._prefix = prefix
        self._is_argument = is_argument
        self._remaining_subschemas = _MAX_SUBSCHEMAS
        self._names_by_reference: dict[str, str] = {}
        self._recursive_names: set[str] = set()

    def write(self, schema: object, name: str, depth: int = 0) -> str:
        """The type of a subschema; `Any` if there is no other.

        Args:
            schema: the subschema.
            name: name of the argument or field, for the name of a TypedDict.
            depth: its nesting depth.
        """
        self._remaining_subschemas -= 1
        if not isinstance(schema, dict) or depth > _MAX_DEPTH or self._remaining_subschemas < 0:
            return ANY_TYPE
        text = self._type_of(schema, name, depth)
        return text if len(text) <= _MAX_TYPE_CHARS else ANY_TYPE

    def _type_of(self, schema: dict[str, Any], name: str, depth: int) -> str:
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return self._type_of_reference(reference, name, depth)
        if "const" in schema:
            return _literal([schema["const"]]) or ANY_TYPE
        if isinstance(values := schema.get("enum"), list) and values:
            return _literal(values) or _union_of_value_types(values)
        for union in ("anyOf", "oneOf"):
            if isinstance(branches := schema.get(union), list) and branches:
                if "properties" in schema:
                    break  # The branches only say which fields go together.
                return self._type_of_union(branches, name, depth)
        if isinstance(parts := schema.get("allOf"), list) and parts:
            return self._merge_parts(schema, parts, name, depth)
        kinds = schema.get("type")
        if isinstance(kinds, list):
            return _join_union(
                [self._type_of_kind(kind, schema, name, depth) for kind in kinds[:_MAX_BRANCHES]]
            )
        return self._type_of_kind(kinds, schema, name, depth)

    def _type_of_reference(self, reference: str, name: str, depth: int) -> str:
        if (existing := self._names_by_reference.get(reference)) is not None:
            self._recursive_names.add(existing)
            return existing
        target = self._references.find(reference)
        if not isinstance(target, dict):
            return ANY_TYPE
        if not _has_only_known_fields(target):
            # Only a TypedDict can refer to itself. The depth limit ends other recursive types.
            return self.write(target, name, depth + 1)
        last_part = reference.rpartition("/")[2] or name
        type_name = self._definitions.reserve_name(f"{self._prefix} {last_part}")
        self._names_by_reference[reference] = type_name
        type_text = self._define_record(target, type_name, depth)
        self._names_by_reference[reference] = type_text
        return type_text

    def _type_of_union(self, branches: list[Any], name: str, depth: int) -> str:
        if len(branches) > _MAX_BRANCHES:
            return ANY_TYPE
        return _join_union([self.write(branch, name, depth + 1) for branch in branches])

    def _merge_parts(self, schema: dict[str, Any], parts: list[Any], name: str, depth: int) -> str:
        if len(parts) > _MAX_BRANCHES:
            return ANY_TYPE
        own_schema = {key: value for key, value in schema.items() if key != "allOf"}
        properties: dict[str, Any] = {}
        required: list[Any] = []
        targets = [self._resolve_part(part) for part in parts]
        if len(targets) == 1 and "properties" not in own_schema and "type" not in own_schema:
            return self.write(parts[0], name, depth + 1)
        for target in (*targets, own_schema):
            if target is None or not isinstance(target.get("properties", {}), dict):
                return ANY_TYPE
            properties |= target.get("properties", {})
            part_required = target.get("required")
            required += part_required if isinstance(part_required, list) else []
        if not properties:
            return ANY_TYPE
        return self._type_of_kind(
            "object", {"properties": properties, "required": required}, name, depth
        )

    def _resolve_part(self, part: object) -> dict[str, Any] | None:
        if isinstance(part, dict) and isinstance(part.get("$ref"), str):
            part = self._references.find(part["$ref"])
        return part if isinstance(part, dict) else None

    def _type_of_kind(self, kind: object, schema: dict[str, Any], name: str, depth: int) -> str:
        if kind == "array" or (kind is None and "items" in schema):
            items = schema.get("items")
            return f"list[{self.write(items, f'{name} item', depth + 1)}]"
        if kind == "object" or (kind is None and "properties" in schema):
            closed = _has_only_known_fields(schema)
            if closed or (self._is_argument and _has_fields(schema)):
                type_name = self._definitions.reserve_name(f"{self._prefix} {name}")
                record = self._define_record(schema, type_name, depth)
                return record if closed else f"{record}{_OR_DICT}"
            extra = schema.get("additionalProperties")
            if not isinstance(extra, dict) or schema.get("properties"):
                return "dict[str, Any]"
            return f"dict[str, {self.write(extra, f'{name} value', depth + 1)}]"
        return (
            _PYTHON_TYPE_BY_SCHEMA_TYPE.get(kind, ANY_TYPE) if isinstance(kind, str) else ANY_TYPE
        )

    def _define_record(self, schema: dict[str, Any], type_name: str, depth: int) -> str:
        required = schema.get("required")
        needed = required if isinstance(required, list) else []
        fields: dict[str, str] = {}
        for key, value in schema["properties"].items():
            kind = self.write(value, key, depth + 1)
            fields[key] = kind if key in needed else f"NotRequired[{kind}]"
        return self._definitions.add(
            type_name, fields, recursive=type_name in self._recursive_names
        )


def scalar_default(schema: object, kind: str) -> str:
    """The default of an argument in Python; `...` if it is long or not of the type.

    Args:
        schema: schema of the argument.
        kind: its Python type.
    """
    if not isinstance(schema, dict) or "default" not in schema:
        return "..."
    value = schema["default"]
    names = kind.split(" | ")
    is_of_kind = (
        (value is None and "None" in names)
        or (isinstance(value, bool) and "bool" in names)
        or (isinstance(value, int) and not isinstance(value, bool) and "int" in names)
        or (isinstance(value, int | float) and not isinstance(value, bool) and "float" in names)
        or (isinstance(value, str) and "str" in names)
        or (kind.startswith("Literal[") and kind.endswith("]") and _is_choice(schema, value))
    )
    text = ascii(value) if is_of_kind else "..."
    return text if len(text) <= 40 else "..."


def _is_choice(schema: dict[str, Any], value: object) -> bool:
    values = schema.get("enum")
    return isinstance(values, list) and any(
        type(value) is type(choice) and value == choice for choice in values
    )


def _has_only_known_fields(schema: dict[str, Any]) -> bool:
    """Whether all fields of an object are known."""
    return _has_fields(schema) and schema.get("additionalProperties") in (None, False)


def _has_fields(schema: dict[str, Any]) -> bool:
    properties = schema.get("properties")
    return (
        isinstance(properties, dict)
        and 0 < len(properties) <= _MAX_FIELDS
        and schema.get("type", "object") in ("object", ["object", "null"], ["null", "object"])
        and all(len(key) <= 200 for key in properties)
    )


def _is_name(key: str) -> bool:
    # In a class, Python renames `__x`, and a field with the name of a type hides the type.
    return (
        key.isidentifier()
        and key.isascii()
        and not key.startswith("__")
        and not key[0].isupper()
        and not keyword.iskeyword(key)
        and key not in TYPE_NAMES
    )


def _literal(values: list[Any]) -> str:
    """The values as a Literal; empty if a Literal cannot contain them."""
    if len(values) > _MAX_CHOICES:
        return ""
    plain = [value for value in values if value is not None]
    if not all(isinstance(value, str | int | bool) for value in plain):
        return ""
    literals = list(dict.fromkeys(repr(value) for value in plain))
    if sum(map(len, literals)) > _MAX_CHOICE_CHARS:
        return ""
    members = [f"Literal[{', '.join(literals)}]"] if literals else []
    if len(plain) < len(values):
        members.append("None")
    return " | ".join(members)


def _union_of_value_types(values: list[Any]) -> str:
    names = {
        str: "str",
        bool: "bool",
        int: "int",
        float: "float",
        type(None): "None",
    }
    return _join_union([names.get(type(value), ANY_TYPE) for value in values[:10_000]])


def _join_union(kinds: list[str]) -> str:
    if any(kind.endswith(_OR_DICT) for kind in kinds):
        kinds = [*(kind.removesuffix(_OR_DICT) for kind in kinds), "dict[str, Any]"]
    distinct = list(dict.fromkeys(part for kind in kinds for part in _union_members(kind)))
    if ANY_TYPE in distinct or not distinct:
        return ANY_TYPE
    if "float" in distinct and "int" in distinct:
        distinct.remove("int")
    if "None" in distinct:
        distinct.remove("None")
        distinct.append("None")
    return " | ".join(distinct)


def _union_members(kind: str) -> list[str]:
    """The members of a union. Unions inside brackets are not split."""
    return [kind] if "[" in kind else kind.split(" | ")
