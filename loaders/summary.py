"""Makes one-line summaries of tools offline, from their definitions.

"Search GitHub issues by label and assignee": the verb first, then what it acts on, then the
parameters that tell the tool from its neighbours; the words a request for it would use.
"""

from __future__ import annotations

import re

from ..catalog import Tool
from ..catalog.parameter import properties_of
from ..catalog.text import Notes, clean_line
from ..text import spaced
from .counting import bundled_counter
from .imperative import imperative
from .prose import plain_sentences, without_filler
from .verbs import SEEKING, base_form

SUMMARY_TOKENS = 60
"""Maximum tokens (cl100k_base) of a summary."""
_CHARACTERS = 400
"""Maximum characters of a summary; 60 tokens of English take about 250."""
_WORDS = 16
"""A sentence with more words is cut at a clause. In real descriptions, conditions follow there."""
_LEAST_WORDS = 4
_NAMED = 3
"""Maximum number of parameters in a summary."""

_WORD = re.compile(r"[\w'’/.-]+")
_CLAUSE = re.compile(
    r"\s*[,;:]\s|\s[-–—]+\s|\s(?=(?:which|including|such as|e\.g|so that|as well as|where|that|"
    r"while|using|based on|without|with support|returning|for use)\b)",
    re.IGNORECASE,
)
_DANGLING = re.compile(
    r"[\s,;:–—-]+(?:(?:that is|given as|such as|a|an|the|and|or|of|to|for|with|in|on|by|from|at|as|"
    r"that|which|e\.g|its|their)[\s,;:–—-]*)*$",
    re.IGNORECASE,
)
_JOINED = re.compile(r"\s(?:by|using|with|matching|given|filtered)\s")
_TWO_CLAUSES = re.compile(r",|\s(?:and|or)\s+(?:\w+ly\s+)?(?:return|get|list|show|read)\b", re.I)
"""A line with two clauses. "by ..." at its end would belong to the second one."""
_GENERIC = frozenset(
    """action after api base before body account address auth branch config content context count
    cursor data debug description direction dry element end fields file force format from head
    headers host id ids include input json key language lang latest length limit lines locale max
    message method min mode model name number offset oldest options order output owner page params
    password path per port project query random raw reason reasoning repo repository request results
    schema session since size skip sort source start string tail target text timeout title to token
    top type until uri url user username value verbose version""".split()
)
"""Words in parameters of most tools, which do not distinguish tools."""
_SWITCHES = frozenset(
    "additional allow are case contain contains ends equals exclude has ignore include inclusive "
    "is matches max min no not num omit only starts with without".split()
)
_NAMES = frozenset(
    "group issue label list order place plan project rank record schedule stage tag".split()
)
"""Verbs that name a value where they are a parameter; `contains` or `accept` says what to do."""


def summarize(tool: Tool) -> str:
    """A one-line summary of at most `SUMMARY_TOKENS` tokens, from the definition alone.

    The same definition gives the same line. If the description adds nothing to the name, the
    summary is the name in plain words.

    Args:
        tool: the tool. Its text is untrusted and is only cut.
    """
    name = spaced(tool.name) or tool.name
    line = _statement(tool.description, name) or name
    return bounded(_capital(_with_parameters(line, tool)))


def bounded(text: str) -> str:
    """A text as one visible line of at most `SUMMARY_TOKENS` tokens, cut between words.

    Args:
        text: any text.
    """
    line = re.sub(r"\s+", " ", clean_line(text[: 4 * _CHARACTERS], "", Notes()))[:_CHARACTERS]
    line = line.strip()
    if len(line.encode()) <= SUMMARY_TOKENS:  # a token takes at least a byte
        return line
    while (count := bundled_counter().count(line)) > SUMMARY_TOKENS:
        kept = line[: max(1, len(line) * SUMMARY_TOKENS // count)]
        cut = kept.rpartition(" ")[0] if " " in kept else kept
        line = _DANGLING.sub("", cut if len(cut) < len(line) else line[:-1])
    return line


def adds_nothing(summary: str, name: str) -> bool:
    """Whether a summary only repeats the words of a name."""
    said = {_stem(word) for word in spaced(summary).lower().split()}
    return said - _ARTICLES <= {_stem(word) for word in spaced(name).lower().split()}


_OPENINGS = frozenset("a an the all any current detailed details full information".split())
_ARTICLES = frozenset(
    ("a", "an", "the", "of", "in", "on", "to", "for", "from", "all", "and", "one")
)


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _statement(description: str, name: str) -> str:
    """The first sentence that says what the tool does, verb first and cut; "" if there is none."""
    for sentence in plain_sentences(description):
        kept = _shortened(without_filler(sentence))
        first, _, rest = kept.partition(" ")
        if not rest and kept.isascii():  # a single word, where scripts have spaces
            continue
        if asked := imperative(kept):
            return asked
        return f"{verb} {_lowered(kept)}" if (verb := _lacking(first, name)) else kept
    return ""


def _lacking(first: str, name: str) -> str | None:
    """The verb of a name, where a phrase that starts so only says what it acts on."""
    verb, *others = name.split()
    known = {_stem(word.lower()) for word in others}
    return base_form(verb) if first.lower() in _OPENINGS or _stem(first.lower()) in known else None


def _shortened(sentence: str) -> str:
    """A sentence of more than `_WORDS` words cut at a clause, or at that word."""
    ends = [match.end() for match in _WORD.finditer(sentence)]
    if len(ends) <= _WORDS:
        return sentence
    least = ends[_LEAST_WORDS - 1]
    clauses = [match.start() for match in _CLAUSE.finditer(sentence, least)]
    within = [start for start in clauses if start <= ends[_WORDS - 1]]
    return _DANGLING.sub("", sentence[: within[-1] if within else ends[_WORDS - 1]])


def _with_parameters(line: str, tool: Tool) -> str:
    """The line with the parameters that tell the tool apart, where its text does not."""
    words = line.split()
    seeking = bool(words) and base_form(words[0]) in SEEKING
    if len(words) >= _WORDS - 4 or not (seeking or len(words) < _LEAST_WORDS):
        return line
    if _JOINED.search(line) or _TWO_CLAUSES.search(line) or not line.isascii():
        return line
    said = {
        _stem(word) for word in spaced(f"{line} {tool.name} {tool.server or ''}").lower().split()
    }
    telling = _telling(tool, said)
    if not telling:
        return line
    listed = telling[0] if len(telling) == 1 else f"{', '.join(telling[:-1])} and {telling[-1]}"
    return f"{line} {'by' if seeking else 'with'} {listed}"


def _telling(tool: Tool, said: set[str]) -> list[str]:
    found: list[str] = []
    for parameter, schema, _ in properties_of(tool.input_schema):
        if isinstance(schema, dict) and schema.get("type") == "boolean":
            continue
        words = [word.lower() for word in spaced(parameter[:40]).split()]
        meant = [word for word in words if _stem(word) not in _GENERIC and word not in _GENERIC]
        if not meant or any(_stem(word) in said for word in meant) or len(words) > 3:
            continue
        if words[0] in _SWITCHES or len(words[0]) == 1:
            continue
        if words[0] not in _NAMES and base_form(words[0]):
            continue
        said.update(_stem(word) for word in meant)
        found.append(" ".join(words if words[-1] not in ("id", "ids", "name") else words[:-1]))
        if len(found) == _NAMED:
            break
    return found


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _lowered(text: str) -> str:
    """A phrase to follow a verb: its first letter small unless it starts a name."""
    first = text.partition(" ")[0]
    return text[:1].lower() + text[1:] if first[1:].islower() or len(first) == 1 else text
