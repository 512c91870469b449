"""Which texts of the conversation hold a quarantined definition, and what replaces them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from ..catalog.schema import canonical_json
from .providers import Messages

_WITHDRAWN = "A tool definition was withdrawn here."


class SentTexts:
    """The texts about tools in the conversation, by fingerprint."""

    def __init__(self) -> None:
        #: Fingerprint of a text to the ids of the tools it is about.
        self._tool_ids: dict[str, tuple[str, ...]] = {}
        #: Fingerprints of texts with a definition that was quarantined since.
        self._dropped: set[str] = set()

    def note(self, text: object, tool_ids: Sequence[str]) -> None:
        """Note that the conversation gets a text, or a message, about tools."""
        if tool_ids:
            self._tool_ids[_fingerprint(text)] = tuple(dict.fromkeys(tool_ids))

    def drop_quarantined(self, quarantined: frozenset[str]) -> list[str]:
        """Drop the texts with a quarantined definition, while it is quarantined.

        Returns:
            Ids of the tools of the texts dropped since the last call, with repetitions.
        """
        before = self._dropped
        self._dropped = {
            text for text, ids in self._tool_ids.items() if not quarantined.isdisjoint(ids)
        }
        return [tool_id for text in self._dropped - before for tool_id in self._tool_ids[text]]

    def cleaned(self, messages: Messages, names: Collection[str]) -> Messages:
        """Messages without the dropped texts, and with a fixed sentence for other definitions.

        Args:
            messages: the conversation.
            names: provider's names of quarantined tools that the provider itself took into it.
        """
        if not self._dropped and not names:
            return messages
        return [
            self._without_quarantined(message, names)
            for message in messages
            if _fingerprint(message) not in self._dropped
        ]

    def clear(self) -> None:
        """Note that the conversation has none of them any more."""
        self._tool_ids.clear()
        self._dropped.clear()

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {text: list(tool_ids) for text, tool_ids in self._tool_ids.items()}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Continue from the result of `to_dict`.

        Raises:
            AttributeError, TypeError: it is damaged.
        """
        self._tool_ids = {str(text): tuple(map(str, ids)) for text, ids in saved.items()}

    def _without_quarantined(self, value: Any, names: Collection[str]) -> Any:
        if isinstance(value, list):
            return [self._without_quarantined(item, names) for item in value]
        if not isinstance(value, dict):
            return value
        is_definition = "input_schema" in value or "parameters" in value
        if is_definition and value.get("name") in names:
            schema = {"type": "object", "properties": {}}
            emptied = {name: schema for name in ("input_schema", "parameters") if name in value}
            return {**value, "description": _WITHDRAWN, **emptied}
        cleaned = {}
        for name, item in value.items():
            if name in ("content", "output") and _fingerprint(item) in self._dropped:
                cleaned[name] = _WITHDRAWN
            else:
                cleaned[name] = self._without_quarantined(item, names)
        return cleaned


def _fingerprint(value: object) -> str:
    text = value if isinstance(value, str) else canonical_json(value)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=9).hexdigest()
