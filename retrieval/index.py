"""One version of a catalog, ready to be searched."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..catalog import Catalog, Tool
from ..errors import RequestError
from ..models import Encoder, TokenVectors, encoded, gives_tokens
from .document import embedding_text, lexical_document
from .learned import Learned
from .protocols import DenseIndex, LexicalIndex, Retriever
from .rerank import RerankStage
from .retrievers import DenseRetriever, LexicalRetriever


@dataclass(frozen=True, slots=True)
class Vectors:
    """The encoded tools of an index.

    Args:
        values: shape (n, dim), L2-normalised, a row for each tool in order of id.
        keys: hash of the text each row was encoded from.
        model: fingerprint of the encoder.
        tokens: those of each row's text, where the encoder gives them.
    """

    values: NDArray[np.float32]
    keys: tuple[bytes, ...]
    model: str
    tokens: TokenVectors | None = None

    def fits(self, encoder: Encoder, *, tokens: bool) -> bool:
        """Whether an encoder made them, with those of the tokens where these are wanted."""
        has = self.tokens is not None or not tokens or not gives_tokens(encoder)
        return self.model == encoder.fingerprint and has


class Index:
    """The tools of a catalog version with the stages built over them; never changed once made.

    Rows are numbered in order of tool id, so that ordering by row breaks ties by id.

    Args:
        catalog: the version.
        tools: its tools in order of row, see `rows_of`.
        lexical: the lexical index, or None when no tier needs it.
        dense: the dense index with the encoder's vectors and the encoder, or None when no tier
            needs them.
        rerankers: the rerank stages by name.
        encoded: how many tools had to be encoded to make this index.
        learned: what usage taught, which the dense index was built with; or None.
    """

    def __init__(
        self,
        catalog: Catalog,
        tools: tuple[Tool, ...],
        lexical: LexicalIndex | None,
        dense: tuple[DenseIndex, Vectors, Encoder] | None,
        rerankers: Mapping[str, RerankStage],
        encoded: int = 0,
        learned: Learned | None = None,
    ) -> None:
        self.catalog = catalog
        self.tools = tools
        self.rows: Mapping[str, int] = {tool.id: row for row, tool in enumerate(tools)}
        self.rerankers = rerankers
        self.lexical = lexical
        self.dense = dense[0] if dense else None
        self.vectors = dense[1] if dense else None
        self.encoder = dense[2] if dense else None
        self.encoded = encoded
        self.learned = learned
        #: Stage name to the factor of its scores in a fusion, where usage taught one.
        self.scales: Mapping[str, float] = (
            {"lexical": learned.lexical} if learned and learned.lexical != 1 else {}
        )
        retrievers: dict[str, Retriever] = {}
        if lexical is not None:
            retrievers["lexical"] = LexicalRetriever(lexical)
        if dense is not None:
            retrievers["dense"] = DenseRetriever(
                dense[2], dense[0], tokens=dense[1].tokens is not None
            )
        self.retrievers: Mapping[str, Retriever] = retrievers
        self._named: dict[str, list[int]] = {}
        self._folded: dict[str, list[int]] = {}
        for row, tool in enumerate(self.tools):
            for name in {tool.id, tool.name}:
                self._named.setdefault(name, []).append(row)
            for name in {tool.id.casefold(), tool.name.casefold()}:
                self._folded.setdefault(name, []).append(row)

    def mask(self, allowed: Iterable[str] | None) -> NDArray[np.bool_] | None:
        """Rows of the given ids, shape (n,); ids the catalog does not hold admit nothing.

        None, which admits every row, stays None.

        Raises:
            RequestError: something else than ids.
        """
        if allowed is None:
            return None
        if isinstance(allowed, str):
            raise RequestError(f"allowed: an iterable of tool ids, not the text {allowed[:80]!r}")
        mask = np.zeros(len(self.tools), np.bool_)
        rows = self.rows
        try:
            mask[[rows[tool_id] for tool_id in allowed if tool_id in rows]] = True
        except TypeError as error:
            raise RequestError(f"allowed: an iterable of tool ids: {error}") from error
        return mask

    def named(self, text: str) -> Sequence[int]:
        """Rows whose id or name is exactly `text`; failing that, but for letter case."""
        # Names and ids are held in NFC, see `Tool`.
        name = unicodedata.normalize("NFC", text).strip().strip("`'\"")
        return self._named.get(name) or self._folded.get(name.casefold()) or ()


def rows_of(catalog: Catalog) -> tuple[Tool, ...]:
    """The tools of a catalog in the order of an index's rows."""
    return tuple(sorted(catalog, key=lambda tool: tool.id))


def build_lexical(
    backend: type[LexicalIndex], tools: Sequence[Tool], boosts: Mapping[str, float]
) -> LexicalIndex:
    """Index the tools' fields that have a boost."""
    fields = tuple(field for field, boost in boosts.items() if boost > 0)
    return backend.build([lexical_document(tool, fields) for tool in tools], boosts)


def encode_tools(
    encoder: Encoder,
    tools: Sequence[Tool],
    known: Vectors | None = None,
    progress: Callable[[int, int], None] | None = None,
    *,
    tokens: bool = True,
) -> tuple[Vectors, int]:
    """Vectors of the tools, taken from `known` where model and text are the same.

    Args:
        encoder: encodes what is not known.
        tools: in order of row.
        known: vectors of an earlier version.
        progress: called with (tools encoded, tools to encode).
        tokens: whether those of the tools' tokens are wanted too, if the encoder gives them.

    Returns:
        The vectors and how many were encoded.
    """
    texts = [embedding_text(tool) for tool in tools]
    keys = tuple(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:16] for text in texts)
    if known is not None and not known.fits(encoder, tokens=tokens):
        known = None
    # Place of each key among the vectors there are: the known ones, and the fresh behind them.
    places = {key: row for row, key in enumerate(known.keys)} if known else {}
    fresh: dict[bytes, str] = {}
    for key, text in zip(keys, texts, strict=True):
        if key not in places:
            fresh.setdefault(key, text)
    count = len(known.keys) if known else 0
    places.update({key: count + place for place, key in enumerate(fresh)})
    done = 0

    def advance(further: int) -> None:
        nonlocal done
        done += further
        if progress:
            progress(done, len(fresh))

    values: list[NDArray[np.float32]] = []
    parts: list[TokenVectors | None] = []
    if known is not None:
        values.append(known.values)
        parts.append(known.tokens if tokens else None)
    if fresh or known is None:
        made = encoded(encoder, list(fresh.values()), tokens=tokens, progress=advance)
        values.append(made[0])
        parts.append(made[1])
        del made
    rows = np.array([places[key] for key in keys], np.int64)
    if len(values) == 1 and np.array_equal(rows, np.arange(len(values[0]))):
        return Vectors(values[0], keys, encoder.fingerprint, parts[0]), len(fresh)
    chosen = _rows_of_parts(values, rows)
    # Let go of before the tokens, the larger half, are copied in turn.
    values.clear()
    held = [part for part in parts if part is not None]
    chosen_tokens = TokenVectors.joined(held, rows) if len(held) == len(parts) else None
    return Vectors(chosen, keys, encoder.fingerprint, chosen_tokens), len(fresh)


def _rows_of_parts(
    parts: Sequence[NDArray[np.float32]], rows: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Rows of arrays that lie one behind the other, without joining them first."""
    chosen = np.empty((len(rows), parts[0].shape[1]), np.float32)
    first = 0
    for part in parts:
        here = np.flatnonzero((rows >= first) & (rows < first + len(part)))
        chosen[here] = part[rows[here] - first]
        first += len(part)
    return chosen
