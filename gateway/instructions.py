"""What servers say of how to use them, as far as a model may read it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

from ..catalog import Tool
from ..errors import ToolError
from ..text import terms
from ..trust import scan

#: Characters of a server's instructions that are read.
_READ = 4_000
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


@lru_cache(512)
def safe_instructions(server: str, text: str) -> str:
    """A server's instructions, cleaned; empty where a scan finds anything in them.

    They stand in every prompt and nobody approves them, so that a warning is enough to drop them.

    Args:
        server: its name.
        text: as the server gave them; the first 4,000 characters are read.
    """
    if not text.strip():
        return ""
    try:
        read = Tool("instructions", server, text[:_READ])
    except ToolError:
        return ""
    return "" if scan(read) else read.description.strip()


def first_sentence(text: str, most: int = 160) -> str:
    """The first sentence of instructions, on one line; cut at a word where it is long."""
    line = " ".join(_SENTENCE.split(text.strip(), maxsplit=1)[0].split())
    return line if len(line) <= most else f"{line[:most].rpartition(' ')[0]}..."


def servers_meant(
    query: str, instructions: Mapping[str, str], found: Iterable[str]
) -> list[tuple[str, int]]:
    """Servers whose instructions alone have words of a request, and how many.

    Args:
        query: the request.
        instructions: server to its instructions.
        found: texts of the tools that were found; their words count for nothing.

    Returns:
        Server and number of words, those with most words first.
    """
    wanted = frozenset(terms(query))
    words = {server: wanted & _words(text) for server, text in instructions.items()}
    uses = Counter(word for mine in words.values() for word in mine)
    alone = frozenset(word for word, count in uses.items() if count == 1)
    if alone:
        alone = alone.difference(*(terms(text) for text in found))
    own = {server: len(mine & alone) for server, mine in words.items()}
    ranked = sorted(own, key=lambda server: (-own[server], server))
    return [(server, own[server]) for server in ranked if own[server]]


@lru_cache(512)
def _words(text: str) -> frozenset[str]:
    return frozenset(terms(text))
