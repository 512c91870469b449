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
from .example_file import Enrichment

FOLDER = Path(__file__).parent / "library"
ROWS, NUMBERS = "rows.jsonl", "numbers.npz"

#: Distinct words of a description that are compared, from its start; letters of each.
WORDS, LETTERS = 32, 6
#: Least Jaccard similarity of words and parameter names, and least number of common ones. Pairs of
#: tools with the same name were read: at 0.6 nearly all belong to one product, at 0.5 tools of
#: Gmail and Trello meet (ADR 20).
LEAST, LEAST_COMMON = 0.6, 4
#: The similarity where the parameters of a row are not known, or the product is not named.
LEAST_UNSURE = 0.8
#: The number where the product is not named: products have equal short definitions.
LEAST_COMMON_UNNAMED = 10

_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_STOP = frozenset("the and for with from that this are you your can will use used using".split())


class Known(NamedTuple):
    """The row of a tool of a known server.

    Args:
        row: its `tool` names the server as the library does.
        exact: whether it was written for the same definition.
        mean: mean of the vectors of its requests.
    """

    row: Enrichment
    exact: bool
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

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder

    def find(self, tool: Tool) -> Known | None:
        """The row that a tool belongs to; None if there is none."""
        places = self._places.get(tool.name)
        if places is None:
            return None
        words, parameters = first_words(tool.description), parameter_names(tool)
        said = _said(tool)
        rows = {one: json.loads(self._lines[one]) for one in places}
        found = [(self._likeness(one, rows[one], words, parameters, said), -one) for one in places]
        likeness, place = max(found)
        if not likeness:
            return None
        numbers = self._numbers
        values = numbers["vectors"][-place].astype(np.float32) * numbers["scales"][-place]
        mean = QueryMean(numbers["model"].item(), values)
        return Known(_trusted(rows[-place]), likeness == 1, mean)

    def servers(self, tools: Iterable[Tool]) -> dict[str, dict[str, int]]:
        """Server to the servers of the rows its tools belong to, and how many tools each.

        Args:
            tools: a catalog; tools without a server count under "".
        """
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for tool in tools:
            if known := self.find(tool):
                found[tool.server or ""][known.row.tool.rpartition("/")[0]] += 1
        return {server: dict(count.most_common()) for server, count in found.items()}

    def __len__(self) -> int:
        return len(self._lines)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the rows and their numbers."""
        whole = hashlib.sha256()
        for name in (ROWS, NUMBERS):
            whole.update((self._folder / name).read_bytes())
        return whole.hexdigest()

    @cached_property
    def _lines(self) -> list[str]:
        return (self._folder / ROWS).read_text(encoding="utf-8").splitlines()

    @cached_property
    def _places(self) -> Mapping[str, list[int]]:
        """Numbers of rows by name of tool; the rows are only read where a name is found."""
        found: dict[str, list[int]] = defaultdict(list)
        for place, line in enumerate(self._lines):
            tool = line[len(_START) : line.index('"', len(_START))]
            found[tool.rpartition("/")[2]].append(place)
        return dict(found)

    @cached_property
    def _numbers(self) -> Mapping[str, NDArray[Any]]:
        with np.load(self._folder / NUMBERS) as numbers:
            return dict(numbers)

    def _likeness(
        self,
        place: int,
        row: Mapping[str, Any],
        words: frozenset[int],
        parameters: frozenset[str],
        said: str,
    ) -> float:
        own = frozenset(self._numbers["words"][place].tolist()) - {0}
        known = row.get("parameters")
        product = row["tool"].rpartition("/")[0].lower().split("-")
        return likeness(
            own,
            None if known is None else frozenset(known),
            words,
            parameters,
            named=any(f" {word}" in said for word in product),
        )


_START = '{"tool": "'


def _trusted(row: dict[str, Any]) -> Enrichment:
    """A row of the package, which tests have validated: validation took most of the time here."""
    tuples = {name: tuple(value) for name, value in row.items() if isinstance(value, list)}
    return Enrichment.model_construct(**{**row, **tuples})


def likeness(
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
    own: frozenset[int | str] = words
    other: frozenset[int | str] = other_words
    if parameters is not None:
        own, other = own | parameters, other | other_parameters
    common = len(own & other)
    found = common / max(len(own | other), 1)
    sure = named and parameters is not None
    enough = common >= (LEAST_COMMON if named else LEAST_COMMON_UNNAMED)
    return found if enough and found >= (LEAST if sure else LEAST_UNSURE) else 0.0


def first_words(description: str) -> frozenset[int]:
    """Hashes of the first distinct words of a description, 16 bits each and never 0."""
    found: dict[int, None] = {}
    for word in _WORD.findall(_HUMP.sub(" ", description[:2_000])):
        short = word.lower()[:LETTERS]
        if len(short) > 2 and short not in _STOP:
            found[zlib.crc32(short.encode("utf-8", "replace")) % 65_535 + 1] = None
            if len(found) == WORDS:
                break
    return frozenset(found)


def _said(tool: Tool) -> str:
    """The words of a tool, each after a space, among which the name of a product is sought."""
    text = " ".join((tool.server or "", tool.name, tool.title or "", tool.description[:2_000]))
    # As written too: "GitHub" is one name.
    return "".join(f" {word}" for word in _WORD.findall(f"{text} {_HUMP.sub(' ', text)}".lower()))


def parameter_names(tool: Tool) -> frozenset[str]:
    """Names of the parameters of a tool, without those inside others."""
    return frozenset(one.name for one in tool.parameters if one.path == one.name)
