"""The servers' instructions, cleaned and scanned before a model reads them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

from ..catalog import Tool
from ..errors import ToolError
from ..text import terms
from ..trust import scan

#: Most characters of a server's instructions that are used.
_READ = 4_000
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


@lru_cache(512)
def safe_instructions(server: str, text: str) -> str:
    """A server's instructions, cleaned; empty if the scan finds anything in them.

    Instructions are in every prompt, and no operator approves them. So even a warning removes them.

    Args:
        server: its name.
        text: the server's text; its first 4,000 characters are used.
    """
    if not text.strip():
        return ""
    try:
        read = Tool("instructions", server, text[:_READ])
    except ToolError:
        return ""
    return "" if scan(read) else read.description.strip()


def first_sentence(text: str, most: int = 160) -> str:
    """The first sentence of instructions, on one line; cut after a word if it is long."""
    line = " ".join(_SENTENCE.split(text.strip(), maxsplit=1)[0].split())
    return line if len(line) <= most else f"{line[:most].rpartition(' ')[0]}..."


def servers_meant(
    query: str, instructions: Mapping[str, str], found: Iterable[str]
) -> list[tuple[str, int]]:
    """Servers whose instructions contain words of a query that no found tool contains.

    Args:
        query: text to search for.
        instructions: server to its instructions.
        found: texts of the found tools. Their words are not counted.

    Returns:
        Server and number of words, most words first.
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
