"""The protocols of encoders and rerankers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .function_models import Embed, FunctionEncoder, FunctionReranker, Score

if TYPE_CHECKING:
    from typing import _ProtocolMeta
else:
    _ProtocolMeta = type(Protocol)

OnEncoded: TypeAlias = Callable[[int], None]
"""Called with the number of texts that were encoded since the last call."""


class _EncoderType(_ProtocolMeta):
    """Has `of` outside the protocol, so that an encoder need not define it."""

    def of(
        cls,  # noqa: N805
        embed: Embed,
        *,
        dim: int,
        name: str,
        embed_query: Embed | None = None,
    ) -> Encoder:
        """An encoder from a function, for the setting `encoder`.

        Args:
            embed: embeds texts; called from several threads. Vectors need not be of length 1.
            dim: length of a vector.
            name: names the model and its version. An index is built again if it changes.
            embed_query: embeds queries, if the model reads them in another way.

        Raises:
            ConfigError: an argument is wrong.

        Example:
            >>> from shortlist import Engine, Tool
            >>> from shortlist.models import Encoder
            >>> def embed(texts):
            ...     return [[text.count("pay"), text.count("mail") + 0.1] for text in texts]
            >>> encoder = Encoder.of(embed, dim=2, name="counts-1")
            >>> tools = [Tool("pay_invoice", "billing"), Tool("send_mail", "mail")]
            >>> Engine.from_tools(tools, encoder=encoder).search("pay", tier="embed").ids[0]
            'billing/pay_invoice'
        """
        return FunctionEncoder(embed, dim=dim, name=name, embed_query=embed_query)


@runtime_checkable
class Encoder(Protocol, metaclass=_EncoderType):
    """Turns texts into unit vectors whose dot product is their similarity."""

    @property
    def name(self) -> str:
        """Name of the encoder, for reports."""
        ...

    @property
    def dim(self) -> int:
        """Length of a vector."""
        ...

    @property
    def fingerprint(self) -> str:
        """Hash of everything the vectors depend on: weights, tokenizer, settings."""
        ...

    def encode(
        self, texts: Sequence[str], *, query: bool = False, progress: OnEncoded | None = None
    ) -> NDArray[np.float32]:
        """Embed texts.

        Args:
            texts: the texts, in any number and of any length. Longer texts than the model's window
                are cut.
            query: whether the texts are queries; some models read queries and documents
                differently.
            progress: called with the number of texts done since the last call.

        Returns:
            L2-normalised vectors, float32 of shape (len(texts), dim), in the order of the texts.
        """
        ...


class _RerankerType(_ProtocolMeta):
    """Has `of` outside the protocol, so that a reranker need not define it."""

    def of(cls, score: Score, *, name: str) -> Reranker:  # noqa: N805 - a metaclass
        """A reranker from a function, for the setting `reranker`.

        Args:
            score: scores texts against a query; called from several threads.
            name: names the model and its version.

        Raises:
            ConfigError: an argument is wrong.

        Example:
            >>> from shortlist import Engine, Tool
            >>> from shortlist.models import Reranker
            >>> reranker = Reranker.of(lambda query, texts: map(len, texts), name="length-1")
            >>> tools = [Tool("pay", "billing"), Tool("pay_invoice", "billing")]
            >>> engine = Engine.from_tools(tools, reranker=reranker)
            >>> engine.search("how do I pay?", tier="rerank").ids[0]
            'billing/pay_invoice'
        """
        return FunctionReranker(score, name=name)


@runtime_checkable
class Reranker(Protocol, metaclass=_RerankerType):
    """Reads a query and a text together and says how well the text answers the query."""

    @property
    def name(self) -> str:
        """Name of the reranker, for reports."""
        ...

    @property
    def fingerprint(self) -> str:
        """Hash of everything the scores depend on: weights, tokenizer, settings."""
        ...

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Score texts against one query.

        Args:
            query: the query.
            texts: the texts. If a pair is longer than the model's window, the longer text is cut.

        Returns:
            One raw score (a logit, unbounded) per text, float32 of shape (len(texts),).
        """
        ...
