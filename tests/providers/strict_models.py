"""Validators of whole request bodies, made from the types of the packages `anthropic` and `openai`.

The packages' TypedDicts check little at run time: an `Iterable` field is read lazily, unknown keys
pass, and unions hold the models of responses, which accept any key. Here each annotation is
rewritten: a TypedDict forbids unknown keys, an iterable is a list, and what JSON cannot hold is
left out of unions. Numbers and texts are not converted into each other.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

import pydantic
from anthropic.types.beta.message_create_params import MessageCreateParamsBase
from openai.types.beta.response_create_params import (
    ResponseCreateParamsBase as BetaResponseCreateParamsBase,
)
from openai.types.chat.completion_create_params import CompletionCreateParamsBase
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails
from typing_extensions import (
    TypedDict,
    get_type_hints,
    is_typeddict,
)

REQUEST_TYPES = {
    "messages": MessageCreateParamsBase,
    "chat": CompletionCreateParamsBase,
    "responses": ResponseCreateParamsBase,
    "beta responses": BetaResponseCreateParamsBase,
}
#: Fields of the packages' types that they send as headers.
_HEADERS = {"betas", "user_profile_id", "workspace_id"}
#: Keys that the types require and the service does not: the examples of the guide "Tool search"
#: (developers.openai.com/api/docs/guides/tools-tool-search) leave `strict` out.
_OPTIONAL = {("FunctionToolParam", "strict"), ("BetaFunctionToolParam", "strict")}
_SCALARS = (str, int, float, bool, type(None), Any)


@cache
def request_validator(request_type: str) -> TypeAdapter[Any]:
    """The validator of a body: a key of `REQUEST_TYPES`."""
    body = REQUEST_TYPES[request_type]
    fields = {"stream": NotRequired[bool | None], **_fields(body)}
    return TypeAdapter(_strict_typeddict(body.__name__, fields))


def refusal_reason(request_type: str, body: bytes) -> str | None:
    """Where and why a body does not have the provider's form; None where it has."""
    try:
        request_validator(request_type).validate_json(body)
    except ValidationError as error:
        return _sentence(error.errors(include_url=False, include_context=False))
    return None


def _sentence(errors: list[ErrorDetails]) -> str:
    """The deepest error among the members of unions whose `type` and `role` fit.

    A union's plain member, as in `str | list`, fails at the place where the others go deeper.
    """
    mismatches = [
        error
        for error in errors
        if error["type"] == "literal_error" and error["loc"][-1:] in (("type",), ("role",))
    ]
    unfit = [error["loc"][:-1] for error in mismatches if len(error["loc"]) > 1]
    fitting = [
        error
        for error in errors
        if error["loc"][-1:] != ("str",)
        and not any(error["loc"][: len(loc)] == loc for loc in unfit)
    ]
    error = max(fitting or mismatches or errors, key=lambda error: len(error["loc"]))
    places = [str(part) for part in error["loc"] if isinstance(part, int) or part.islower()]
    problem = error["msg"]
    if mismatches and not fitting:
        problem = f"no object of this kind belongs here: {error['input']!r}"
    return f"{'.'.join(places)}: {problem}."


@cache
def _strict_type(annotation: Any) -> Any:
    """The annotation with strict parts; `...` where JSON has no such value."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if is_typeddict(annotation):
        return _strict_typeddict(annotation.__name__, _fields(annotation))
    if origin is Annotated:
        return _strict_type(arguments[0])
    if origin in (Union, types.UnionType):
        members = tuple(m for m in map(_strict_type, arguments) if m is not ...)
        return Union[members] if members else ...  # noqa: UP007
    if origin is dict:
        return dict[str, _strict_type(arguments[1])]
    if origin in (list, Iterable, Sequence):
        return list[_strict_type(arguments[0])]
    if annotation is object:
        return Any
    return annotation if origin is Literal or annotation in _SCALARS else ...


def _fields(typeddict: type) -> dict[str, Any]:
    fields = {}
    for key, annotation in get_type_hints(typeddict, include_extras=True).items():
        if key in _HEADERS:
            continue
        required = key in typeddict.__required_keys__
        if get_origin(annotation) in (Required, NotRequired):
            required = get_origin(annotation) is Required
            (annotation,) = get_args(annotation)
        required &= (typeddict.__name__, key) not in _OPTIONAL
        strict = _strict_type(annotation)
        assert strict is not ..., (typeddict, key, annotation)
        fields[key] = Required[strict] if required else NotRequired[strict]
    return fields


def _strict_typeddict(name: str, fields: dict[str, Any]) -> Any:
    make: Callable[..., Any] = TypedDict
    strict = make(name, fields)
    strict.__pydantic_config__ = pydantic.ConfigDict(extra="forbid", strict=True)
    return strict
