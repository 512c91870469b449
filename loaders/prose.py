"""Finds plain sentences in the descriptions that servers write."""

from __future__ import annotations

import re
from collections.abc import Iterator

_READ = 2_000
"""Characters of a description that are read."""

_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_TAG = re.compile(r"</?[A-Za-z][\w-]{0,30}(?:\s[^<>\n]{0,200})?/?>")
_LINK = re.compile(r"!?\[([^\[\]\n]{0,200})\]\([^()\n]{0,400}\)")
_ADDRESS = re.compile(r"https?://\S+")
_EMPHASIS = re.compile(r"\*\*|__|[`*]|(?<!\w)_|_(?!\w)")
_MARGIN = re.compile(r"^[ \t]*(?:#{1,6}|[-*+•]|\d{1,2}[.)]|>)[ \t]+", re.MULTILINE)
_SYMBOLS = re.compile("[\u2190-\u21ff\u2300-\u27bf\u2b00-\u2bff\ufe0f\u200d\U0001f000-\U0001faff]")
_BLOCK = re.compile(
    r"^[ \t]*(?:args?|arguments?|param(?:eter)?s?|inputs?|outputs?|returns?|raises|yields|"
    r"examples?|example usage|usage|notes?|see also|response|schema|options|required|optional|"
    r"supported [a-z ]{1,30}|features)[ \t]*:",
    re.IGNORECASE | re.MULTILINE,
)
_DOCTAG = re.compile(r"^[ \t]*[@:](?:param|return|returns|raises|type)\b", re.MULTILINE)
_BRACKETS = re.compile(r"\s*\((?:[^()]{0,300})\)|^\s*\[[^\[\]\n]{1,60}\]\s*")
_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_SENTENCE = re.compile(r"(?<=[^\s.])[.!?](?=\s|$)|[。！？]|\n(?=\s*[A-Z0-9])")
_ABBREVIATED = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|no|approx|incl|resp|st|dr|mr|ms)$", re.I)
_SPACES = re.compile(r"\s+")

_SUBJECT = (
    r"(?:(?:this|the|an?|this is an?)\s+)?(?:\w+\s+){0,8}?"
    r"(?:tool|function|endpoint|method|api|command|action|operation|utility|helper)"
)
_FILLER = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"^(?:important|note|description|purpose|summary|overview|warning)\s*[:!]\s*",
        r"^use\s+(?:this|it)(?:\s+(?:tool|function|endpoint|method|command|action))?\s+"
        r"(?:(?:when|if|whenever)\s+(?:you|the user)\s+(?:need|want|wish|ask|would like)s?\s+to"
        r"|(?:in order )?to|for)\s+",
        rf"^{_SUBJECT}\s+(?:is|are|can be|may be|should be)\s+used\s+(?:to|for)\s+",
        rf"^{_SUBJECT}\s+(?:which|that|will|can|to|for)\s+",
        r"^this\s+(?:will|can|is used to)\s+",
        r"^(?:it\s+)?(?:allows?|enables?|lets?|helps?)\s+(?:you|users?|agents?|the user|clients?|"
        r"the model|an? llm)\s+(?:to\s+)?",
        rf"^{_SUBJECT}\s+(?:allows?|enables?|lets?|helps?)\s+(?:you|users?|agents?|the user)\s+"
        r"(?:to\s+)?",
        rf"^(?:{_SUBJECT}\s+)?(?:provides?|offers?|gives?)\s+(?:you\s+)?(?:the\s+)?"
        r"(?:ability|possibility|functionality|way|means)\s+(?:to|of|for)\s+",
        rf"^{_SUBJECT}\s+(?=[a-z]+s\s)",
        r"^(?:allows?|enables?|used)\s+(?:to|for)\s+",
        r"^(?:this|it)\s+(?=[a-z]+s\s)",
        r"^(?:please|simply|just|you can|you may|can be used to|a way to|ability to)\s+",
        r"^to\s+(?=[a-z])",
    )
)
_INSTRUCTION = re.compile(
    r"^(?:when|if|before|after|always|never|must|do not|don't|you|your|use this|only|make sure|"
    r"note that|warning|important|whenever|once|note|deprecated|required)\b",
    re.IGNORECASE,
)


def plain_sentences(description: str) -> Iterator[str]:
    """The sentences of a description in order, without markup, blocks of arguments and asides.

    Args:
        description: description of a tool, perhaps with Markdown, docstring sections or HTML.
    """
    text = _FENCE.sub("\n\n", description[:_READ])
    text = _LINK.sub(r"\1", _TAG.sub(" ", text))
    text = _SYMBOLS.sub("", _ADDRESS.sub("", text))
    for ending in (_BLOCK, _DOCTAG):
        if found := ending.search(text):
            text = text[: found.start()]
    text = _EMPHASIS.sub("", _MARGIN.sub("", text))
    for paragraph in _PARAGRAPH.split(text):
        for sentence in _split(paragraph):
            plain = _SPACES.sub(" ", _BRACKETS.sub(" ", sentence)).strip(" \t\n:;,.-–—|·=")
            if plain:
                yield plain


def without_filler(sentence: str) -> str:
    """The sentence without openings such as "This tool allows you to".

    "" if nothing useful is left.

    An instruction to the reader ("Always call this first", "When the user asks ...") does not count
    as useful.
    """
    for _ in range(3):
        before = sentence
        for pattern in _FILLER:
            sentence = pattern.sub("", sentence, count=1)
        if sentence == before:
            break
    return "" if _INSTRUCTION.match(sentence) else sentence


def _split(paragraph: str) -> Iterator[str]:
    start = 0
    for end in _SENTENCE.finditer(paragraph):
        piece = paragraph[start : end.start()]
        if not _ABBREVIATED.search(piece):
            yield piece
            start = end.end()
    yield paragraph[start:]
