"""The recent messages of a conversation, as context for a search."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import RequestError
from ..retrieval.query import MAX_QUERY_CHARS
from ..text import lower_words, search_terms

#: Messages kept, the newest.
MAX_MESSAGES = 12
#: Characters of earlier messages that join the request: what the encoder reads beyond it.
CONTEXT_CHARS = 600
_SPEAKERS = frozenset({"user", "assistant"})

# Logistic regression of "this only makes sense with what was said before" on conversations
# written for the project and on requests put after somebody else's conversation.
_TERMS_WEIGHT, _GAIN_WEIGHT, _DENSITY_WEIGHT, _INTERCEPT = -3.5, 4.3, 1.4, 5.3
#: What the search with context weighs at most, beside the request alone.
_MAX_WEIGHT = 0.6


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the user or the assistant.

    Args:
        role: `user` or `assistant`.
        content: the text.

    Example:
        >>> from shortlist.session import Message
        >>> Message("user", "list the invoices").role
        'user'
    """

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """The newest messages of a conversation, limited in number and length.

    Args:
        messages: oldest first.

    Example:
        >>> from shortlist.session import Conversation, Message
        >>> messages = (Message("user", "list the invoices"), Message("assistant", "INV-7"))
        >>> Conversation(messages).request
        'list the invoices'
    """

    messages: tuple[Message, ...] = ()

    @classmethod
    def of(cls, messages: Iterable[Mapping[str, Any] | Message]) -> Conversation:
        """A conversation from messages in a provider's format.

        Content is a text or a list of parts; only text parts are read. Empty messages and other
        roles (system, tool) are skipped.

        Raises:
            RequestError: it is not a list of messages, or a message has no role.

        Example:
            >>> from shortlist.session import Conversation
            >>> Conversation.of([{"role": "user", "content": "list the invoices"}]).request
            'list the invoices'
        """
        if isinstance(messages, str | Mapping) or not isinstance(messages, Iterable):
            raise RequestError("messages: a list of objects with role and content")
        return cls().extended(
            _parse_message(index, message) for index, message in enumerate(messages)
        )

    def extended(self, messages: Iterable[Message]) -> Conversation:
        """The conversation with these messages added. Messages over the limits are dropped.

        Example:
            >>> from shortlist.session import Conversation, Message
            >>> Conversation().extended([Message("user", "hello")]).request
            'hello'
        """
        recent_messages = [
            message
            for message in (*self.messages, *messages)
            if message.role in _SPEAKERS and message.content
        ][-MAX_MESSAGES:]
        request_index = max(
            (index for index, message in enumerate(recent_messages) if message.role == "user"),
            default=-1,
        )
        return Conversation(
            tuple(
                Message(
                    message.role,
                    message.content[: MAX_QUERY_CHARS if index == request_index else CONTEXT_CHARS],
                )
                for index, message in enumerate(recent_messages)
            )
        )

    @property
    def request(self) -> str:
        """The last message of the user; empty if there is none."""
        return next(
            (message.content for message in reversed(self.messages) if message.role == "user"), ""
        )

    @property
    def earlier(self) -> tuple[Message, ...]:
        """The messages before the last one of the user, oldest first."""
        request_indexes = [
            index for index, message in enumerate(self.messages) if message.role == "user"
        ]
        return self.messages[: request_indexes[-1]] if request_indexes else ()

    @property
    def last_answer(self) -> str:
        """The assistant's message right before the last one of the user; empty if there is none."""
        earlier = self.earlier
        return earlier[-1].content if earlier and earlier[-1].role == "assistant" else ""

    @property
    def in_context(self) -> str:
        """The last message of the user, followed by the earlier ones, newest first.

        Encoders cut texts at the end. Without earlier messages, just the message.
        """
        earlier_text = " ".join(message.content for message in reversed(self.earlier))
        return f"{self.request}\n{earlier_text[:CONTEXT_CHARS]}" if earlier_text else self.request

    def to_dict(self) -> list[dict[str, str]]:
        """JSON form."""
        return [{"role": message.role, "content": message.content} for message in self.messages]


def weigh_context(request: str, alone: float, in_context: float) -> float:
    """Weight of the search with context, relative to the search for the message alone.

    From 0 to 0.6. The weight is high for a short message that finds better tools with context, and
    low for a complete one. Scores are compared as a ratio, because each tier has its own units.

    Args:
        request: the last message of the user.
        alone: best score of the search for it.
        in_context: best score of the search with context.
    """
    distinct_terms = len(set(search_terms(request)))
    gain = 0.0 if in_context <= 0 else (in_context - alone) / in_context
    density = distinct_terms / max(len(lower_words(request)), 1)
    evidence = (
        _TERMS_WEIGHT * math.log1p(distinct_terms)
        + _GAIN_WEIGHT * gain
        + _DENSITY_WEIGHT * density
        + _INTERCEPT
    )
    return _MAX_WEIGHT / (1 + math.exp(-max(min(evidence, 50.0), -50.0)))


def _parse_message(index: int, message: Mapping[str, Any] | Message) -> Message:
    if isinstance(message, Message):
        return message
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise RequestError(
            f"messages[{index}]: an object with role and content, not {message!r:.80}"
        )
    return Message(message["role"], _text_of_content(index, message.get("content")))


def _text_of_content(index: int, content: object) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content.strip()
    if isinstance(content, Sequence):
        texts = (part.get("text") for part in content if isinstance(part, Mapping))
        return " ".join(text.strip() for text in texts if isinstance(text, str)).strip()
    raise RequestError(f"messages[{index}].content: a text or a list of parts, not {content!r:.80}")


def as_text(content: object) -> str:
    """The answer of a tool as text: the text itself, the texts of its parts, or JSON."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, Mapping)]
        if texts := [part for part in parts if isinstance(part, str)]:
            return " ".join(texts)
    try:
        return json.dumps(content, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return type(content).__name__
