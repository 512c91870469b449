"""Rules for single tool definitions, shared by the providers, and the flags of unclear rules."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator, SchemaError

Json = dict[str, Any]
#: platform.claude.com, "Define tools", `name`; developers.openai.com, API reference, function name.
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_COMBINATIONS = ("oneOf", "anyOf", "allOf")


class Refusal(Exception):
    """A rule that the request breaks: what the service answers with status 400."""


@dataclass(frozen=True)
class Rules:
    """Rules that the documents leave unclear. The defaults follow them, or are the stricter way."""

    anthropic_redefinition: bool = True
    """A definition by value may replace an available tool of the same name. Documented as allowed:
    "send a different definition under the same name" (page "Mid-conversation system messages and
    tool changes")."""
    anthropic_all_deferred: bool = False
    """`tools` may hold deferred tools only. The page above accepts it with the beta of inline
    tools, at the price of one cache miss; the page "Tool search tool" answers 400."""
    openai_redefinition: bool = False
    """A callable tool's name may be declared again. Not documented; pydantic-ai declares each name
    once in a request (`_map_additional_tools`)."""
    openai_absent_strict: bool = False
    """A function of Responses may leave `strict` out although its schema is not strict. The guide
    "Function calling" accepts it, but makes every optional parameter required."""
    unavailable_calls: bool = False
    """Calls in the history may name tools that the model did not have at that place. No provider
    documents an error; a model makes such calls by mistake only."""


def check_name(name: str, place: str) -> None:
    if not NAME.fullmatch(name):
        raise Refusal(f"{place}.name: {name!r} does not match ^{NAME.pattern}$")


def check_object_schema(schema: Any, place: str) -> None:
    """OpenAI's "Structured outputs" (root objects), and the 400 of both at other schemas."""
    if (problem := _schema_problem(json.dumps(schema))) is not None:
        raise Refusal(f"{place}: not a JSON Schema: {problem}")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise Refusal(f"{place}: the schema must have the type 'object'")
    if used := [key for key in _COMBINATIONS if key in schema]:
        raise Refusal(f"{place}: the schema does not support {used[0]} at the top level")


@cache
def _schema_problem(text: str) -> str | None:
    """What is wrong with a schema; each request of a conversation repeats most of them."""
    try:
        Draft202012Validator.check_schema(json.loads(text))
    except SchemaError as error:
        return str(error.message)
    return None


def check_strict_schema(schema: Json, place: str, *, all_required: bool) -> None:
    """OpenAI, "Structured outputs": closed objects, all properties required.

    Anthropic, "Strict tool use": closed objects only.
    """
    for part in _schemas(schema):
        if "properties" not in part and part.get("type") != "object":
            continue
        if part.get("additionalProperties") is not False:
            raise Refusal(f"{place}: strict needs 'additionalProperties': false in every object")
        optional = part.get("properties", {}).keys() - set(part.get("required", ()))
        if all_required and optional:
            raise Refusal(f"{place}: strict needs every property in 'required': {min(optional)!r}")


def _schemas(schema: Any) -> Iterator[Json]:
    """A schema and the schemas in it. The values of `properties` are schemas, not its keys."""
    if not isinstance(schema, dict):
        return
    yield schema
    for key in ("properties", "$defs", "definitions"):
        for part in schema.get(key, {}).values():
            yield from _schemas(part)
    for part in [schema.get("items"), *(p for key in _COMBINATIONS for p in schema.get(key, ()))]:
        yield from _schemas(part)
