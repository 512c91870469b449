"""Training texts of a tool: variants of its text, and pairs for a tool without requests."""

from __future__ import annotations

import random
import re

from ...catalog.tool_document import tool_text
from ...text import identifiers_as_words
from .data import TrainingTool

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")

#: Words between requests that are joined into one.
_CONNECTORS = (" and ", ", then ", ". Also, ", ", and after that ", "; ", ". Then ", " plus ", "\n")


def sentences(text: str) -> list[str]:
    """The sentences and lines of a description with at least two words."""
    return [part.strip() for part in _SENTENCE.split(text) if len(part.split()) > 1]


def shown(tool: TrainingTool, rng: random.Random) -> str:
    """A tool's text, mostly whole, sometimes with a part missing, as in poorer catalogs."""
    server = tool.server if rng.random() < 0.65 else None
    draw = rng.random()
    if draw < 0.12:
        return tool_text(tool.name, server, tool.description)
    if draw < 0.24 and (parts := sentences(tool.description)):
        return tool_text(tool.name, server, parts[0], tool.parameters)
    if draw < 0.28 and len(tool.description) > 20:
        return tool_text("", None, tool.description, tool.parameters)
    return tool_text(tool.name, server, tool.description, tool.parameters)


def self_supervised(tool: TrainingTool, rng: random.Random) -> tuple[str, str]:
    """A pair (request-like text, tool text) from one tool without common words.

    Either a sentence of the description against the rest of the tool, or the name against the
    tool without its name.
    """
    parts = sentences(tool.description)
    if len(parts) > 1 and rng.random() < 0.5:
        chosen = rng.randrange(min(len(parts), 4))
        rest = " ".join(part for index, part in enumerate(parts) if index != chosen)
        return parts[chosen], tool_text(tool.name, tool.server, rest, tool.parameters)
    if parts and rng.random() < 0.5:
        return parts[0], tool_text(tool.name, tool.server, " ".join(parts[1:]), tool.parameters)
    rest = tool_text("", None, tool.description, tool.parameters)
    return identifiers_as_words(f"{tool.name} {tool.server or ''}"), rest or tool.text


def joined(texts: list[str], rng: random.Random) -> str:
    """Several requests as one."""
    text = texts[0]
    for further in texts[1:]:
        connector = rng.choice(_CONNECTORS)
        text = text.rstrip(".!? ") + connector + further
    return text
