"""What types accept: those of our stubs, and those that datamodel-code-generator writes."""

from __future__ import annotations

import ast
import copy
import json
import re
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from datamodel_code_generator import DataModelType, InputFileType, LiteralType, generate
from datamodel_code_generator.format import PythonVersion
from pydantic import TypeAdapter, ValidationError

from shortlist import Catalog, Tool
from shortlist.codemode.script_names import ToolNames
from shortlist.codemode.stubs import Stubs, argument_names

_HEAD = (
    "from __future__ import annotations\nfrom typing import Any, Literal\n"
    "from typing_extensions import NotRequired, TypeAliasType, TypedDict\n"
)
#: Of every type that JSON has. Keys that no schema names are not compared: at run time, a TypedDict
#: lets them pass.
_VALUES = ("x", 7, 1.5, True, None, [], {}, [None])
_DEPTH, _PROBES = 6, 400
#: Types do not say these things, neither ours nor the oracle's.
_UNTYPED = (
    *("format", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum"),
    *("exclusiveMaximum", "multipleOf", "minItems", "maxItems", "uniqueItems", "title"),
    *("description", "default", "examples", "minProperties", "maxProperties"),
)


class Accepts:
    """Whether a value fits the type `Whole` of a source."""

    def __init__(self, source: str) -> None:
        module = types.ModuleType(f"oracle_{abs(hash(source))}")
        sys.modules[module.__name__] = module
        try:
            exec(source, module.__dict__)
            self._adapter = TypeAdapter(module.Whole)
            self._adapter.rebuild(force=True)
        finally:
            del sys.modules[module.__name__]

    def __call__(self, value: object) -> bool:
        try:
            self._adapter.validate_python(value, strict=True)
        except ValidationError:
            return False
        return True


@dataclass
class Compared:
    """What came of comparing two types on many values."""

    same: int = 0
    #: Places of values that only the oracle's type accepts.
    strict: list[str] = field(default_factory=list)
    #: Of values that only ours accepts, and of those of them whose type is documented as loose.
    loose: list[str] = field(default_factory=list)
    documented: list[str] = field(default_factory=list)
    #: Whether both accept the value with every field.
    whole: bool = False

    @property
    def values(self) -> int:
        return self.same + len(self.strict) + len(self.loose) + len(self.documented)


def compared(our: Accepts, schema: dict[str, Any]) -> Compared:
    """Compare a type of ours with the one that the oracle writes for a schema."""
    their, found = theirs(schema), Compared()
    for place, value, is_loose in Probes(schema).all():
        accepts = our(value), their(value)
        if accepts[0] is accepts[1]:
            found.same += 1
            found.whole |= accepts[0] and place == "whole"
        elif accepts[1]:
            found.strict.append(place)
        else:
            (found.documented if is_loose else found.loose).append(place)
    return found


def ours(tool: Tool) -> tuple[Accepts, Accepts | None]:
    """The arguments of a tool as its stub takes them, and its result if that has a schema."""
    tree = ast.parse(Stubs([tool], ToolNames(Catalog([tool]))).text())
    [function] = (one for one in ast.walk(tree) if isinstance(one, ast.AsyncFunctionDef))
    real = {made: name for name, made in argument_names(tool).items()}
    fields = []
    given = function.args
    for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        kind = ast.unparse(argument.annotation)
        kind = kind if default is None else f"NotRequired[{kind}]"
        fields.append(f"{real[argument.arg]!r}: {kind}")
    types_only = [
        one
        for one in tree.body
        if isinstance(one, ast.ClassDef | ast.Assign) and "TypedDict" in ast.unparse(one)
    ]
    head = "\n".join([_HEAD, *map(ast.unparse, types_only)])
    arguments = f"{head}\nWhole = TypedDict('Whole', {{{', '.join(fields)}}})"
    result = f"{head}\nWhole = {ast.unparse(function.returns)}"
    return Accepts(arguments), Accepts(result) if tool.output_schema else None


def theirs(schema: dict[str, Any]) -> Accepts:
    """What a schema describes, as datamodel-code-generator types it."""
    written = generate(
        json.dumps(_plain(schema)),
        input_file_type=InputFileType.JsonSchema,
        output_model_type=DataModelType.TypingTypedDict,
        target_python_version=PythonVersion.PY_311,
        use_standard_collections=True,
        use_union_operator=True,
        enum_field_as_literal=LiteralType.All,
        disable_timestamp=True,
        class_name="Whole",
        formatters=[],
    )
    body = re.sub(r"^from .*$", "", str(written), flags=re.MULTILINE)
    return Accepts(f"{_HEAD}{body}")


def _plain(schema: Any, *, names: bool = False) -> Any:
    """A schema without what no type says; names of properties stay."""
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: value
        if key in ("enum", "const", "required")
        else _plain(value, names=key in ("properties", "$defs", "definitions"))
        for key, value in schema.items()
        if names or key not in _UNTYPED
    }


class Probes:
    """Values that a schema admits, and values a step away from them."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._root = schema

    def all(self) -> Iterator[tuple[str, Any, bool]]:
        """What was done to a whole value, the outcome, and whether the type there may be loose."""
        whole = self.value(self._root, 0)
        if isinstance(whole, dict):
            yield "whole", whole, False
            yield from islice(self._changed(self._root, whole, "", 0, False), _PROBES)

    def value(self, schema: Any, depth: int) -> Any:
        """One value, with every field that a schema names."""
        schema = self._resolved(schema)
        if not isinstance(schema, dict) or depth > _DEPTH:
            return "x"
        if "const" in schema:
            return schema["const"]
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            return schema["enum"][0]
        for union in ("anyOf", "oneOf", "allOf"):
            if schema.get(union) and "properties" not in schema:
                return self.value(schema[union][0], depth + 1)
        kind = schema.get("type")
        kind = kind[0] if isinstance(kind, list) and kind else kind
        if kind == "object" or "properties" in schema:
            fields = schema.get("properties")
            return {
                name: self.value(one, depth + 1)
                for name, one in (fields if isinstance(fields, dict) else {}).items()
                if depth < _DEPTH - 1 or name in schema.get("required", [])
            }
        if kind == "array":
            return [self.value(schema["items"], depth + 1)] if "items" in schema else []
        return {"integer": 7, "number": 1.5, "boolean": True, "null": None}.get(kind, "x")

    def _changed(
        self, schema: Any, value: Any, place: str, depth: int, is_loose: bool
    ) -> Iterator[tuple[str, Any, bool]]:
        schema = self._resolved(schema)
        if not isinstance(schema, dict) or depth > _DEPTH:
            return
        is_loose = is_loose or self._is_loose(schema)
        fields = schema.get("properties")
        if isinstance(value, dict) and isinstance(fields, dict):
            for name in filter(value.__contains__, fields):
                inner, without = f"{place}.{name}", dict(value)
                del without[name]
                yield f"{inner} left out", without, is_loose
                for said, other, loose in self._changed(
                    fields[name], value[name], inner, depth + 1, is_loose
                ):
                    yield said, {**value, name: other}, loose
        if isinstance(value, list) and "items" in schema:
            for said, other, loose in self._changed(
                schema["items"], value[0], f"{place}[]", depth + 1, is_loose
            ):
                yield said, [other], loose
        if depth:
            choices = schema.get("enum")
            for other in (*_VALUES, *(choices[:60] if isinstance(choices, list) else ())):
                yield f"{place} = {other!r:.40}", copy.deepcopy(other), is_loose

    def _is_loose(self, schema: Any, depth: int = 0) -> bool:
        """Whether the page says that a type is loose: objects with further fields, long choices."""
        schema = self._resolved(schema)
        if not isinstance(schema, dict) or depth > _DEPTH:
            return False
        if schema.get("properties") and schema.get("additionalProperties") not in (None, False):
            return True
        choices = schema.get("enum")
        if isinstance(choices, list) and (len(choices) > 40 or len(str(choices)) > 800):
            return True
        branches = [one for key in ("anyOf", "oneOf", "allOf") for one in schema.get(key) or ()]
        return any(self._is_loose(one, depth + 1) for one in branches)

    def _resolved(self, schema: Any) -> Any:
        for _ in range(10):
            reference = schema.get("$ref") if isinstance(schema, dict) else None
            if not isinstance(reference, str) or not reference.startswith("#"):
                return schema
            found: Any = self._root
            for part in reference.removeprefix("#").strip("/").split("/"):
                found = found.get(part) if isinstance(found, dict) else None
            schema = found
        return schema
