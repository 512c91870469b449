"""The models of a configuration: checked early, loaded once, with a guard for failures."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

from ..config import Config
from ..errors import ConfigError, MissingExtraError, ModelError
from ..models import DEFAULT_ENCODER, Encoder, Reranker, load_encoder, load_reranker
from ..models.checked_models import CheckedEncoder, CheckedReranker
from ..models.loading import check_model
from ..models.picking_reranker import PickingReranker
from ..retrieval.search.stage_guard import Guard
from ..settings import (
    COMMAND_RERANKER,
    OBJECT_KEY,
    EncoderConfig,
    RerankerConfig,
    Section,
    model_name,
)
from .configured_tiers import chosen_reranker


class StageModels:
    """Encoder and rerankers of an engine; loads each on its first use, from any thread.

    Every answer of theirs is checked.

    Args:
        config: the settings, which name the models.

    Attributes:
        guards: name of a reranker to the guard that records its failures.
        encoder_guard: guard of the encoder.
        missing_stages: stage to why it is left out, if `on_missing` is "degrade".

    Raises:
        ModelError: a model that a tier names is missing, unless `on_missing` is "degrade".
        MissingExtraError: the optional dependency of a model is missing, unless `on_missing` is
            "degrade".
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._loaded: dict[str, Any] = {}
        self._lock = Lock()
        chosen = [
            chosen_reranker(config, tier.reranker)
            for tier in config.tiers.values()
            if tier.reranker
        ]
        self._rerankers = {
            model_name(reranker): reranker for reranker in sorted(chosen, key=model_name)
        }
        for reranker in chosen:
            name = model_name(reranker)
            if self._rerankers[name] is not reranker and not isinstance(reranker, str | Section):
                raise ConfigError(f"reranker: two objects have the name {name!r}; give them others")
        self.guards = {name: Guard() for name in self._rerankers}
        self.encoder_guard = Guard()
        self.missing_stages: dict[str, Exception] = {}
        self._check()

    def encoder(self) -> Encoder:
        """The encoder of the dense stage."""
        encoder: Encoder = self._model(
            "encoder", lambda: CheckedEncoder(self._configured_encoder())
        )
        return encoder

    @property
    def encoder_is_bundled(self) -> bool:
        """Whether the encoder is the one that the static tables were trained for."""
        return self.encoder_spec in ("bundled", "multilingual", DEFAULT_ENCODER)

    @property
    def encoder_spec(self) -> str:
        """Name of the encoder in the configuration; `object` for an object."""
        choice = self._config.encoder
        if not isinstance(choice, str | EncoderConfig):
            return OBJECT_KEY
        return self._config.model_arguments(choice)[0]

    def reranker(self, name: str) -> Reranker:
        """A reranker that a tier names."""
        reranker: Reranker = self._model(
            f"reranker {name}", lambda: CheckedReranker(self._configured_reranker(name))
        )
        return reranker

    def picks_from_all(self, name: str) -> bool:
        """Whether a reranker picks from all candidates at once; see `PickingReranker`."""
        choice = self._rerankers[name]
        if not isinstance(choice, str | RerankerConfig):
            return isinstance(choice, PickingReranker)
        return isinstance(choice, RerankerConfig) and choice.name == COMMAND_RERANKER

    def _configured_encoder(self) -> Encoder:
        choice = self._config.encoder
        if not isinstance(choice, str | EncoderConfig):
            return choice
        spec, arguments = self._config.model_arguments(choice)
        return load_encoder(spec, **arguments)

    def _configured_reranker(self, name: str) -> Reranker:
        choice = self._rerankers[name]
        if not isinstance(choice, str | RerankerConfig):
            return choice
        spec, arguments = self._config.model_arguments(choice)
        return load_reranker(spec, **arguments)

    def _check(self) -> None:
        """Check every model that a tier names, before the first search."""
        degrade = self._config.on_missing == "degrade"
        for name, choice in self._rerankers.items():
            if not isinstance(choice, str | RerankerConfig):
                continue
            spec, settings = self._config.model_arguments(choice)
            try:
                if not check_model("reranker", spec, **settings):
                    self.reranker(name)
            except (ModelError, MissingExtraError) as error:
                if not degrade:
                    raise _with_advice(f"reranker {spec!r}", error) from error
                self.guards[name].note_failure(error)
        needs_encoder = any("dense" in tier.retrievers for tier in self._config.tiers.values())
        if needs_encoder and degrade:
            try:
                self.encoder()
            except (ModelError, MissingExtraError) as error:
                # Without an encoder there are no vectors, so the tiers go without the stage.
                self.missing_stages["dense"] = error

    def _model(self, key: str, load: Callable[[], Any]) -> Any:
        with self._lock:
            if key not in self._loaded:
                self._loaded[key] = load()
            return self._loaded[key]


def _with_advice(subject: str, error: ModelError | MissingExtraError) -> Exception:
    """The error, with the setting that permits searches without the model."""
    if isinstance(error, MissingExtraError):
        return error
    return ModelError(f'{subject}: {error}; or set on_missing = "degrade" to search without it')
