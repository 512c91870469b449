"""Everything that can be chosen, in one model, from TOML, JSON or keyword arguments."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, field_validator, model_validator

# First, because numpy then loads before the settings models: measured, 40 ms less in all.
from .catalog.text_file import read_text_file
from .errors import ConfigError
from .gating.declaration import GateSetting
from .gating.gate import Gate
from .sections import (
    BUILT_IN_TIERS,
    EncoderConfig,
    ModelSection,
    PartSection,
    RerankerConfig,
    Section,
    checked_model,
)
from .settings import joined

CONFIG_BYTES = 1 << 22
"""Bytes of a configuration file, 4 MiB."""


class LexicalConfig(PartSection):
    """The lexical stage.

    Args:
        backend: name of a lexical index; every other key is a setting of it (`tantivy`: boosts).
    """

    kind = "lexical"
    chooser = "backend"
    backend: str = "tantivy"


class DenseConfig(PartSection):
    """The dense stage.

    Args:
        backend: name of a dense index: `exact`, `hnswlib`, or `auto`, which goes by size; every
            other key is a setting of it (`hnswlib`: links, build_ef, search_ef).
    """

    kind = "dense"
    chooser = "backend"
    backend: str = "exact"


class FusionConfig(PartSection):
    """The fusion of several retrievers.

    Args:
        method: name of a fusion; every other key is a setting of it (`linear`: weights;
            `rrf`: k, weights).
    """

    kind = "fusion"
    chooser = "method"
    method: str = "linear"


EncoderChoice = Annotated[
    str | EncoderConfig, BeforeValidator(lambda value: checked_model(EncoderConfig, value))
]
RerankerChoice = Annotated[
    str | RerankerConfig, BeforeValidator(lambda value: checked_model(RerankerConfig, value))
]


class TierConfig(PartSection):
    """One tier.

    Args:
        strategy: name of a strategy class; `pipeline` is the one built in. Every key that is not
            listed here is a setting of the strategy; `pipeline` has none.
        retrievers: stages that find candidates, of `lexical`, `static` and `dense`.
        fusion: how several retrievers become one ranking; the common `fusion` when absent.
        reranker: model that reorders the best candidates, `default` for the common `reranker`; a
            name or a table, as there.
        depth: rows taken from each retriever.
        candidates: rows handed to the reranker.
        fallback: tier that takes over when a stage cannot run or the time budget is short.
    """

    kind = "strategy"
    chooser = "strategy"
    strategy: str = "pipeline"
    retrievers: tuple[str, ...] = Field(min_length=1)
    fusion: FusionConfig | None = None
    reranker: RerankerChoice | None = None
    depth: int = Field(default=100, ge=1, le=10_000)
    candidates: int = Field(default=40, ge=1, le=1_000)
    fallback: str | None = None

    @field_validator("retrievers")
    @classmethod
    def _known_retrievers(cls, stages: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := set(stages) - {"lexical", "static", "dense"}:
            raise ValueError(
                f"no retriever {', '.join(sorted(unknown))}; there are: lexical, static, dense"
            )
        return stages


class IndexConfig(Section):
    """What is indexed besides the definitions.

    Args:
        enrichments: JSON lines files of requests known to belong to tools; see
            `docs/enrichment.md`. An empty list switches enrichment off.
    """

    enrichments: tuple[Path, ...] = ()


class TrustConfig(Section):
    """Which definitions wait for an operator's approval; see `docs/trust.md`.

    Args:
        scan: whether definitions are scanned for hidden instructions.
        pins: file of accepted definitions; a tool that differs from its pin is quarantined. Read
            anew whenever an engine is made, opened or updated. It has to exist: `shortlist trust
            init` creates it.
        approved: tools that are offered whatever the scan finds: `id` for every later definition
            too, `id@fingerprint` for one definition. A changed pin still quarantines.
    """

    scan: bool = True
    pins: Path | None = None
    approved: tuple[str, ...] = ()


class SessionConfig(Section):
    """How sessions find and show tools; each setting may be given to `Engine.session` as a keyword.

    The defaults show a small catalog whole, else one line of arguments for every tool where
    `pool_tokens` have room, else lines of the servers in use and of what a turn finds.

    Args:
        tier: tier that searches; the engine's default when absent.
        k: tools offered with their definitions per turn; when absent 3 in a session with a format,
            where other tools have lines, and the engine's `k` else.
        abstain: whether a turn may offer nothing because no tool fits; see `decision`.
        cut: whether the decision also says how many tools are offered, at most `k`.
        must_offer: whether a call of a permitted tool that the model was not shown is answered
            with its definition first; False lets it pass if its arguments fit.
        active_tools: tools a conversation keeps at most.
        pinned: ids of tools that are offered from the first turn on and never dropped.
        operator: text that stands before the tools in the system prompt.
        pool: lines of the pool: `signatures`, `summaries`, or `auto`, which picks by size.
        pool_tokens: tokens of the pool and of the lines that take its place.
        in_use_tokens: how many of these may go to the servers in use.
        schema_tokens: tokens of all offered definitions together.
        turn_tokens: tokens that one turn may add, beyond its first definition in full and the
            signatures of the others; None for no bound.
        context_tokens: tokens of the model's context.
        pass_through: share of the context below which the whole catalog is shown; 0 for never.
        summaries: file of summaries that `shortlist summarize` wrote.
        events: file that events are appended to as JSON lines; or a `Recorder`.
    """

    tier: str | None = None
    k: int | None = Field(default=None, ge=1, strict=True)
    abstain: bool = True
    cut: bool = False
    must_offer: bool = True
    active_tools: int = Field(default=50, ge=1, strict=True)
    pinned: tuple[str, ...] = ()
    operator: str = ""
    pool: Literal["auto", "signatures", "summaries"] = "auto"
    pool_tokens: int = Field(default=3_000, ge=0)
    in_use_tokens: int = Field(default=2_000, ge=0)
    schema_tokens: int = Field(default=1_200, ge=0)
    turn_tokens: int | None = Field(default=600, ge=0)
    context_tokens: int = Field(default=200_000, ge=1)
    pass_through: float = Field(default=0.03, ge=0, le=1)
    summaries: Path | None = None
    events: Path | Callable[..., None] | None = None

    @model_validator(mode="after")
    def _in_use_within_pool(self) -> Self:
        if self.summaries is not None and self.pool != "summaries":
            raise ValueError(f"summaries: only pool = 'summaries' shows them, not {self.pool!r}")
        if self.in_use_tokens > self.pool_tokens:
            raise ValueError(
                f"in_use_tokens ({self.in_use_tokens}) must not exceed pool_tokens "
                f"({self.pool_tokens})"
            )
        return self

    def changed(self, settings: Mapping[str, Any]) -> Self:
        """These settings with some replaced.

        Raises:
            ConfigError: an unknown setting, or a wrong value.
        """
        if not settings:
            return self
        try:
            return type(self).model_validate({**dict(self), **settings})
        except ValidationError as error:
            raise ConfigError(f"session: {joined(error)}") from error


def _built_in_tiers() -> dict[str, TierConfig]:
    return {name: TierConfig(**tier) for name, tier in BUILT_IN_TIERS.items()}


def _chosen_tier(name: str, among: Sequence[str]) -> dict[str, Any]:
    """A built-in tier that falls back past those that were not chosen."""
    tier = dict(BUILT_IN_TIERS[name])
    while (fallback := tier.get("fallback")) is not None and fallback not in among:
        tier["fallback"] = BUILT_IN_TIERS[fallback].get("fallback")
    return tier


def _text_of_path(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


class Config(Section):
    """What an engine is made of.

    Args:
        encoder: `bundled`, `static` (tables of token vectors, see `docs/instant.md`), a bundled
            model's name, a folder, a hub name, `sentence-transformers:NAME`, or a registered name;
            or a table of such a `name` and the model's settings (`threads`).
        reranker: `features` (a weighted sum of what the stages measured), a folder or a hub name
            of a cross-encoder, or a registered name; or a table, as for `encoder`.
        threads: threads a model may use for one request, where its table does not say; None for
            the model's default.
        on_missing: what happens when the engine is made and a model that a tier names is not
            there: `error` raises, `degrade` lets the tier fall back and say why.
        lexical: the lexical stage.
        dense: the dense stage.
        fusion: how the tiers fuse, where they do not say otherwise.
        tiers: a table of tiers, added to the built-in `lexical`, `fast`, `embed`, `hybrid`,
            `rerank` or changing single settings of them; or a list of names, to offer only those.
        default_tier: tier of a request that names none.
        k: hits of a request that asks for no number.
        index: what is indexed besides the definitions.
        gate: what tools need before they may be used: a `Gate`, or its declaration.
        trust: which definitions wait for an operator's approval.
        decision: when to abstain: `bundled`, `off`, or a file that `shortlist calibrate` wrote.
        session: how sessions find and show tools.
    """

    encoder: EncoderChoice = "bundled"
    reranker: RerankerChoice = "features"
    threads: int | None = Field(default=None, ge=1)
    on_missing: Literal["error", "degrade"] = "error"
    lexical: LexicalConfig = Field(default_factory=LexicalConfig)
    dense: DenseConfig = Field(default_factory=DenseConfig)
    fusion: FusionConfig = Field(default_factory=FusionConfig)
    tiers: dict[str, TierConfig] = Field(default_factory=_built_in_tiers)
    default_tier: str = "hybrid"
    k: int = Field(default=10, ge=1)
    index: IndexConfig = IndexConfig()
    gate: GateSetting = Gate()
    trust: TrustConfig = TrustConfig()
    decision: Annotated[str, BeforeValidator(_text_of_path)] = "bundled"
    session: SessionConfig = SessionConfig()

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise ConfigError(joined(error)) from error

    @field_validator("tiers", mode="before")
    @classmethod
    def _complete_tiers(cls, tiers: Any) -> Any:
        if isinstance(tiers, list | tuple):
            if unknown := [name for name in tiers if name not in list(BUILT_IN_TIERS)]:
                raise ValueError(
                    f"no built-in tier {', '.join(map(str, unknown))}; "
                    f"there are: {', '.join(BUILT_IN_TIERS)}"
                )
            return {name: _chosen_tier(name, tiers) for name in tiers}
        if isinstance(tiers, Mapping):
            changed = {
                name: {**BUILT_IN_TIERS.get(name, {}), **tier}
                if isinstance(tier, Mapping)
                else tier
                for name, tier in tiers.items()
            }
            return {**BUILT_IN_TIERS, **changed}
        return tiers

    @model_validator(mode="before")
    @classmethod
    def _fitting_default(cls, values: Any) -> Any:
        tiers = values.get("tiers") if isinstance(values, dict) else None
        if isinstance(tiers, list | tuple) and tiers and "default_tier" not in values:
            return {**values, "default_tier": "hybrid" if "hybrid" in tiers else tiers[-1]}
        return values

    @model_validator(mode="after")
    def _names_exist(self) -> Self:
        if self.default_tier not in self.tiers:
            raise ValueError(
                f"default_tier {self.default_tier!r} is not among the tiers: {_list(self.tiers)}"
            )
        self._check_fallbacks()
        return self

    def _check_fallbacks(self) -> None:
        # A list of tiers may leave out a built-in one that another falls back to.
        known = dict.fromkeys([*self.tiers, *BUILT_IN_TIERS])
        for name in self.tiers:
            passed: list[str] = []
            step: str | None = name
            while step in self.tiers:
                if step in passed:
                    raise ValueError(f"tiers.{name}: fallbacks go round: {_list(passed)}, {step}")
                passed.append(step)
                step = self.tiers[step].fallback
            if step is not None and step not in known:
                raise ValueError(
                    f"tiers.{passed[-1]}: no tier {step!r} to fall back to; "
                    f"there are: {_list(known)}"
                )

    def encoder_arguments(self) -> tuple[str, dict[str, Any]]:
        """Spec of the encoder, and the keyword arguments to load it with."""
        return self._model_arguments(self.encoder)

    def reranker_arguments(self, choice: str | RerankerConfig) -> tuple[str, dict[str, Any]]:
        """Spec of a reranker, and the keyword arguments to load it with."""
        return self._model_arguments(choice)

    def _model_arguments(self, choice: str | ModelSection) -> tuple[str, dict[str, Any]]:
        if isinstance(choice, str):
            return choice, {"threads": self.threads}
        settings = choice.arguments()
        return choice.name, {**settings, "threads": settings.get("threads") or self.threads}

    @classmethod
    def make(cls, **settings: Any) -> Self:
        """A config from keyword arguments.

        Raises:
            ConfigError: names the setting, what is wrong and what there is instead.
        """
        return cls(**settings)

    @classmethod
    def of(cls, config: Self | None, settings: Mapping[str, Any]) -> Self:
        """The config given, or one of single settings.

        Raises:
            ConfigError: both are given, or a setting is wrong.
        """
        if config is None:
            return cls.make(**settings)
        if not isinstance(config, cls):
            raise ConfigError(f"config: a Config, not {type(config).__name__}; see Config.read")
        if settings:
            raise ConfigError(f"give a config or single settings ({', '.join(settings)}), not both")
        return config

    @classmethod
    def read(cls, source: str | Path | Mapping[str, Any]) -> Self:
        """A config from a TOML or JSON file, or from a mapping.

        Raises:
            ConfigError: the file cannot be read or parsed, or a setting is wrong.
        """
        if isinstance(source, Mapping):
            return cls.make(**source)
        if not isinstance(source, str | Path):
            raise ConfigError(f"a configuration is a path or a mapping, not {source!r:.80}")
        path = Path(source)
        try:
            text = read_text_file(path, CONFIG_BYTES, error=ConfigError)
            settings = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path}: cannot be read as a configuration: {error}") from error
        if not isinstance(settings, dict):
            raise ConfigError(f"{path}: a configuration is a table of settings")
        try:
            return cls.make(**settings)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error


def _list(names: Any) -> str:
    return ", ".join(names)
