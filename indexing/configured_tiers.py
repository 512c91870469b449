"""Makes the strategies of the configured tiers."""

from __future__ import annotations

from .. import registry
from ..config import Config, TierConfig
from ..decision import Decider
from ..errors import ConfigError
from ..models import Reranker
from ..retrieval import Fusion, Strategy
from ..settings import DEFAULT_RERANKER, FusionConfig, RerankerConfig, model_name


def strategies(config: Config) -> dict[str, Strategy]:
    """The configured tiers by name.

    Raises:
        ConfigError: a tier's strategy or fusion does not take its settings.
    """
    return {name: _strategy(config, name, tier) for name, tier in config.tiers.items()}


def chosen_reranker(
    config: Config, reranker: str | RerankerConfig | Reranker
) -> str | RerankerConfig | Reranker:
    """The reranker of a tier: named in the tier, or the default of the configuration."""
    if reranker == DEFAULT_RERANKER:
        # A Config with such a tier has one.
        return config.reranker or reranker
    return reranker


def rerankers(config: Config) -> dict[str, str | None]:
    """Tier name to the name of its reranker; None for a tier without one."""
    return {
        name: model_name(chosen_reranker(config, tier.reranker)) if tier.reranker else None
        for name, tier in config.tiers.items()
    }


def thresholds(config: Config, decider: Decider | None) -> dict[str, float]:
    """Tier name to the score below which its hits are dropped, for tiers that have one.

    The setting of a tier wins over the threshold of a calibration.

    Args:
        config: the settings.
        decider: the calibration in use; None if the decision is off.
    """
    calibrated = {} if decider is None else decider.thresholds
    chosen = {name: tier.threshold for name, tier in config.tiers.items()}
    return calibrated | {name: score for name, score in chosen.items() if score is not None}


def _strategy(config: Config, name: str, tier: TierConfig) -> Strategy:
    factory = registry.load("strategy", tier.strategy)
    try:
        strategy: Strategy = factory(
            retrievers=tier.retrievers,
            fusion=_fusion(tier.fusion or config.fusion),
            reranker=(
                model_name(chosen_reranker(config, tier.reranker)) if tier.reranker else None
            ),
            depth=tier.depth,
            candidates=tier.candidates,
            fallback=tier.fallback,
            **tier.part_arguments(),
        )
    except TypeError as error:
        raise ConfigError(f"tiers.{name}: strategy {tier.strategy!r}: {error}") from error
    return strategy


def _fusion(settings: FusionConfig | Fusion) -> Fusion:
    if not isinstance(settings, FusionConfig):
        return settings
    factory = registry.load("fusion", settings.method)
    try:
        fusion: Fusion = factory(**settings.part_arguments())
    except (TypeError, ValueError) as error:
        raise ConfigError(f"fusion {settings.method!r}: {error}") from error
    return fusion
