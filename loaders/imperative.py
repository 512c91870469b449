"""Turns a description into the imperative: "Gathers, and sorts" becomes "Gather, and sort"."""

from __future__ import annotations

import re

from .verbs import base_form

_FIRST = re.compile(r"\w+")
_NEXT = re.compile(
    r"(?P<before>(?:,\s*(?:(?:and|or)(?:\s+then)?\s+)?|\s+(?:and/or|(?:and|or)(?:\s+then)?)\s+)"
    r"(?:\w+ly\s+)?)(?P<verb>\w+)\b"
)
"""A further verb of a series that follows the first at once."""
_CLAUSE = re.compile(
    r"(?P<before>\b(?:and|or)(?:\s+then)?\s+(?:\w+ly\s+)?)(?P<verb>\w+)(?P<after>\s+"
    r"(?:a|an|the|its|it|them|their|all|each|any|one|back|them)\b)"
)
"""A verb of a later clause. A noun may look like it, but has no article behind it."""


def imperative(sentence: str) -> str | None:
    """The sentence with its verbs in their base form; None if it does not start with a verb.

    Args:
        sentence: about a tool, such as `Creates a page and returns its id`.
    """
    found = _FIRST.match(sentence)
    verb = base_form(found[0]) if found else None
    if (
        found is None
        or verb is None
        or sentence[found.end() : found.end() + 1] not in (*" ,:;", "")
    ):
        return None
    made, rest = verb, sentence[found.end() :]
    while (following := _NEXT.match(rest)) and (base := base_form(following["verb"])):
        made += f"{following['before']}{base}"
        rest = rest[following.end() :]
    if made == verb:  # no series: punctuation behind a single verb is none of the sentence
        rest = rest.lstrip(",:;")
    is_told = found[0].lower() != verb and found[0].endswith("s")
    return made + (_CLAUSE.sub(_as_base, rest) if is_told else rest)


def _as_base(found: re.Match[str]) -> str:
    verb = found["verb"]
    base = base_form(verb) if verb.endswith("s") else None
    return f"{found['before']}{base or verb}{found['after']}"
