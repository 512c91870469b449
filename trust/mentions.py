"""Mentions of other tools: names that look like a tool's and are not of the tool's own server."""

from __future__ import annotations

import re
from collections.abc import Set

_VERB = (
    "(?:get|list|read|write|send|copy|delete|create|update|run|execute|search|fetch|post|export|"
    "add|"
    "remove|call|open|move|upload|download|query|transfer|set|place|book|make|save)"
)
_CALLED = re.compile(
    r"(?i:\b(?:calls?(?: of| to)?|calling|using|uses?|invok(?:e|ing)|run(?:ning)?|through|via|"
    r"tools?)) (?:the )?(?:tool )?[`'\"]?([a-z]+(?:_[a-z0-9]+)+|"
    r"[a-z]+(?:[A-Z][a-z0-9]+)+)\b(?![=:(])|[`'\"]?\b([a-z]+(?:_[a-z0-9]+)+|"
    r"[a-z]+(?:[A-Z][a-z0-9]+)+)[`'\"]? (?:tool\b|function\b|calls?\b|(?:is|are) (?:called|"
    r"used|invoked|present|run|about)|on the\b|accepts|has a)|"
    rf"\b(?:with|by|of|for|when|whenever|if|after|before|from|,|and|"
    rf"then) (?:the )?[`'\"]?({_VERB}(?:_[a-z0-9]+)+)\b(?![=:(])|"
    rf"\b[Tt]ools? [`'\"]([a-z]+)[`'\"]|[`'\"]([a-z]+)[`'\"] (?:tool\b|is (?:called|used|about|"
    rf"invoked))"
)
_ACTING = re.compile(rf"{_VERB}(?:_|[A-Z])|[a-z]+_{_VERB}$")
_RULED = re.compile(
    r"[`'\"]?\b([a-z]+(?:_[a-z0-9]+)+|[a-z]+(?:[A-Z][a-z0-9]+)+)[`'\"]? (?:(?:tool|function|"
    r"calls?) )?(?:must|requires?|should|shall|needs?|has(?! (?:returned|finished|succeeded|"
    r"completed)\b)|have|only works|accepts only|"
    r"is to|expects|takes|wants|works|is known to|will only|to (?:succeed|work))\b(?!(?: to)? be "
    r"(?:called|used|run|invoked))"
)

_NAMED = re.compile(
    r"\b([a-z]+(?:_[a-z0-9]+)+|[a-z]+(?:[A-Z][a-z0-9]+)+|(?<=['`\"])[a-z]+(?=['`\"]))\b"
)

_LISTED = re.compile(r"(?<!tools )(?<!functions )\((?:\w+, ){2,}(?:or |and )?\w+\)")
"""Values to choose from, in brackets."""
_GAVE = re.compile(
    r"\b(?:fetched|obtained|returned|made|composed|retrieved|given|provided|produced|sent|handled|"
    r"listed) (?:by|from|through|with|via) (?:the )?[`'\"]?([a-z]+(?:_[a-z0-9]+)+)\b"
)


def names(text: str) -> frozenset[str]:
    """All that looks like the name of a tool."""
    return frozenset(_NAMED.findall(text))


def foreign_tools(text: str, own: Set[str]) -> Set[str]:
    """The concepts a sentence gains by what it says of tools of other servers.

    Args:
        text: folded, its case kept.
        own: names of the tool, its parameters and the other tools of its server.
    """
    text = _LISTED.sub(" ", text)
    if not any(name not in own for name in _NAMED.findall(text)):
        return frozenset()
    said = {"foreign_name"}
    if any(name not in own for name in _GAVE.findall(text)):
        said.add("from_tools")
    ruled = {name for match in _RULED.finditer(text) if (name := _name(match)) not in own}
    called = {name for match in _CALLED.finditer(text) if (name := _name(match)) not in own}
    called |= {name for name in ruled if _ACTING.match(name)}
    if not called:
        return said
    said.add("foreign_tool")
    if len(called) > 1:
        said.add("several_tools")
    if ruled & called or any(_ACTING.match(name) for name in ruled):
        said.add("ruled_tool")
    return said


def _name(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group)
