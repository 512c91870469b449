"""Caches of vectors and answers, which the benchmark's variants share.

Cached values depend only on their key. So the figures, but not the times, are those of engines
without caches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ...catalog import Catalog, Tool
from ...config import Config
from ...decision import Decider
from ...engine import Engine
from ...gating import State
from ...gating.admission import Admission
from ...indexing.builder import Builder
from ...indexing.stage_models import StageModels
from ...models import Encoder, load_encoder
from ...retrieval import Selection, Strategy
from ...retrieval.search.searcher import Searcher
from ...view import View


class RememberingEncoder:
    """An encoder that encodes every text once.

    Args:
        encoder: encoder for new texts.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.name = encoder.name
        self.dim = encoder.dim
        self.fingerprint = encoder.fingerprint
        self._vectors: dict[tuple[bool, str], NDArray[np.float32]] = {}

    def encode(
        self,
        texts: Sequence[str],
        *,
        query: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> NDArray[np.float32]:
        """Embed texts; see `Encoder.encode`."""
        self._remember(texts, query, progress)
        found = [self._vectors[query, text] for text in texts]
        return np.array(found, np.float32).reshape(len(texts), self.dim)

    def _remember(
        self, texts: Sequence[str], query: bool, progress: Callable[[int], None] | None
    ) -> None:
        fresh = [text for text in dict.fromkeys(texts) if (query, text) not in self._vectors]
        fresh.sort(key=len)  # models that pad a batch to its longest text pad less
        if not fresh:
            return
        vectors = self._encoder.encode(fresh, query=query, progress=progress)
        for row, text in enumerate(fresh):
            self._vectors[query, text] = vectors[row]


class Encoders:
    """Encoders by name. Each is loaded at its first use."""

    def __init__(self) -> None:
        self._loaded: dict[tuple[str, int | None, str], RememberingEncoder] = {}

    def load(
        self, spec: str = "bundled", threads: int | None = None, **settings: Any
    ) -> RememberingEncoder:
        """An encoder, see `load_encoder`.

        Args:
            spec: its name.
            threads: CPU threads for one call.
            settings: further settings of the encoder.

        Raises:
            ModelError: there is no such model, or it cannot be run.
            MissingExtraError: it needs an optional dependency that is not installed.
        """
        key = spec, threads, repr(sorted(settings.items()))
        if key not in self._loaded:
            self._loaded[key] = RememberingEncoder(load_encoder(spec, threads=threads, **settings))
        return self._loaded[key]


class _SharedModels(StageModels):
    """Models with an encoder that several engines share."""

    def __init__(self, config: Config, encoders: Encoders) -> None:
        self._encoders = encoders
        super().__init__(config)

    def encoder(self) -> Encoder:
        spec, arguments = self._config.model_arguments(self._config.encoder)
        return self._encoders.load(spec, **arguments)


class RememberingEngine(Engine):
    """An engine with a cache of answers, so that the benchmark's variants share searches.

    The key is the catalog version, the queries, the tier, `k` and the permitted tools.
    """

    @classmethod
    def over(cls, tools: Iterable[Tool], encoders: Encoders, **settings: Any) -> Self:
        """Index tools.

        Args:
            tools: a catalog.
            encoders: shared with other engines.
            settings: settings of a Config.

        Raises:
            ConfigError: a setting is wrong.
        """
        # Some of its tools are known: its figures are without their example queries.
        config = Config(**{"index": {"example_queries": ()}, **settings})
        builder = Builder(config, _SharedModels(config, encoders))
        return cls(builder, builder.begin(Catalog(tools)))

    def view(self, state: State | None = None, **options: Any) -> View:
        """A view like that of an engine, with a cache of answers."""
        made = super().view(state, **options)
        memory = self.__dict__.setdefault("_memory", {})
        return _RememberingView(made.admission, made._searcher, made.decider, memory)


class _RememberingView(View):
    """A view with a cache of answers."""

    def __init__(
        self,
        admission: Admission,
        searcher: Searcher,
        decider: Decider | None,
        memory: dict[Any, Selection],
    ) -> None:
        super().__init__(admission, searcher, decider)
        self._memory = memory

    def search_many(
        self,
        queries: Sequence[str],
        *,
        tier: str | Strategy | None = None,
        k: int | None = None,
        budget_ms: float | None = None,
    ) -> list[Selection]:
        """Search like a view, with the cache."""
        mask = None if self.admission.mask is None else self.admission.mask.tobytes()
        asked_for = self.catalog.fingerprint, tier, k, mask
        fresh = [one for one in dict.fromkeys(queries) if (one, asked_for) not in self._memory]
        if fresh:
            found = super().search_many(fresh, tier=tier, k=k, budget_ms=budget_ms)
            self._memory.update(zip(((one, asked_for) for one in fresh), found, strict=True))
        return [self._memory[one, asked_for] for one in queries]
