"""Example queries for the tools of well-known servers, shipped with the package."""

from __future__ import annotations

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
ROWS_FILE, NUMBERS_FILE = "rows.zlib", "numbers.npz"
#: Rows that are compressed together: a tool that is known costs the reading of so many.
ROWS_A_BLOCK = 32

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
#: The number where the server's name holds the product's whole name: then "Navigate to a URL" with
#: `url` is enough, at the higher similarity.
MIN_COMMON_SERVER_NAMED = 2

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
    the name of its server, or else to agree in more words. A very short definition is enough if
    the server's name holds the product's whole name.

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
        self._blocks: dict[int, list[str]] = {}

    def find(self, tool: Tool) -> LibraryMatch | None:
        """The row that a tool belongs to; None if there is none."""
        places = self._places.get(name_hash(tool.name))
        if places is None:
            return None
        words, parameters = first_words(tool.description), parameter_names(tool)
        rows = {place: self._row(place) for place in places}
        similarities = {
            place: self._similarity(place, row, words, parameters, tool)
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

    def nearest_rows(self, vectors: NDArray[np.float32], count: int) -> list[dict[str, Any]]:
        """The rows whose example queries are nearest to vectors, in order of id.

        Args:
            vectors: of the encoder that made the library, shape (n, dim), L2-normalised.
            count: rows for each vector.
        """
        similarities = vectors @ self._numbers["vectors"].astype(np.float32).T
        similarities *= self._numbers["scales"]
        places = np.unique(np.argpartition(-similarities, count, axis=1)[:, :count])
        return [self._row(place) for place in places.tolist()]

    def __len__(self) -> int:
        return len(self._numbers["scales"])

    @property
    def fingerprint(self) -> str:
        """Hash of the rows and their numbers."""
        return str(self._numbers["fingerprint"])

    def rows(self) -> list[dict[str, Any]]:
        """All rows, in order of id."""
        return [self._row(place) for place in range(len(self))]

    def _row(self, place: int) -> dict[str, Any]:
        block, line = divmod(place, ROWS_A_BLOCK)
        if block not in self._blocks:
            start, end = self._numbers["starts"][block : block + 2].tolist()
            text = zlib.decompress(self._compressed[start:end])
            self._blocks[block] = text.decode("utf-8").split("\n")
        row: dict[str, Any] = json.loads(self._blocks[block][line])
        return row

    @cached_property
    def _compressed(self) -> bytes:
        return (self._folder / ROWS_FILE).read_bytes()

    @cached_property
    def _places(self) -> Mapping[int, list[int]]:
        """Numbers of rows by hash of the tool's name; the rows are only read where one is found."""
        places: dict[int, list[int]] = defaultdict(list)
        for place, name in enumerate(self._numbers["names"].tolist()):
            places[name].append(place)
        return dict(places)

    @cached_property
    def _numbers(self) -> Mapping[str, NDArray[Any]]:
        """Numbers of the n rows.

        `names` are hashes of their tools' names, uint32 (n,). `words` are their `first_words`,
        uint16 (n, 32), and 0 after the last. `vectors`, int8 (n, dim), times `scales`, (n,), are
        the means of their example queries, of the encoder with the fingerprint `model`. `starts`
        are the places of the blocks in the file of rows, and its end. `fingerprint` is a hash of
        all of this and of the rows.
        """
        with np.load(self._folder / NUMBERS_FILE) as numbers:
            return dict(numbers)

    def _similarity(
        self,
        place: int,
        row: Mapping[str, Any],
        words: frozenset[int],
        parameters: frozenset[str],
        tool: Tool,
    ) -> float:
        if row["tool"].rpartition("/")[2] != tool.name:
            return 0.0
        row_words = frozenset(self._numbers["words"][place].tolist()) - {0}
        row_parameters = row.get("parameters")
        compared = (
            row_words,
            None if row_parameters is None else frozenset(row_parameters),
            words,
            parameters,
        )
        # Reading the names takes longer than the comparison.
        if not similarity(*compared, named=True, server_named=True):
            return 0.0
        product = row["tool"].rpartition("/")[0].lower().split("-")
        tool_words, server_words = _all_words(tool), _words(tool.server or "")
        return similarity(
            *compared,
            named=any(f" {word}" in tool_words for word in product),
            server_named=all(f" {word}" in server_words for word in product),
        )


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
    server_named: bool = False,
) -> float:
    """Jaccard similarity of two definitions of the same name; 0 if they are of different tools.

    Args:
        words: words of a row, see `first_words`.
        parameters: parameters of a row; None if they are not known.
        other_words: words of a tool.
        other_parameters: parameters of a tool.
        named: whether the tool names the product of the row.
        server_named: whether the name of its server holds all words of the product's name.
    """
    row_features: frozenset[int | str] = words
    tool_features: frozenset[int | str] = other_words
    if parameters is not None:
        row_features, tool_features = words | parameters, other_words | other_parameters
    common = len(row_features & tool_features)
    jaccard = common / max(len(row_features | tool_features), 1)
    least_common = MIN_COMMON if named else MIN_COMMON_UNNAMED
    least = MIN_SIMILARITY if named and parameters is not None else MIN_SIMILARITY_UNSURE
    if common >= least_common and jaccard >= least:
        return jaccard
    is_short_match = common >= MIN_COMMON_SERVER_NAMED and jaccard >= MIN_SIMILARITY_UNSURE
    return jaccard if server_named and is_short_match else 0.0


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


def name_hash(name: str) -> int:
    """Hash of a tool's name, 32 bits."""
    return zlib.crc32(name.encode("utf-8", "replace"))


def _all_words(tool: Tool) -> str:
    """The words of a tool, each after a space; `_similarity` looks for a product's name in them."""
    return _words(
        " ".join((tool.server or "", tool.name, tool.title or "", tool.description[:2_000]))
    )


def _words(text: str) -> str:
    split = _HUMP.sub(" ", text)
    # As written too: "GitHub" is one name.
    return " " + " ".join(_WORD.findall((text if split == text else f"{text} {split}").lower()))


def parameter_names(tool: Tool) -> frozenset[str]:
    """Names of the parameters of a tool, without those inside others."""
    return frozenset(
        parameter.name for parameter in tool.parameters if parameter.path == parameter.name
    )
