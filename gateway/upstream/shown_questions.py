"""A server's questions as a person sees them.

Each names its server, is shown whole or not at all, and hides no character.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import mcp.types as types
from pydantic import ValidationError

from ...catalog.text_cleaning import written_out
from .safe_texts import texts_of

#: Most characters of a question, with its form. A person can read them in a dialog.
MAX_QUESTION_CHARS = 20_000
#: Addresses of other kinds, such as `file:`, could do something on the person's machine.
_WEB_ADDRESS_BEGINNINGS = ("https://", "http://")
#: Keys of a form whose texts are only shown. The client sends the others back.
_SHOWN_KEYS = frozenset(("title", "description", "enumNames"))


ServerQuestion = types.CreateMessageRequest | types.ListRootsRequest | types.ElicitRequest


def shown_question(question: ServerQuestion, server: str) -> ServerQuestion:
    """The question as a person may see it.

    An elicitation begins with the server's name. Invisible characters are written out, also in
    texts for the client's model, which a person may be asked to approve.

    Args:
        question: the server's question.
        server: name of the server.
    """
    if isinstance(question, types.ElicitRequest):
        return types.ElicitRequest(params=_named_question(question.params, server))
    if isinstance(question, types.CreateMessageRequest):
        return types.CreateMessageRequest(params=_written_out_prompt(question.params))
    return question


def _named_question(params: types.ElicitRequestParams, server: str) -> types.ElicitRequestParams:
    changes: dict[str, Any] = {"message": f"[{server}] {written_out(params.message)}"}
    if isinstance(params, types.ElicitRequestFormParams):
        changes["requested_schema"] = _written_out_form(params.requested_schema)
    return params.model_copy(update=changes)


def unreadable_reason(params: types.ElicitRequestParams) -> str | None:
    """Why a person cannot be shown a question whole; None if it can be shown.

    Args:
        params: the question, after `shown_question`.
    """
    texts = [params.message]
    if isinstance(params, types.ElicitRequestFormParams):
        texts += texts_of(params.requested_schema)
    else:
        if not params.url.lower().startswith(_WEB_ADDRESS_BEGINNINGS):
            return "the question has an address that is none of the web"
        texts.append(params.url)
    chars = sum(map(len, texts))
    if chars > MAX_QUESTION_CHARS:
        return (
            f"the question has {chars:,} characters, and a person is asked with at most "
            f"{MAX_QUESTION_CHARS:,}"
        )
    if any(text != written_out(text) for text in texts):
        return "the question has invisible characters in an address, a name or a value"
    return None


def with_server_name_in_urls(data: Any, server: str) -> dict[str, Any]:
    """The data of an error that asks a person to open addresses, with the server's name.

    Addresses that cannot be shown whole are left out.

    Args:
        data: data of the server's error.
        server: name of the server.
    """
    return {
        "elicitations": [
            question.model_dump(mode="json", by_alias=True, exclude_none=True)
            for question in _address_questions(data, server)
        ]
    }


def _written_out_prompt(
    params: types.CreateMessageRequestParams,
) -> types.CreateMessageRequestParams:
    """A prompt for the client's model, with invisible characters in its texts written out."""
    system_prompt = params.system_prompt
    return params.model_copy(
        update={
            "system_prompt": None if system_prompt is None else written_out(system_prompt),
            "messages": [
                message.model_copy(update={"content": _written_out_content(message.content)})
                for message in params.messages
            ],
        }
    )


def _address_questions(data: Any, server: str) -> Iterator[types.ElicitRequestParams]:
    rows = data.get("elicitations") if isinstance(data, Mapping) else None
    for row in rows if isinstance(rows, list) else ():
        try:
            params = types.ElicitRequestURLParams.model_validate(row)
        except ValidationError:
            continue
        question = _named_question(params, server)
        if unreadable_reason(question) is None:
            yield question


def _written_out_form(value: Any, key: str = "") -> Any:
    """A form with its shown texts written out."""
    if isinstance(value, Mapping):
        return {name: _written_out_form(child, str(name)) for name, child in value.items()}
    if isinstance(value, list):
        return [_written_out_form(item, key) for item in value]
    return written_out(value) if isinstance(value, str) and key in _SHOWN_KEYS else value


def _written_out_content(content: Any) -> Any:
    if isinstance(content, list):
        return [_written_out_content(part) for part in content]
    if isinstance(content, types.TextContent):
        return content.model_copy(update={"text": written_out(content.text)})
    return content
