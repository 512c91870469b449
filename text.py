"""Turns text into search terms, in the same way for tools and for queries."""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tantivy import TextAnalyzer

_CACHED_QUERIES = 64

#: Name the analyzer is registered under; part of a saved index.
ANALYZER = "shortlist_english_1"

# Blocks whose combining marks (vowels, points) belong to the word although `\w` leaves them out.
_SCRIPT_MARKS = (
    "\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
)
_WORD = re.compile(rf"(?:[^\W_]|[{_SCRIPT_MARKS}])+")
# Turns all separators of ASCII text into blanks. Splitting then takes a third of `_WORD`'s time.
_SEPARATORS_TO_BLANKS = bytes(
    code if chr(code).isalnum() and code < 128 else 32 for code in range(256)
)
_CONTRACTION = re.compile(r"(?<=\w)['\u2019](?=(?:s|t|re|ve|ll|d|m)\b)", re.IGNORECASE)
_IDENTIFIER_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_ACCENTS = re.compile("[\u0300-\u036f]")
# Scripts written without spaces between words: Han, kana, Hangul, Thai, Lao, Myanmar, Khmer.
_UNSPACED_SCRIPT = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f]+"
)


# Function words and courtesies of requests. In texts as short as a tool's they would otherwise
# count as rare and decisive; verbs that name operations (get, let, need) stay.
_STOP_WORDS = """
    a about above after again all also am an and any are arent as at be because been before
    being below between both but by can cant cannot could couldnt did didnt do does doesnt doing
    dont down during each few for from further had hadnt has hasnt have havent having he hello
    her here heres hers herself hey hi him himself his how hows i if ill im in into is isnt it
    its itself ive just may me might more most must my myself no nor not of off ok okay on once
    only or other our ours ourselves out over own please same shall she should shouldnt so some
    such than thank thanks that thats the their theirs them themselves then there theres these
    they theyre this those through to too under until up us very via want was wasnt we were
    werent what whats when where whether which while who whom whose why will with wont would
    wouldnt yes you your youre yours yourself yourselves youve youll theyve weve whos
""".split()


def without_accents(text: str) -> str:
    """The text in compatibility form (NFKC), without Latin, Greek and Cyrillic accents.

    Marks that carry meaning (Indic vowels, kana voicing) stay.
    """
    if text.isascii():
        return text
    text = text.encode("utf-8", "replace").decode("utf-8")
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))


def _split(text: str) -> list[str]:
    if text.isascii():
        return text.encode().translate(_SEPARATORS_TO_BLANKS).decode().split()
    return _WORD.findall(text)


def split_identifier(word: str) -> list[str]:
    """The words of an identifier: `getUserByID2` gives get, User, By, ID, 2."""
    return _IDENTIFIER_PART.findall(word)


def identifiers_as_words(text: str) -> str:
    """The text with identifiers written as separate words."""
    return " ".join(part for word in _split(text) for part in split_identifier(word) or (word,))


def _bigrams(run: str) -> list[str]:
    return [run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)]


def lower_words(text: str) -> list[str]:
    """Lower-case words of `text` before stemming, in order, with repetitions.

    An identifier gives its parts. If letter case or digits split it, it gives the whole word too,
    so that `GitHub` matches `github` and `git`. Scripts without spaces give bigrams.
    """
    text = without_accents(text)
    if "'" in text or "\u2019" in text:
        text = _CONTRACTION.sub("", text)
    lower_words: list[str] = []
    for word in _split(text):
        if word.isascii():
            if word.islower() and word.isalpha():
                lower_words.append(word)
                continue
            parts = split_identifier(word)
            if len(parts) > 1:
                lower_words.extend(part.lower() for part in parts)
            lower_words.append(word.lower())
            continue
        cursor = 0
        for run in _UNSPACED_SCRIPT.finditer(word):
            if run.start() > cursor:
                lower_words.append(word[cursor : run.start()].casefold())
            lower_words.extend(_bigrams(run.group()))
            cursor = run.end()
        if cursor < len(word):
            lower_words.append(word[cursor:].casefold())
    return lower_words


@cache
def analyzer() -> TextAnalyzer:
    """The tantivy part of the analysis: from words separated by blanks to stemmed terms."""
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

    return (
        TextAnalyzerBuilder(Tokenizer.whitespace())
        .filter(Filter.remove_long(64))
        .filter(Filter.custom_stopword(_STOP_WORDS))
        .filter(Filter.stemmer("english"))
        .build()
    )


def search_terms(text: str) -> list[str]:
    """Search terms of `text`, in order, with repetitions."""
    return analyzer().analyze(" ".join(lower_words(text)))


@lru_cache(_CACHED_QUERIES)
def query_terms(text: str) -> tuple[str, ...]:
    """The distinct search terms of a query, in order. Several stages of one search read them."""
    return tuple(dict.fromkeys(search_terms(text)))
