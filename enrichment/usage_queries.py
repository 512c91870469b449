"""Example queries from usage: recorded queries without secrets, several different ones a tool."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..catalog import Tool
from ..catalog.text_cleaning import visible_line
from ..retrieval.example_queries import USAGE
from ..retrieval.usage import UsageEvent
from ..text import lower_words
from .example_file import MAX_CHARS, ExampleQueryRow, is_hostile

#: Queries of one tool that are written, of all profiles together. Half of those that are searched:
#: there is room for queries from other sources.
MAX_QUERIES_FROM_USAGE = 8
#: Words that must be left of a query whose one-off values are cut.
_MIN_WORDS = 3
#: Jaccard similarity of their words from which two queries count as near copies.
_NEAR_COPY = 0.75

#: What shows that a text has a secret, or says who somebody is.
_SECRETS = re.compile(
    r"""
    [\w.+-]+@[\w-]+(?:\.[\w-]+)+                                            # an e-mail address
    | \b(?:password|passwort|passwd|passphrase|pwd|pin|secret|token|bearer|api[ _-]?key
        |access[ _-]?key|private[ _-]?key|credentials?)\b\s*(?:is\b|are\b|=|:)\s*\S
    | \bbearer\s+\S{8,}
    | -----BEGIN\b
    | \b(?:sk|pk|rk|gh[oprsu]|xox[abeoprs]|glpat|AKIA|ASIA|AIza|eyJ)[-_]?[A-Za-z0-9_-]{12,}
    | (?<![\w/])(?=[\w+/=-]*[A-Za-z])(?=[\w+/=-]*\d)[\w+=-]{20,}            # a random token
    """,
    re.VERBOSE | re.IGNORECASE,
)
#: Values that only one user's one request has.
_ONE_OFF_VALUES = re.compile(
    r"""
    \b[A-Za-z][A-Za-z0-9+.-]*://\S+ | \bwww\.\S+                            # a URL
    | "[^"]*" | “[^”]*” | „[^“”]*[“”] | «[^»]*» | `[^`]*` | ‘[^’]*’
    | (?<![\w'])'[^']*'(?!\w)                                               # a quoted string
    | (?<![\w.])(?:[A-Za-z]:)?(?:~|\.{1,2})?[\\/][\w.@~+-]+(?:[\\/][\w.@~+-]*)*   # a path
    | (?<![\w.])(?:[\w.@+-]+[\\/])*[\w-]+(?:\.[\w-]+)*\.[A-Za-z][A-Za-z0-9]{1,4}\b(?:[\\/]\S*)?
                                                                            # a file or host name
    | (?<![\w.])[\w.@+-]+(?:[\\/][\w.@+-]+){2,}[\\/]?                       # a path without a root
    | (?<!\w)[@#][\w-]+                                                     # a user, a ticket
    | \b[A-Z]{2,}-\d+\b                                                     # a ticket
    | (?<!\w)(?=(?:[\w-]*\d){3})[\w-]*[A-Za-z_][\w-]*                       # an id
    | [+$€£¥]?\(?(?<!\w)\d(?:[ .,:/()-]{0,2}\d){3,}(?!\w)                   # a long number
    """,
    re.VERBOSE,
)
_SPACES = re.compile(r"\s+")
_SPACE_BEFORE_SIGN = re.compile(r"\s+(?=[,.;:?!)\]])|(?<=[(\[])\s+")
_EMPTY_BRACKETS = re.compile(r"\(\s*\)|\[\s*\]")


def query_without_values(text: str) -> str | None:
    """A query as it is written: without values of one request; None if it is left out.

    A query with a secret or an e-mail address is left out as a whole: where one secret was
    recognised, another may stand beside it that was not. Other one-off values are cut, since the
    words around them tell what the user wants. At least three words must be left.

    Args:
        text: a recorded query.

    Example:
        >>> query_without_values("close ticket OPS-2211 and tell #oncall about it")
        'close ticket and tell about it'
        >>> query_without_values("log in with password: hunter2") is None
        True
    """
    line = visible_line(text)
    if _SECRETS.search(line):
        return None
    rest, cuts = _ONE_OFF_VALUES.subn(" ", line)
    if cuts:
        rest = _SPACES.sub(" ", _EMPTY_BRACKETS.sub(" ", rest))
        rest = _SPACE_BEFORE_SIGN.sub("", rest).strip(" ,;:-")
    if len(lower_words(rest)) < (_MIN_WORDS if cuts else 1) or len(rest) > MAX_CHARS:
        return None
    return None if is_hostile(rest) else rest


def near_copy_numbers(texts: Sequence[str]) -> NDArray[np.int64]:
    """A number for each query that it shares with its copies and near copies, shape (n,).

    Near copies have the same words but for one in four, whatever their case, order and numbers. A
    near copy of a near copy counts too.

    Args:
        texts: the queries.

    Example:
        >>> near_copy_numbers(["List the open invoices", "list open invoices", "Pay them"]).tolist()
        [0, 0, 2]
    """
    words = [frozenset(lower_words(re.sub(r"\d", "0", text))) for text in texts]
    counts: dict[str, int] = defaultdict(int)
    for text_words in words:
        for word in text_words:
            counts[word] += 1
    numbers = list(range(len(texts)))

    def first_of(place: int) -> int:
        while numbers[place] != place:
            numbers[place] = numbers[numbers[place]]
            place = numbers[place]
        return place

    # Two sets as similar as this share one of their rarest words: of as many as may differ, plus
    # one (Bayardo et al. 2007). So only texts with such a word are compared.
    places_by_word: dict[str, list[int]] = defaultdict(list)
    for place, text_words in enumerate(words):
        rarest = sorted(text_words, key=lambda word: (counts[word], word))
        rarest = rarest[: len(rarest) - int(np.ceil(_NEAR_COPY * len(rarest))) + 1] or [""]
        similar = {
            other
            for word in rarest
            for other in places_by_word[word]
            if len(text_words & words[other]) >= _NEAR_COPY * len(text_words | words[other])
        }
        for other in similar:
            ends = sorted((first_of(place), first_of(other)))
            numbers[ends[1]] = ends[0]
        for word in rarest:
            places_by_word[word].append(place)
    return np.array([first_of(place) for place in range(len(texts))], np.int64)


def usage_rows(
    events: Iterable[UsageEvent],
    tools: Mapping[str, Tool],
    encode: Callable[[Sequence[str]], NDArray[np.float32]],
) -> list[ExampleQueryRow]:
    """A row for each tool and profile with queries that led to a successful call of the tool.

    Of near copies one is written. Where a tool has more than MAX_QUERIES_FROM_USAGE different
    queries, those are chosen that together are nearest to all of them (greedy facility location),
    so that each stands for others and an odd one does not displace them.

    Args:
        events: queries as they shall be written, see `query_without_values`.
        tools: tools of the catalog by id.
        encode: the vectors of queries, L2-normalised, shape (n, dim).

    Returns:
        Rows in order of tool and profile.
    """
    events_by_tool: dict[str, list[UsageEvent]] = defaultdict(list)
    for event in events:
        for tool_id in event.relevant:
            events_by_tool[tool_id].append(event)
    rows: list[ExampleQueryRow] = []
    for tool_id, tool_events in sorted(events_by_tool.items()):
        chosen = _most_informative(tool_events, encode)
        queries_by_profile: dict[str, list[str]] = defaultdict(list)
        for event in chosen:
            queries_by_profile[event.profile or ""].append(event.query)
        rows += (
            _row(tools[tool_id], profile, queries)
            for profile, queries in sorted(queries_by_profile.items())
        )
    return rows


def _row(tool: Tool, profile: str, queries: Iterable[str]) -> ExampleQueryRow:
    return ExampleQueryRow(
        tool=tool.id,
        fingerprint=tool.fingerprint,
        parameters=tuple(parameter.name for parameter in tool.parameters),
        queries=tuple(queries),
        profile=profile,
        source=USAGE,
    )


def _most_informative(
    events: Sequence[UsageEvent], encode: Callable[[Sequence[str]], NDArray[np.float32]]
) -> list[UsageEvent]:
    """Different events of a tool that stand for all, at most MAX_QUERIES_FROM_USAGE, in order."""
    numbers = near_copy_numbers([event.query for event in events])
    places, counts = np.unique(numbers, return_counts=True)
    different = [events[place] for place in places.tolist()]
    if len(different) <= MAX_QUERIES_FROM_USAGE:
        return different
    vectors = encode([event.query for event in different])
    similarity = vectors @ vectors.T
    chosen: list[int] = []
    nearest = np.full(len(different), -1.0, np.float32)
    for _ in range(MAX_QUERIES_FROM_USAGE):
        gains = counts @ np.maximum(similarity - nearest[:, None], 0)
        gains[chosen] = -1
        best = int(gains.argmax())
        chosen.append(best)
        nearest = np.maximum(nearest, similarity[:, best])
    return [different[place] for place in sorted(chosen)]
