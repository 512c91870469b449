"""Everything that can be chosen, in one model, from TOML, JSON or keyword arguments."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, Unpack

from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

# First, because numpy then loads before the settings models: measured, 40 ms less in all.
from . import registry
from .catalog.text_file import read_text_file
from .errors import ConfigError
from .gating.rules import Gate, GateSetting
from .models.hub import bundled_names
from .models.model_protocols import Encoder, Reranker
from .retrieval.backends.protocols import Fusion
from .retrieval.search.query_run import Strategy
from .settings import (
    AS_JSON_NAME,
    AUTO_TIER,
    BUILT_IN_TIERS,
    COMMAND_RERANKER,
    DEFAULT_RERANKER,
    OBJECT_KEY,
    RERANK_TIER,
    RERANKER_MISSING,
    DenseConfig,
    EncoderConfig,
    FusionConfig,
    LexicalConfig,
    ModelSection,
    PartSection,
    RerankerConfig,
    Section,
    checked_model,
    offered_tiers,
    validation_text,
)

if TYPE_CHECKING:
    from .setting_types import ConfigSettings

MAX_CONFIG_BYTES = 1 << 22
"""Bytes of a configuration file, 4 MiB."""


_PATH_SETTINGS = (
    ("abstention",),
    ("index", "example_queries"),
    ("trust", "pins"),
    ("session", "summaries"),
    ("session", "events"),
)
"""Settings that are paths."""
_MODEL_DEPTH = len(("tiers", "NAME", "reranker"))
"""Levels of tables around the name of a model."""
_NAMES_FOR_PATHS = ("library", "bundled", "off")
"""Values of settings for paths that are no paths."""

SAVED_SETTINGS = frozenset(
    {"encoder", "reranker", "lexical", "dense", "fusion", "tiers", "default_tier", "index"}
)
"""Settings that a saved index keeps. Permission rules and trust never come from an index."""


def _checked_fusion(value: Any) -> FusionConfig | Fusion:
    """A fusion unchanged, a table as a section, so that errors name its keys."""
    is_object = isinstance(value, Fusion) and not isinstance(value, type)
    return value if is_object else FusionConfig.model_validate(value)


def _checked_tier(value: Any) -> str | Strategy:
    """The name of a tier, or a strategy, unchanged."""
    if isinstance(value, str) or (isinstance(value, Strategy) and not isinstance(value, type)):
        return value
    raise ValueError(
        f"a tier's name, or a strategy with `rank(run)` and `fallback`, not {type(value).__name__}"
    )


EncoderChoice = Annotated[
    str | EncoderConfig | Encoder,
    BeforeValidator(lambda value: checked_model(EncoderConfig, Encoder, value)),
    AS_JSON_NAME,
]
RerankerChoice = Annotated[
    str | RerankerConfig | Reranker,
    BeforeValidator(lambda value: checked_model(RerankerConfig, Reranker, value)),
    AS_JSON_NAME,
]
FusionChoice = Annotated[FusionConfig | Fusion, BeforeValidator(_checked_fusion), AS_JSON_NAME]
TierChoice = Annotated[str | Strategy, BeforeValidator(_checked_tier), AS_JSON_NAME]


class TierConfig(PartSection):
    """One tier.

    Args:
        strategy: name of a strategy class: `pipeline`, or `model`, which adds a reranker to the
            tier that its setting `source` names. Every key that is not listed here is a setting
            of the strategy; `pipeline` has none.
        retrievers: stages that find candidates, of `lexical`, `static` and `dense`.
        fusion: how the rankings of several retrievers are merged; by default as in the top-level
            `fusion`.
        reranker: model that scores the best candidates again: a name, a table or an object, or
            `default` for the top-level `reranker`.
        depth: candidates taken from each retriever.
        candidates: candidates that the reranker scores.
        fallback: tier that runs instead if a stage cannot run or the time budget is too short.
        threshold: hits with a lower final score are dropped; see `docs/deciding.md`. When absent,
            the threshold of the calibration that `abstention` names, if it has one.
    """

    part_kind = "strategy"
    name_field = "strategy"
    strategy: str = "pipeline"
    retrievers: tuple[str, ...] = Field(min_length=1)
    fusion: FusionChoice | None = None
    reranker: RerankerChoice | None = None
    depth: int = Field(default=100, ge=1, le=10_000)
    candidates: int = Field(default=40, ge=1, le=1_000)
    fallback: str | None = None
    threshold: float | None = Field(default=None, allow_inf_nan=False)

    @field_validator("retrievers")
    @classmethod
    def _known_retrievers(cls, stages: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := set(stages) - {"lexical", "static", "dense"}:
            raise ValueError(
                f"no retriever {', '.join(sorted(unknown))}; use one of: lexical, static, dense"
            )
        return stages


def _with_source(tier: Any, tiers: Mapping[str, Any]) -> Any:
    """A tier of the strategy `model` with the stages of its source; any other tier unchanged.

    `Config` refuses a source that does not exist when all settings are read.
    """
    if not isinstance(tier, Mapping) or tier.get("strategy") != "model":
        return tier
    source_name = tier.get("source", "hybrid")
    source = tiers.get(source_name) if isinstance(source_name, str) else None
    if source is None or source is tier:
        source = BUILT_IN_TIERS["hybrid"]
    stages = {
        key: value
        for key, value in dict(source).items()
        if key in ("retrievers", "fusion", "depth") and value is not None
    }
    return {**stages, "fallback": source_name, **tier}


class IndexConfig(Section):
    """What is indexed besides the definitions.

    Args:
        example_queries: JSON lines files of example queries for tools, and `library` for those that
            the package has for known servers; see `docs/enrichment.md`. With an empty list, no
            example queries are used.
        backend: where the catalog is: in the `memory` of this process, or in `postgres`, see
            `docs/scale.md`.
        dsn: connection string of PostgreSQL, for the backend `postgres`. `${NAME}` stands for an
            environment variable.
        tenant: name of the tenant in the database. It has a catalog of its own.
    """

    example_queries: tuple[Literal["library"] | Path, ...] = ("library",)
    backend: Literal["memory", "postgres"] = "memory"
    dsn: str | None = None
    tenant: str = Field(default="default", min_length=1)

    @model_validator(mode="after")
    def _dsn_for_postgres(self) -> Self:
        if self.backend == "postgres" and not self.dsn:
            raise ValueError('backend "postgres" needs a `dsn`, such as "${SHORTLIST_DSN}"')
        if self.backend != "postgres" and (self.dsn is not None or self.tenant != "default"):
            raise ValueError('dsn and tenant need the backend "postgres"')
        return self

    @property
    def is_shared(self) -> bool:
        """Whether other engines may read and change the same catalog."""
        return self.backend != "memory"


class TrustConfig(Section):
    """Which definitions wait for an operator's approval; see `docs/trust.md`.

    Args:
        scan: whether definitions are scanned for hidden instructions.
        pins: file of accepted definitions; a tool that differs from its pin is quarantined. It is
            read again whenever an engine is made, opened or updated. It must exist: `shortlist
            trust init` creates it.
        approved: tools that the scan never quarantines: `id` for every definition of the tool,
            `id@fingerprint` for one definition. A definition that differs from its pin is still
            quarantined.
    """

    scan: bool = True
    pins: Path | None = None
    approved: tuple[str, ...] = ()


class SessionConfig(Section):
    """How sessions find and show tools; each setting may be given to `Engine.session` as a keyword.

    By default, a small catalog is shown whole. A larger one is shown as one line for each tool, if
    these fit in `pool_tokens`. Otherwise only tools found and servers in use have lines.

    Args:
        tier: tier that searches: a name or a strategy object; the engine's default when absent.
        k: tools offered with their definitions per turn. When absent: 3 where other tools can be
            called by a line, otherwise the engine's `k`.
        abstain: whether a turn may offer nothing because no tool fits; see `abstention`.
        must_offer: whether the first call of a tool that the model has not read is answered with
            the tool's definition. False lets the call pass if its arguments fit.
        pinned: ids of tools that are offered from the first turn on.
        instructions: text before the tools in the system prompt.
        pool_tokens: token budget of the lines of all tools; in larger catalogs, of the lines of
            tools found.
        turn_tokens: token budget of the definitions that one turn adds to the conversation.
        list_tokens: token budget of the definitions in the provider's list, with `tools="list"`.
        context_tokens: size of the model's context window in tokens.
        pass_through: the whole catalog is shown if it takes less than this share of the context;
            0 for never.
        summaries: file of your own summaries: JSON of id to summary, or JSON lines; see
            `docs/loading.md`.
        events: file that events are appended to as JSON lines; or a `Recorder`.
    """

    tier: TierChoice | None = None
    k: int | None = Field(default=None, ge=1, strict=True)
    abstain: bool = True
    must_offer: bool = True
    pinned: tuple[str, ...] = ()
    instructions: str = ""
    pool_tokens: int = Field(default=3_000, ge=0)
    turn_tokens: int = Field(default=400, ge=0)
    list_tokens: int = Field(default=2_000, ge=0)
    context_tokens: int = Field(default=200_000, ge=1)
    pass_through: float = Field(default=0.03, ge=0, le=1)
    summaries: Path | None = None
    events: Path | Callable[..., None] | None = None

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
            raise ConfigError(f"session: {validation_text(error)}") from error


def _default_tiers() -> dict[str, TierConfig]:
    """The built-in tiers without a reranker. Validation adds `rerank` if one is set."""
    return {name: TierConfig(**tier) for name, tier in offered_tiers(has_reranker=False).items()}


def _chosen_tier(name: str, among: Sequence[str]) -> dict[str, Any]:
    """A built-in tier that falls back past those that were not chosen."""
    tier = dict(BUILT_IN_TIERS[name])
    while (fallback := tier.get("fallback")) is not None and fallback not in among:
        tier["fallback"] = BUILT_IN_TIERS[fallback].get("fallback")
    return tier


def _text_of_path(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


class Config(Section):
    """All settings of an engine.

    Args:
        encoder: `bundled`, `static` (tables of token vectors, see `docs/speed.md`), a bundled
            model's name, a folder, a hub name, `sentence-transformers:NAME`, or a registered name;
            or a table of such a `name` and the model's settings (`threads`); or an object, such as
            `Encoder.of(function, dim=384, name="mine-1")`.
        reranker: model of the tier `rerank`, which exists only if this is set: a folder or a hub
            name of a cross-encoder, `sentence-transformers:NAME`, or a registered name; or a table
            or an object, as for `encoder`. None is bundled.
        threads: threads that a model may use for one query, unless its table sets `threads`; None
            for the model's default.
        on_missing: what happens if a model that a tier names is missing when the engine is made:
            `error` raises, `degrade` lets the tier fall back and report the reason.
        lexical: the lexical stage.
        dense: the dense stage.
        fusion: how rankings are merged in tiers that do not set `fusion`: a table, or an object
            with the method `fuse`.
        tiers: a table of tiers, which adds tiers or changes single settings of the built-in
            `lexical`, `fast`, `embed`, `hybrid` and, with a `reranker`, `rerank`; or a list of
            names, to offer only those.
        default_tier: tier of a search that names none; `auto` for the best that fits its budget.
        k: number of hits of a search that names none.
        index: what is indexed besides the definitions.
        gate: permission rules: a `Gate`, or its table.
        trust: which definitions are quarantined.
        abstention: when to abstain: `bundled`, `off`, or a file that `shortlist calibrate` wrote.
        abstention_loss: share of the queries with a right tool that may get none, 0 to 1: the more,
            the more of the other queries get none. None for the limit of the calibration.
        session: how sessions find and show tools.

    Example:
        >>> from shortlist import Config
        >>> Config(tiers=["lexical"], k=5).default_tier
        'lexical'
    """

    encoder: EncoderChoice = "bundled"
    reranker: RerankerChoice | None = None
    threads: int | None = Field(default=None, ge=1)
    on_missing: Literal["error", "degrade"] = "error"
    lexical: LexicalConfig = Field(default_factory=LexicalConfig)
    dense: DenseConfig = Field(default_factory=DenseConfig)
    fusion: FusionChoice = Field(default_factory=FusionConfig)
    tiers: dict[str, TierConfig] = Field(default_factory=_default_tiers, validate_default=True)
    default_tier: str = "hybrid"
    k: int = Field(default=10, ge=1)
    index: IndexConfig = IndexConfig()
    gate: GateSetting = Gate()
    trust: TrustConfig = TrustConfig()
    abstention: Annotated[str, BeforeValidator(_text_of_path)] = "bundled"
    abstention_loss: float | None = Field(default=None, ge=0, le=1)
    session: SessionConfig = SessionConfig()

    _given: dict[str, Any] = PrivateAttr(default_factory=dict)
    """The settings as they were given, from which `changed` makes another config."""

    def __init__(self, **settings: Unpack[ConfigSettings]) -> None:
        values: dict[str, Any] = {**settings}
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ConfigError(validation_text(error)) from error
        self._given = values

    def __repr__(self) -> str:
        settings = (f"{name}={value!r:.80}" for name, value in self._given.items())
        return f"Config({', '.join(settings)})"

    def __eq__(self, other: object) -> bool:
        # However the settings were given.
        return isinstance(other, Config) and dict(self) == dict(other)

    @field_validator("tiers", mode="before")
    @classmethod
    def _complete_tiers(cls, tiers: Any, info: ValidationInfo) -> Any:
        # A reranker whose setting is wrong is not among the data.
        has_reranker = info.data.get("reranker", DEFAULT_RERANKER) is not None
        if isinstance(tiers, list | tuple):
            if unknown := [name for name in tiers if name not in list(BUILT_IN_TIERS)]:
                raise ValueError(
                    f"no built-in tier {', '.join(map(str, unknown))}; "
                    f"use one of: {', '.join(BUILT_IN_TIERS)}"
                )
            return {name: _chosen_tier(name, tiers) for name in tiers}
        if isinstance(tiers, Mapping):
            changed = {
                name: {**BUILT_IN_TIERS.get(name, {}), **tier}
                if isinstance(tier, Mapping)
                else tier
                for name, tier in tiers.items()
            }
            all_tiers = {**offered_tiers(has_reranker=has_reranker), **changed}
            return {name: _with_source(tier, all_tiers) for name, tier in all_tiers.items()}
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
        self._check_names()
        return self

    def _check_names(self) -> None:
        if self.index.backend == "postgres":
            for name, section in (("lexical", self.lexical), ("dense", self.dense)):
                if section.backend != type(section).model_fields["backend"].default:
                    raise ValueError(
                        f"{name}.backend: with index.backend 'postgres' the database searches; "
                        "remove this line"
                    )
        auto = self.default_tier == AUTO_TIER and not self.tiers.keys().isdisjoint(BUILT_IN_TIERS)
        if self.default_tier not in self.tiers and not auto:
            raise ValueError(
                f"default_tier {self.default_tier!r} is not among the tiers: {_list(self.tiers)}"
                f"{self._hint(self.default_tier)}"
            )
        for name, tier in self.tiers.items():
            if tier.strategy == "model":
                self._check_source(name, tier)
            if tier.reranker == DEFAULT_RERANKER and not self.has_reranker:
                raise ValueError(f"tiers.{name}: {RERANKER_MISSING}")
        self._check_fallbacks()

    def _check_fallbacks(self) -> None:
        # A list of tiers may leave out a built-in one that another falls back to.
        known = dict.fromkeys([*self.tiers, *offered_tiers(has_reranker=self.has_reranker)])
        for name in self.tiers:
            passed: list[str] = []
            step: str | None = name
            while step in self.tiers:
                if step in passed:
                    raise ValueError(
                        f"tiers.{name}: the fallbacks form a cycle: {_list(passed)}, {step}"
                    )
                passed.append(step)
                step = self.tiers[step].fallback
            if step is not None and step not in known:
                raise ValueError(
                    f"tiers.{passed[-1]}: no tier {step!r} to fall back to; "
                    f"use one of: {_list(known)}{self._hint(step)}"
                )

    def _hint(self, missing: str) -> str:
        """What to do where a tier is missing because no reranker is set."""
        return (
            f". {RERANK_TIER}: {RERANKER_MISSING}"
            if missing == RERANK_TIER and not self.has_reranker
            else ""
        )

    def _check_source(self, name: str, tier: TierConfig) -> None:
        source = tier.part_arguments()["source"]
        usable = [other for other, values in self.tiers.items() if values.reranker is None]
        if source not in usable:
            raise ValueError(
                f"tiers.{name}.source: no tier {source!r:.80} without a reranker; use one of: "
                f"{_list(other for other in usable if other != name)}"
            )
        if tier.reranker is None:
            raise ValueError(
                f"tiers.{name}.reranker: the strategy `model` needs one, such as "
                '{name = "command", command = "llm -m MODEL"}'
            )

    @property
    def has_reranker(self) -> bool:
        """Whether the setting `reranker` is set, which the tier `rerank` needs."""
        return self.reranker is not None

    def settings_to_save(self) -> dict[str, Any]:
        """The settings of `SAVED_SETTINGS` that were set, which a saved index keeps; JSON form.

        Example:
            >>> from shortlist import Config
            >>> Config(encoder="static", k=5).settings_to_save()
            {'encoder': 'static'}
        """
        values = self.model_dump(mode="json", include=self.model_fields_set & SAVED_SETTINGS)
        if "index" in values:
            values["index"]["example_queries"] = [
                str(name) if name == "library" else str(Path(name).absolute())
                for name in self.index.example_queries
            ]
        return values

    def merged_with_saved(self, saved: Mapping[str, Any]) -> tuple[Self, tuple[str, ...]]:
        """These settings over those of a saved index, and the names of saved ones they replace.

        Args:
            saved: the result of `settings_to_save`.

        Raises:
            ConfigError: the settings do not go together.

        Example:
            >>> from shortlist import Config
            >>> saved = Config(tiers=["lexical"]).settings_to_save()
            >>> config, replaced = Config(k=5).merged_with_saved(saved)
            >>> list(config.tiers), config.k, replaced
            (['lexical'], 5, ())
        """
        own = self.model_fields_set & SAVED_SETTINGS
        _check_objects({name: value for name, value in saved.items() if name not in own})
        kept = {name: value for name, value in saved.items() if name not in own}
        if "tiers" in own:
            kept.pop("default_tier", None)
        current = self.settings_to_save()
        replaced = tuple(
            name for name in sorted(own) if name in saved and saved[name] != current[name]
        )
        if not kept:
            return self, replaced
        values = {name: getattr(self, name) for name in self.model_fields_set} | kept
        try:
            if "tiers" in kept:
                values["tiers"] = {name: TierConfig(**tier) for name, tier in kept["tiers"].items()}
            made = type(self)(**values)
        except ValidationError as error:
            raise ConfigError(f"settings of the saved index: {validation_text(error)}") from error
        if "tiers" in values:
            # Just these, also where fewer than the built-in ones were chosen.
            made = made.model_copy(update={"tiers": values["tiers"]})
            try:
                made._check_names()
            except ValueError as error:
                raise ConfigError(f"settings of the saved index: {error}") from None
        return made, replaced

    def model_arguments(
        self, choice: str | ModelSection | Encoder | Reranker
    ) -> tuple[str, dict[str, Any]]:
        """The name of an encoder or a reranker, and the keyword arguments to load it.

        Args:
            choice: the setting `encoder`, or a reranker of a tier.

        Raises:
            ConfigError: it is an object, which cannot be loaded by name.

        Example:
            >>> from shortlist import Config
            >>> config = Config(threads=2)
            >>> config.model_arguments(config.encoder)
            ('bundled', {'threads': 2})
        """
        if isinstance(choice, str):
            return choice, {"threads": self.threads}
        if not isinstance(choice, ModelSection):
            raise ConfigError(f"{choice!r:.200}: an object cannot be loaded by name")
        settings = choice.part_arguments()
        return choice.name, {**settings, "threads": settings.get("threads") or self.threads}

    @classmethod
    def of(cls, config: Self | None, settings: Mapping[str, Any]) -> Self:
        """A config with single settings in place of its own.

        Args:
            config: the config; the defaults when absent.
            settings: single settings. A table takes the place of the whole table.

        Raises:
            ConfigError: a setting is wrong.

        Example:
            >>> from shortlist import Config
            >>> config = Config.of(Config(tiers=["lexical"]), {"k": 5})
            >>> list(config.tiers), config.k
            (['lexical'], 5)
        """
        if config is None:
            return cls(**settings)
        if not isinstance(config, cls):
            raise ConfigError(f"config: a Config, not {type(config).__name__}; see Config.read")
        return cls(**{**config._given, **settings}) if settings else config

    @classmethod
    def read(cls, source: str | Path | Mapping[str, Any]) -> Self:
        """A config from a TOML or JSON file, or from a mapping.

        Paths in a file are relative to its folder; those of a mapping to the working directory.

        Raises:
            ConfigError: the file cannot be read or parsed, or a setting is wrong.

        Example:
            >>> from shortlist import Config
            >>> Config.read({"tiers": ["lexical"], "k": 5}).k
            5
        """
        if isinstance(source, Mapping):
            return cls(**source)
        if not isinstance(source, str | Path):
            raise ConfigError(f"a configuration is a path or a mapping, not {source!r:.80}")
        path = Path(source)
        try:
            text = read_text_file(path, MAX_CONFIG_BYTES, error=ConfigError)
            settings = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path}: cannot be read as a configuration: {error}") from error
        if not isinstance(settings, dict):
            raise ConfigError(f"{path}: a configuration is a table of settings")
        try:
            return cls(**resolve_paths(settings, path.absolute().parent))
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error


def resolve_paths(settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Settings of a file, with relative paths taken from the folder of the file.

    A model is a path if its name starts with a dot, or if it is a folder there.

    Args:
        settings: the settings as the file has them. Values of a wrong type stay as they are.
        folder: the folder of the file.

    Example:
        >>> from pathlib import Path
        >>> from shortlist.config import resolve_paths
        >>> resolve_paths({"abstention": "bundled", "trust": {"pins": "pins.json"}}, Path("/tools"))
        {'abstention': 'bundled', 'trust': {'pins': '/tools/pins.json'}}
    """

    def from_folder(path: str) -> str:
        return str(folder / Path(path).expanduser())

    def model(kind: str, spec: str) -> str:
        name = registry.resolve(kind, spec).settings.get("model", "")
        if not name or name in bundled_names():
            return spec
        is_path = name.startswith(".") or Path(from_folder(name)).is_dir()
        return spec.removesuffix(name) + from_folder(name) if is_path else spec

    def resolved(value: Any, place: tuple[Any, ...]) -> Any:
        if isinstance(value, Mapping) and len(place) <= _MODEL_DEPTH:
            return {key: resolved(inner, (*place, key)) for key, inner in value.items()}
        if isinstance(value, list) and place == ("index", "example_queries"):
            return [resolved(inner, place) for inner in value]
        if not isinstance(value, str):
            return value
        if place in _PATH_SETTINGS:
            return value if value in _NAMES_FOR_PATHS else from_folder(value)
        of_tier = place[2:] if place[0] == "tiers" else ()
        kind, *key = of_tier if of_tier[:1] == ("reranker",) else place
        is_model = kind in registry.MODEL_KINDS and key in ([], ["name"], ["model"])
        return model(kind, value) if is_model else value

    return {name: resolved(value, (name,)) for name, value in settings.items()}


def _check_objects(saved: Mapping[str, Any]) -> None:
    """Refuse saved settings that were objects: only the caller has those.

    Raises:
        ConfigError: names the setting and the object.
    """
    waiting: list[tuple[str, Any]] = list(saved.items())
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, Mapping):
            if value.get("name") == COMMAND_RERANKER:
                raise ConfigError(
                    f"{place}: the saved index names a command, and only you may choose what runs; "
                    "pass the setting yourself"
                )
            if value.keys() == {OBJECT_KEY}:
                setting = place.partition(".")[0]
                raise ConfigError(
                    f"{place}: the index was saved with the object {value[OBJECT_KEY]!r:.200}; "
                    f"pass it again, {setting}=..., or another setting in its place"
                )
            waiting += [(f"{place}.{name}", inner) for name, inner in value.items()]


def _list(names: Any) -> str:
    return ", ".join(names)
