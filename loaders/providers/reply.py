"""A model's reply in any provider's form: its calls and its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ...catalog.mcp_listing import is_pydantic_model
from ...errors import RequestError
from ...untrusted import MAX_MESSAGE_BYTES, MAX_MESSAGE_VALUES
from ...untrusted.value_count import size_of_value

Messages: TypeAlias = list[dict[str, Any]]
CallKind: TypeAlias = Literal["function", "custom", "search"]


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call in a reply.

    Args:
        id: id of the call, which its answer repeats.
        name: the name that the model called.
        arguments: the arguments as the provider gives them.
        kind: `function`; `custom` for a custom tool of OpenAI, which takes text; `search` for the
            tool search of OpenAI's responses.
    """

    id: str
    name: str
    arguments: object
    kind: CallKind = "function"


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The answer to one call.

    Args:
        call: the call.
        content: a text, or a list of the provider's content blocks.
        ok: whether the call ran and succeeded.
    """

    call: ModelCall
    content: str | list[Any]
    ok: bool


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply.

    Args:
        provider: name of the provider.
        messages: the reply as messages of the conversation, in the form that the API takes back.
        calls: its calls, in order.
        text: its text.
        is_paused: whether the provider stopped in the middle and waits to be called again.
    """

    provider: str
    messages: Messages
    calls: tuple[ModelCall, ...]
    text: str
    is_paused: bool = False


def plain_json(reply: object) -> object:
    """A provider's object as JSON values, without fields that are null.

    Raises:
        RequestError: it is too large, nested too deep, or contains itself.
    """
    try:
        size_of_value(reply, max_values=MAX_MESSAGE_VALUES, max_chars=MAX_MESSAGE_BYTES)
        plain = _plain_value(reply)
        # The dumped objects of a package were one value each.
        size_of_value(plain, max_values=MAX_MESSAGE_VALUES, max_chars=MAX_MESSAGE_BYTES)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"reply: {str(error)[:200]}; give the reply of a model") from None
    return plain


def _plain_value(value: object) -> object:
    if is_pydantic_model(value):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True, warnings=False)
    if isinstance(value, Mapping):
        return {name: _plain_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_value(item) for item in value]
    return value


def without_fields(value: Mapping[str, Any], fields: frozenset[str]) -> dict[str, Any]:
    """An object without some fields, and without those that are null."""
    return {name: item for name, item in value.items() if name not in fields and item is not None}


def text_field(value: Mapping[str, Any], name: str, place: str) -> str:
    """A text field that a call must have.

    Raises:
        RequestError: it is missing or no text.
    """
    field = value.get(name)
    if not isinstance(field, str):
        raise RequestError(f"reply: {place}.{name}: a text, not {type(field).__name__}")
    return field


def joined_texts(parts: object, kind: str) -> str:
    """The texts of content parts of one kind, joined."""
    if isinstance(parts, str):
        return parts
    texts = [
        str(part.get("text") or "")
        for part in (parts if isinstance(parts, list) else ())
        if isinstance(part, Mapping) and part.get("type") == kind
    ]
    return "".join(texts)


def sent_blocks(blocks: Sequence[Any], output_only: frozenset[str]) -> list[Any]:
    """Blocks of a reply as the API takes them back: without fields that only replies have."""
    return [
        without_fields(block, output_only) if isinstance(block, Mapping) else block
        for block in blocks
    ]
