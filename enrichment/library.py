"""Example queries for the tools of well-known servers, shipped with the package."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..catalog import Tool
from ..retrieval.example_queries import QueryMean
from .example_file import ExampleQueryRow

LIBRARY_FOLDER = Path(__file__).parent / "library"
ROWS_FILE, NUMBERS_FILE = "rows.jsonl", "numbers.npz"

#: Distinct words of a description that are compared, from its start; letters of each.
MAX_WORDS, LETTERS_A_WORD = 32, 6
#: Least Jaccard similarity of words and parameter names, and least number of common ones. Pairs of
#: tools with the same name were read: at 0.6 nearly all belong to one product, at 0.5 tools of
#: Gmail and Trello meet (ADR 20).
MIN_SIMILARITY, MIN_COMMON = 0.6, 4
#: The similarity where the parameters of a row are not known, or the product is not named.
MIN_SIMILARITY_UNSURE = 0.8
#: The number where the product is not named: products have equal short definitions.
MIN_COMMON_UNNAMED = 10

_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_STOP_WORDS = frozenset(
    "the and for with from that this are you your can will use used using".split()
)


class LibraryMatch(NamedTuple):
    """The row that a tool of a known server belongs to.

    Args:
        row: its `tool` names the server as the library does.
        is_same_definition: whether it was written for the same definition.
        mean: mean of the vectors of its example queries.
    """

    row: ExampleQueryRow
    is_same_definition: bool
    mean: QueryMean


class Library:
    """Rows for tools of well-known servers, recognised by their definitions.

    A tool belongs to a row if it has the same name, and its parameters and the first words of its
    description are nearly the same. It has to name the product somewhere, in its definition or
    the name of its server, or else to agree in more words.

    Args:
        folder: with the rows and their numbers.

    Example:
        >>> from shortlist import Tool
        >>> from shortlist.enrichment.library import Library
        >>> Library().find(Tool("create_issue", "mine", "Order a pizza")) is None
        True
    """

    def __init__(self, folder: Path = LIBRARY_FOLDER) -> None:
        self._folder = folder

    def find(self, tool: Tool) -> LibraryMatch | None:
        """The row that a tool belongs to; None if there is none."""
        places = self._places.get(tool.name)
        if places is None:
            return None
        words, parameters = first_words(tool.description), parameter_names(tool)
        tool_words = _all_words(tool)
        rows = {place: json.loads(self._lines[place]) for place in places}
        similarities = {
            place: self._similarity(place, row, words, parameters, tool_words)
            for place, row in rows.items()
        }
        # Of rows that are equally similar, the first.
        best = max(places, key=lambda place: (similarities[place], -place))
        if not similarities[best]:
            return None
        numbers = self._numbers
        values = numbers["vectors"][best].astype(np.float32) * numbers["scales"][best]
        mean = QueryMean(numbers["model"].item(), values)
        return LibraryMatch(_row_of_package(rows[best]), similarities[best] == 1, mean)

    def servers(self, tools: Iterable[Tool]) -> dict[str, dict[str, int]]:
        """Server to the servers of the rows its tools belong to, and how many tools each.

        Args:
            tools: a catalog; tools without a server count under "".
        """
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for tool in tools:
            if match := self.find(tool):
                counts[tool.server or ""][match.row.tool.rpartition("/")[0]] += 1
        return {server: dict(count.most_common()) for server, count in counts.items()}

    def __len__(self) -> int:
        return len(self._lines)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the rows and their numbers."""
        content_hash = hashlib.sha256()
        for name in (ROWS_FILE, NUMBERS_FILE):
            content_hash.update((self._folder / name).read_bytes())
        return content_hash.hexdigest()

    @cached_property
    def _lines(self) -> list[str]:
        return (self._folder / ROWS_FILE).read_text(encoding="utf-8").splitlines()

    @cached_property
    def _places(self) -> Mapping[str, list[int]]:
        """Numbers of rows by name of tool; the rows are only read where a name is found."""
        places: dict[str, list[int]] = defaultdict(list)
        for place, line in enumerate(self._lines):
            tool_id = line[len(_LINE_START) : line.index('"', len(_LINE_START))]
            places[tool_id.rpartition("/")[2]].append(place)
        return dict(places)

    @cached_property
    def _numbers(self) -> Mapping[str, NDArray[Any]]:
        """Numbers of the n rows.

        `words` are their `first_words`, uint16 (n, 32), and 0 after the last. `vectors`, int8
        (n, dim), times `scales`, (n,), are the means of their example queries, of the encoder with
        the fingerprint `model`.
        """
        with np.load(self._folder / NUMBERS_FILE) as numbers:
            return dict(numbers)

    def _similarity(
        self,
        place: int,
        row: Mapping[str, Any],
        words: frozenset[int],
        parameters: frozenset[str],
        tool_words: str,
    ) -> float:
        row_words = frozenset(self._numbers["words"][place].tolist()) - {0}
        row_parameters = row.get("parameters")
        product = row["tool"].rpartition("/")[0].lower().split("-")
        return similarity(
            row_words,
            None if row_parameters is None else frozenset(row_parameters),
            words,
            parameters,
            named=any(f" {word}" in tool_words for word in product),
        )


_LINE_START = '{"tool": "'


def _row_of_package(row: dict[str, Any]) -> ExampleQueryRow:
    """A row of the package, which tests have validated: validation took most of the time here."""
    tuples = {name: tuple(value) for name, value in row.items() if isinstance(value, list)}
    return ExampleQueryRow.model_construct(**{**row, **tuples})


def similarity(
    words: frozenset[int],
    parameters: frozenset[str] | None,
    other_words: frozenset[int],
    other_parameters: frozenset[str],
    *,
    named: bool,
) -> float:
    """Jaccard similarity of two definitions of the same name; 0 if they are of different tools.

    Args:
        words: words of a row, see `first_words`.
        parameters: parameters of a row; None if they are not known.
        other_words: words of a tool.
        other_parameters: parameters of a tool.
        named: whether the tool names the product of the row.
    """
    row_features: frozenset[int | str] = words
    tool_features: frozenset[int | str] = other_words
    if parameters is not None:
        row_features, tool_features = words | parameters, other_words | other_parameters
    common = len(row_features & tool_features)
    jaccard = common / max(len(row_features | tool_features), 1)
    least_common = MIN_COMMON if named else MIN_COMMON_UNNAMED
    least = MIN_SIMILARITY if named and parameters is not None else MIN_SIMILARITY_UNSURE
    return jaccard if common >= least_common and jaccard >= least else 0.0


def first_words(description: str) -> frozenset[int]:
    """Hashes of the first distinct words of a description, 16 bits each and never 0."""
    hashes: dict[int, None] = {}
    for word in _WORD.findall(_HUMP.sub(" ", description[:2_000])):
        short = word.lower()[:LETTERS_A_WORD]
        if len(short) > 2 and short not in _STOP_WORDS:
            hashes[zlib.crc32(short.encode("utf-8", "replace")) % 65_535 + 1] = None
            if len(hashes) == MAX_WORDS:
                break
    return frozenset(hashes)


def _all_words(tool: Tool) -> str:
    """The words of a tool, each after a space; `_similarity` looks for a product's name in them."""
    text = " ".join((tool.server or "", tool.name, tool.title or "", tool.description[:2_000]))
    # As written too: "GitHub" is one name.
    return "".join(f" {word}" for word in _WORD.findall(f"{text} {_HUMP.sub(' ', text)}".lower()))


def parameter_names(tool: Tool) -> frozenset[str]:
    """Names of the parameters of a tool, without those inside others."""
    return frozenset(
        parameter.name for parameter in tool.parameters if parameter.path == parameter.name
    )
