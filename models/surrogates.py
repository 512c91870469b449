"""Lone surrogates: Python strings may hold them, no tokenizer accepts them."""

from __future__ import annotations


def without_surrogates(text: str) -> str:
    """Join surrogate pairs and replace lone surrogates by U+FFFD; other text is returned as is.

    Args:
        text: any string.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
