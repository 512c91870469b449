"""Tool names that providers accept, made from ids."""

from __future__ import annotations

import re
from hashlib import sha256

OPENAI_LENGTH = 64
"""Maximum length of a function name in the OpenAI API: ^[a-zA-Z0-9_-]{1,64}$."""
ANTHROPIC_LENGTH = 128
"""Maximum length of a tool name in the Anthropic API: ^[a-zA-Z0-9_-]{1,128}$."""

_PLAIN = re.compile(r"[A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+)*")
_OTHER = re.compile(r"[^A-Za-z0-9-]+")
_DIGITS = 20
"""Hexadecimal digits of the hash, 80 bits: nobody finds a second id with the same ones."""


def provider_name(tool_id: str, length: int = OPENAI_LENGTH) -> str:
    """The name of a tool for a provider, unique for each id.

    A slash becomes two underscores (`github/create_issue` gives `github__create_issue`). If that
    name would be ambiguous, too long or invalid, the name is a part of the id, three underscores
    (which no other name has), and a hash of the id.

    Args:
        tool_id: any text.
        length: maximum number of characters.
    """
    if _PLAIN.fullmatch(tool_id) and "__" not in tool_id:
        plain = tool_id.replace("/", "__")
        if "___" not in plain and len(plain) <= length:
            return plain
    digest = sha256(tool_id.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    kept = _OTHER.sub("_", tool_id).strip("_")[: length - _DIGITS - 3].rstrip("_")
    return f"{kept or 'tool'}___{digest}"
