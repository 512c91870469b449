"""Providers: requests, messages about tools, and replies, in one file for each provider's API."""

from __future__ import annotations

from ...errors import RequestError
from .anthropic_messages import Anthropic
from .openai_chat import OpenAI, Text
from .openai_responses import OpenAIResponses
from .provider import Provider, Way, provider_name
from .reply import CallAnswer, Messages, ModelCall, Reply, plain_json

__all__ = [
    "PROVIDERS",
    "CallAnswer",
    "Messages",
    "ModelCall",
    "Provider",
    "Reply",
    "Way",
    "provider_and_way",
    "provider_name",
    "read_reply",
]

_PROVIDERS: tuple[Provider, ...] = (Anthropic(), OpenAI(), OpenAIResponses(), Text())
PROVIDERS = {provider.name: provider for provider in _PROVIDERS}
"""Name to provider."""
_ACCEPTED_REPLIES = (
    "a reply of OpenAI's chat completions or responses, or of Anthropic's messages, as the object "
    "of the provider's package or as a dict; of a stream, its final object"
)


def provider_and_way(name: str, way: str | None) -> tuple[Provider, Way]:
    """The provider with a name, and the way in which found tools reach its models.

    Args:
        name: a name in `PROVIDERS`.
        way: one of the provider's ways; None for its default.

    Raises:
        RequestError: there is no such provider, or it has no such way.
    """
    if not isinstance(name, str):
        raise RequestError(f"provider: the name of one, not {type(name).__name__}")
    if name not in PROVIDERS:
        raise RequestError(f"provider: no {name!r:.100}; use one of: {', '.join(PROVIDERS)}")
    provider = PROVIDERS[name]
    for supported in provider.ways:
        if way is None or way == supported:
            return provider, supported
    raise RequestError(
        f"tools: {name} has no way {way!r:.100}; use one of: {', '.join(provider.ways)}"
    )


def read_reply(reply: object) -> Reply:
    """A reply from a provider's object, a dict, or the list of output items of OpenAI's responses.

    The order of the providers does not matter: the form of a reply tells whose it is.

    Raises:
        RequestError: it is nothing of the kind.
    """
    value = plain_json(reply)
    for provider in _PROVIDERS:
        if (read := provider.read_reply(value)) is not None:
            return read
    raise RequestError(f"reply: {_ACCEPTED_REPLIES}; not {type(reply).__name__}")
