"""Summaries: what a tool is for, in one line; from the user's file or the tool's description."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ..catalog import Tool
from ..catalog.text_cleaning import visible_line
from ..catalog.text_file import read_text_file
from ..errors import SummaryError
from ..text import identifiers_as_words
from .counting import bundled_counter

SUMMARY_TOKENS = 60
"""Maximum tokens (cl100k_base) of a summary."""
_MAX_CHARACTERS = 400
"""Maximum characters of a summary; 60 tokens of English take about 250."""
_MAX_WORDS = 16
"""A sentence with more words is cut at a clause. In real descriptions, conditions follow there."""
_MIN_WORDS = 4
_READ_CHARACTERS = 2_000
"""Characters of a description that are read."""
_CACHED_SUMMARIES = 16_384
"""Maximum number of cached summaries, about 80 characters each."""

_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_TAG = re.compile(r"</?[A-Za-z][\w-]{0,30}(?:\s[^<>\n]{0,200})?/?>")
_LINK = re.compile(r"!?\[([^\[\]\n]{0,200})\]\([^()\n]{0,400}\)")
_ADDRESS = re.compile(r"https?://\S+")
_EMPHASIS = re.compile(r"\*\*|__|[`*]|(?<!\w)_|_(?!\w)")
#: Marks of headings, lists and quotes at the start of a line.
_MARGIN = re.compile(r"^[ \t]*(?:#{1,6}|[-*+•]|\d{1,2}[.)]|>)[ \t]+", re.MULTILINE)
_SYMBOLS = re.compile("[\u2190-\u21ff\u2300-\u27bf\u2b00-\u2bff\ufe0f\u200d\U0001f000-\U0001faff]")
#: Starts a block that follows the description proper, such as `Args:`.
_BLOCK = re.compile(
    r"^[ \t]*(?:args?|arguments?|param(?:eter)?s?|inputs?|outputs?|returns?|raises|yields|"
    r"examples?|example usage|usage|notes?|see also|response|schema|options|required|optional|"
    r"supported [a-z ]{1,30}|features)[ \t]*:",
    re.IGNORECASE | re.MULTILINE,
)
#: Starts a list of tags, such as `@param`.
_DOCTAG = re.compile(r"^[ \t]*[@:](?:param|return|returns|raises|type)\b", re.MULTILINE)
_BRACKETS = re.compile(r"\s*\((?:[^()]{0,300})\)|^\s*\[[^\[\]\n]{1,60}\]\s*")
_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_SENTENCE = re.compile(r"(?<=[^\s.])[.!?](?=\s|$)|[。！？]|\n(?=\s*[A-Z0-9])")
_ABBREVIATED = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|no|approx|incl|resp|st|dr|mr|ms)$", re.I)
_SPACES = re.compile(r"\s+")
_HEADING = re.compile(r"^[ \t]*#{1,6}[ \t].*$", re.MULTILINE)
_ADVICE = re.compile(
    r"(?:when|if|before|after|always|never|must|do not|don't|you|your|use this|only|make sure|"
    r"note|warning|important|whenever|once|deprecated|required)\b",
    re.IGNORECASE,
)
"""How a sentence starts that says when to call a tool, not what the tool does."""

_WORD = re.compile(r"[\w'’/.-]+")
#: Where a long sentence may be cut.
_CLAUSE = re.compile(
    r"\s*[,;:]\s|\s[-–—]+\s|\s(?=(?:which|including|such as|e\.g|so that|as well as|where|that|"
    r"while|using|based on|without|with support|returning|for use)\b)",
    re.IGNORECASE,
)
#: Words and punctuation that must not be the end of a cut sentence.
_DANGLING = re.compile(
    r"[\s,;:–—-]+(?:(?:that is|given as|such as|a|an|the|and|or|of|to|for|with|in|on|by|from|at|as|"
    r"that|which|e\.g|its|their)[\s,;:–—-]*)*$",
    re.IGNORECASE,
)
_ARTICLES = frozenset("a an the of in on to for from all and one".split())


class SummaryRow(NamedTuple):
    """A user's summary of a tool.

    Attributes:
        id: id of the tool.
        fingerprint: fingerprint of the summarized definition; None for a summary that is valid for
            every definition with this id.
        summary: the line.
    """

    id: str
    fingerprint: str | None
    summary: str


_TO_USE_ONE = (
    "To use one, search for its name. Otherwise search in other words, or answer without a tool."
)


class Summaries:
    """One-line summaries of tools: those of the user, or else from their descriptions.

    A row with a fingerprint is used only for that definition. A row without a fingerprint is used
    for its id, before all others. Every summary is cleaned and cut.

    Args:
        rows: later ones replace earlier ones.
    """

    def __init__(self, rows: Iterable[SummaryRow] = ()) -> None:
        self._by_fingerprint: dict[str, str] = {}
        self._by_id: dict[str, str] = {}
        for row in rows:
            if line := bounded_summary(row.summary):
                if row.fingerprint is None:
                    self._by_id[row.id] = line
                else:
                    self._by_fingerprint[row.fingerprint] = line

    @classmethod
    def read(cls, *paths: Path | str) -> Summaries:
        """Summaries from one or several files. Later files replace earlier ones.

        Raises:
            SummaryError: a file cannot be read or is not a file of summaries.
        """
        return cls(row for path in paths for row in read_rows(path))

    def of(self, tool: Tool) -> str:
        """The summary of a tool, one line of at most 60 tokens."""
        by_user = self._by_id.get(tool.id) or self._by_fingerprint.get(tool.fingerprint)
        return by_user or _cached_summary(tool)


@lru_cache(8)
def shared_summaries(
    by_fingerprint: tuple[tuple[str, str], ...] = (), path: Path | None = None
) -> Summaries:
    """Summaries of one catalog version, shared by its sessions.

    Args:
        by_fingerprint: fingerprint and summary of a definition, from rows of example queries.
        path: the user's file of summaries, which comes before the rows; read once.

    Raises:
        SummaryError: see `read_rows`.
    """
    rows = [SummaryRow("", fingerprint, line) for fingerprint, line in by_fingerprint]
    return Summaries((*rows, *(() if path is None else read_rows(path))))


def summarize(tool: Tool) -> str:
    r"""The first useful sentence of a tool's description, at most `SUMMARY_TOKENS` tokens.

    Headings, markup, blocks of arguments and advice on when to call the tool are not useful. A long
    sentence is cut at a clause. Without a useful sentence, the summary is the name in words.

    Args:
        tool: the tool. Its text is untrusted and is only cut.

    Example:
        >>> from shortlist import Tool
        >>> from shortlist.loaders.summaries import summarize
        >>> summarize(Tool("search_issues", "github", "# Tool\n\nSearch issues. Slow."))
        'Search issues'
    """
    for text in (_HEADING.sub("", tool.description[:_READ_CHARACTERS]), tool.description):
        for sentence in plain_sentences(text):
            # A single word is a heading, in scripts with spaces.
            if (" " in sentence or not sentence.isascii()) and not _ADVICE.match(sentence):
                return bounded_summary(_shorten(sentence))
    return bounded_summary(identifiers_as_words(tool.name) or tool.name)


_cached_summary = lru_cache(_CACHED_SUMMARIES)(summarize)


def plain_sentences(description: str) -> Iterator[str]:
    """The sentences of a description in order, without markup, blocks of arguments and asides.

    Args:
        description: description of a tool, perhaps with Markdown, docstring sections or HTML.
    """
    text = _FENCE.sub("\n\n", description[:_READ_CHARACTERS])
    text = _LINK.sub(r"\1", _TAG.sub(" ", text))
    text = _SYMBOLS.sub("", _ADDRESS.sub("", text))
    for ending in (_BLOCK, _DOCTAG):
        if block := ending.search(text):
            text = text[: block.start()]
    text = _EMPHASIS.sub("", _MARGIN.sub("", text))
    for paragraph in _PARAGRAPH.split(text):
        for sentence in _split_sentences(paragraph):
            plain = _SPACES.sub(" ", _BRACKETS.sub(" ", sentence)).strip(" \t\n:;,.-–—|·=")
            if plain:
                yield plain


def bounded_summary(text: str) -> str:
    """A text as one visible line of at most `SUMMARY_TOKENS` tokens, cut between words.

    Args:
        text: any text.
    """
    line = re.sub(r"\s+", " ", visible_line(text[: 4 * _MAX_CHARACTERS]))[:_MAX_CHARACTERS]
    line = line.strip()
    if len(line.encode()) <= SUMMARY_TOKENS:  # a token takes at least a byte
        return line
    while (count := bundled_counter().count(line)) > SUMMARY_TOKENS:
        beginning = line[: max(1, len(line) * SUMMARY_TOKENS // count)]
        cut = beginning.rpartition(" ")[0] if " " in beginning else beginning
        line = _DANGLING.sub("", cut if len(cut) < len(line) else line[:-1])
    return line


def repeats_name(summary: str, name: str) -> bool:
    """Whether a summary only repeats the words of a name."""
    summary_stems = {_stem(word) for word in identifiers_as_words(summary).lower().split()}
    return summary_stems - _ARTICLES <= {
        _stem(word) for word in identifiers_as_words(name).lower().split()
    }


def _split_sentences(paragraph: str) -> Iterator[str]:
    start = 0
    for end in _SENTENCE.finditer(paragraph):
        piece = paragraph[start : end.start()]
        if not _ABBREVIATED.search(piece):
            yield piece
            start = end.end()
    yield paragraph[start:]


def _shorten(sentence: str) -> str:
    """A sentence of more than `_MAX_WORDS` words cut at a clause, or at that word."""
    ends = [match.end() for match in _WORD.finditer(sentence)]
    if len(ends) <= _MAX_WORDS:
        return sentence
    least = ends[_MIN_WORDS - 1]
    clauses = [match.start() for match in _CLAUSE.finditer(sentence, least)]
    within = [start for start in clauses if start <= ends[_MAX_WORDS - 1]]
    return _DANGLING.sub("", sentence[: within[-1] if within else ends[_MAX_WORDS - 1]])


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def read_rows(path: Path | str) -> Iterator[SummaryRow]:
    """The rows of a JSONL file, or of a JSON object of id to summary.

    Raises:
        SummaryError: the file cannot be read, or a row is not one; names the line.
    """
    text = read_text_file(path, error=SummaryError)
    document = _parse_json(text)
    if isinstance(document, dict) and "summary" not in document:
        for tool_id, summary in document.items():
            yield _summary_row({"id": tool_id, "summary": summary}, f"{path}: {tool_id!r:.80}")
        return
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield _summary_row(_parse_json(line), f"{path}:{number}")


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _summary_row(row: Any, where: str) -> SummaryRow:
    match row:
        case {"id": str(tool_id), "summary": str(summary)}:
            fingerprint = row.get("fingerprint")
            if isinstance(fingerprint, str | None):
                return SummaryRow(tool_id, fingerprint, summary)
    raise SummaryError(
        f'{where}: must be an object like {{"id": ..., "summary": ...}}, both text; a fingerprint '
        "is text too, or absent"
    )


def no_tool_text(nearest: Sequence[Tool], summaries: Summaries, query: str | None = None) -> str:
    """What a model reads where no tool seems to fit: the nearest tools, one line each.

    The model judges three lines better than the decision does, so a wrong "no tool fits" costs one
    more search and not the task.

    Args:
        nearest: permitted tools, best first.
        summaries: summaries of the tools.
        query: what was searched for, if there are several queries.

    Example:
        >>> from shortlist import Tool
        >>> from shortlist.loaders.summaries import Summaries, no_tool_text
        >>> tool = Tool("list_invoices", "billing", "Lists all invoices.")
        >>> print(no_tool_text([tool], Summaries()))
        No tool seems to fit. Nearest:
        billing/list_invoices: Lists all invoices.
        To use one, search for its name. Otherwise search in other words, or answer without a tool.
    """
    place = f" for {query!r}" if query else ""
    if not nearest:
        return f"No tool fits{place}. Search in other words, or answer without a tool."
    lines = [f"{tool.id}: {summaries.of(tool)}" for tool in nearest]
    return "\n".join([f"No tool seems to fit{place}. Nearest:", *lines, _TO_USE_ONE])
