"""What a session asks of a provider: requests, messages about tools, and reading its replies.

A provider decides nothing. It writes what the record decided in the JSON of one provider's API.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from ..own_tools import SEARCH_TOOL
from .reply import CallAnswer, CallKind, Messages, Reply

Way: TypeAlias = Literal["append", "call_tool", "search", "list"]
"""How found tools reach the model.

`append`: as the provider's own additions in the middle of the conversation. `call_tool`: as text in
messages, called through the tool `call_tool`. `search`: as results of the provider's tool search.
`list`: in the provider's list of tools.
"""
Function: TypeAlias = dict[str, Any]
"""A tool as an entry of the provider's list of tools."""
SearchContent: TypeAlias = str | list[dict[str, Any]]
"""The content of an answer to a search: a text, or the provider's objects."""


class LoadedFunction(NamedTuple):
    """A tool that the provider itself takes into the conversation.

    Attributes:
        server: the tool's server; empty without one.
        function: the tool as an entry of the list of tools.
    """

    server: str
    function: Function


class Provider(ABC):
    """One provider's API.

    Attributes:
        name: the name in `engine.session(name)`.
        ways: the ways that it supports; the first one is the default.
        name_length: maximum characters of a tool's name; None if tools are called by their ids.
        redefines: whether a definition that is added replaces an earlier one of the same name.
        has_list: whether a request has a list of tools.
        lists_deferred: whether in the way `search` the list has all tools, deferred.
        search_call: how the model calls the search in the way `search`.
        search_loads_text: whether the answer to a search can have text beside loaded tools.
        betas: way to the names of the betas that its requests need.
    """

    name: ClassVar[str]
    ways: ClassVar[tuple[Way, ...]]
    name_length: ClassVar[int | None]
    redefines: ClassVar[bool] = False
    has_list: ClassVar[bool] = True
    lists_deferred: ClassVar[bool] = False
    search_call: ClassVar[CallKind] = "function"
    search_loads_text: ClassVar[bool] = False
    betas: ClassVar[Mapping[Way, tuple[str, ...]]] = {}

    def name_of(self, tool_id: str) -> str:
        """The name by which the model calls a tool of the list."""
        return tool_id if self.name_length is None else provider_name(tool_id, self.name_length)

    @abstractmethod
    def function(self, name: str, description: str, schema: Mapping[str, Any]) -> Function:
        """A tool as an entry of the list of tools."""

    def search_entry(self) -> Function:
        """The search, as the list of tools has it in the way `search`."""
        search = SEARCH_TOOL
        return self.function(search.name, search.description, search.input_schema)

    @abstractmethod
    def note(self, text: str, way: Way) -> dict[str, Any]:
        """A message with text about tools."""

    def additions(
        self, loaded: Sequence[LoadedFunction], *, removed: Sequence[str], restored: Sequence[str]
    ) -> Messages:
        """The messages of the way `append`.

        Args:
            loaded: tools that the model may call from here on.
            removed: names of tools that it may not call any more.
            restored: names of removed tools that it may call again.
        """
        raise NotImplementedError

    def search_exchange(self, call_id: str, loaded: Sequence[LoadedFunction]) -> Messages:
        """The messages of a search that the session made, with its result: the way `search`."""
        raise NotImplementedError

    def search_content(self, loaded: Sequence[LoadedFunction], text: str) -> SearchContent:
        """The answer to a search of the model in the way `search`."""
        raise NotImplementedError

    @abstractmethod
    def request(
        self, system: str, tools: Sequence[Function], messages: Messages, way: Way
    ) -> dict[str, Any]:
        """The arguments of a request to the model.

        Args:
            system: the system prompt.
            tools: the list of tools; those of the session first, deferred ones last.
            messages: the conversation.
            way: how tools reach the model.
        """

    @abstractmethod
    def read_reply(self, value: object) -> Reply | None:
        """The model's reply in a value of JSON; None if it does not have this provider's form.

        No value has the forms of two providers. (`Text` has no replies of its own.)

        Raises:
            RequestError: it is one, but damaged.
        """

    @abstractmethod
    def answers(self, answers: Sequence[CallAnswer]) -> Messages:
        """The messages that answer the calls of a reply, one answer for each call, in order."""


_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]+(?:[/ ][A-Za-z0-9_-]+)*")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9-]+")
_HASH_DIGITS = 20
"""Hexadecimal digits of the hash, 80 bits: nobody finds a second id with the same ones."""
MIN_NAME_LENGTH = 64
"""Maximum length of a tool's name that every provider takes: ^[a-zA-Z0-9_-]{1,64}$."""


@lru_cache(16_384)
def provider_name(tool_id: str, length: int = MIN_NAME_LENGTH) -> str:
    """The name of a tool for a provider, unique for each id.

    A slash becomes two underscores (`github/create_issue` gives `github__create_issue`), and a
    blank two hyphens (`Maps/Find place` gives `Maps__Find--place`). If that name would be
    ambiguous, too long or invalid, the name is a part of the id, three underscores (which no other
    name has), and a hash of the id.

    Args:
        tool_id: any text.
        length: maximum number of characters.
    """
    if _PLAIN_ID.fullmatch(tool_id) and "__" not in tool_id and "--" not in tool_id:
        plain = tool_id.replace("/", "__").replace(" ", "--")
        if "___" not in plain and "---" not in plain and len(plain) <= length:
            return plain
    digest = sha256(tool_id.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    readable = _NOT_IN_NAMES.sub("_", tool_id).strip("_")[: length - _HASH_DIGITS - 3].rstrip("_")
    return f"{readable or 'tool'}___{digest}"
