"""Tables of settings: sections of a configuration, settings of registered parts, and their errors.

The settings themselves are in `config`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from reprlib import Repr
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Self, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidationInfo,
    WrapSerializer,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from . import registry
from .catalog.pattern import Pattern
from .errors import ConfigError, install_command

# Type of an error whose message is already in its final form.
_EXPLAINED = "explained"
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def _glob(text: str) -> str:
    try:
        return Pattern(text).text
    except ConfigError as error:
        raise ValueError(str(error)) from None


#: A glob as a setting, see `Pattern`.
Glob = Annotated[str, AfterValidator(_glob)]


class PartSettings(BaseModel):
    """Base class for the settings of a backend, fusion, strategy, encoder or reranker.

    A registered class names its settings in a class attribute `Settings`. The settings reach the
    class as keyword arguments: a lexical or dense index gets them in `build` and in `load`, every
    other part in its constructor.

    Example::

        class UsearchSettings(PartSettings):
            links: int = Field(default=16, ge=2)

        class UsearchIndex:
            Settings = UsearchSettings

            @classmethod
            def build(cls, vectors, *, links): ...
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    #: Settings that only a search reads. Changing one does not rebuild a saved index.
    search_only: ClassVar[frozenset[str]] = frozenset()


def part_arguments(
    kind: str, spec: str, values: Mapping[str, Any], *, section_keys: Iterable[str] = ()
) -> dict[str, Any]:
    """Validated settings of a registered part, as keyword arguments, defaults included.

    Args:
        kind: a key of `registry.BUILT_IN`.
        spec: name of the part, or the spec of a model.
        values: the given settings; they replace settings in the spec.
        section_keys: keys of the section itself, to list in a message about an unknown key.

    Raises:
        ConfigError: there is no such part.
        ValidationError: a setting is unknown or wrong; its messages are final.
    """
    resolved = registry.resolve(kind, spec)
    model = registry.settings_model(kind, resolved.name)
    values = {**resolved.settings, **values}
    fields = list(model.model_fields)
    permitted = [*fields, *section_keys]
    unknown = set(values) - set(fields) if model.model_config.get("extra") != "allow" else set()
    problems = [
        setting_error((key,), _unknown(permitted, resolved.name))
        for key in values
        if key in unknown
    ]
    try:
        validated = model.model_validate(
            {key: value for key, value in values.items() if key not in unknown}
        )
    except ValidationError as error:
        problems += setting_errors(error, permitted, resolved.name)
    if problems:
        raise ValidationError.from_exception_data(model.__name__, problems)
    return {
        **{field: getattr(validated, field) for field in fields},
        **(validated.model_extra or {}),
    }


def setting_errors(
    error: ValidationError, permitted: Iterable[str], part: str | None = None
) -> list[InitErrorDetails]:
    """The errors of a validation with complete messages.

    Args:
        error: the failed validation.
        permitted: permitted keys.
        part: registered name of the part whose settings were validated, if any.
    """
    return [
        setting_error(details["loc"], _message(details, permitted, part))
        for details in error.errors(include_url=False, include_context=False)
    ]


def setting_error(location: tuple[int | str, ...], message: str) -> InitErrorDetails:
    """An error at a location, with a complete message."""
    return InitErrorDetails(
        type=PydanticCustomError(_EXPLAINED, message), loc=tuple(location), input=None
    )


def validation_text(error: ValidationError, permitted: Iterable[str] = ()) -> str:
    """All errors in one line: `place: message; place: message`.

    Args:
        error: the failed validation.
        permitted: permitted keys, which the message for an unknown one lists.
    """
    lines = []
    for details in setting_errors(error, permitted):
        place, message = ".".join(map(str, details["loc"])), str(details["type"])
        lines.append(f"{place}: {message}" if place else message)
    return "; ".join(lines)


def _message(details: Any, permitted: Iterable[str], part: str | None) -> str:
    kind, text = details["type"], str(details["msg"])
    if kind == _EXPLAINED:
        return text
    if kind == "extra_forbidden":
        return _unknown(permitted if len(details["loc"]) == 1 else (), part)
    if kind == "value_error":
        text = text.removeprefix("Value error, ")
    elif kind == "missing":
        text = "this setting is required"
    else:
        text = f"{text[:1].lower()}{text[1:]}, not {_SHORT.repr(details['input'])}"
    return text if part is None else f"for {part}, {text}"


def _unknown(permitted: Iterable[str], part: str | None) -> str:
    listed = ", ".join(permitted)
    message = "unknown setting" if part is None else f"unknown setting of {part}"
    return f"{message}; use one of: {listed}" if listed else message


DEFAULT_RERANKER = "default"
"""Value of a tier's `reranker`: use the top-level setting `reranker`."""

RERANK_TIER = "rerank"
"""The built-in tier that exists only if the top-level setting `reranker` is set."""

RERANKER_MISSING = (
    "no reranker is set; none is bundled. Add the line "
    '`reranker = "mixedbread-ai/mxbai-rerank-xsmall-v1"`, or another cross-encoder, to the '
    "configuration. A model on the Hugging Face hub needs: " + install_command("hub")
)
"""What is wrong and what to do where a tier needs the top-level `reranker`."""

BUILT_IN_TIERS: Mapping[str, Mapping[str, Any]] = {
    "lexical": {"retrievers": ("lexical",)},
    "fast": {
        "retrievers": ("lexical", "static"),
        "fusion": {"method": "linear", "weights": {"lexical": 0.012}},
        "fallback": "lexical",
    },
    "embed": {"retrievers": ("dense",), "fallback": "fast"},
    "hybrid": {"retrievers": ("lexical", "dense"), "fallback": "fast"},
    RERANK_TIER: {
        "retrievers": ("lexical", "dense"),
        "reranker": DEFAULT_RERANKER,
        "fallback": "hybrid",
    },
}
"""Settings of the built-in tiers by name, the better behind the cheaper; see `TierConfig`."""


def offered_tiers(*, has_reranker: bool) -> dict[str, Mapping[str, Any]]:
    """Settings of the built-in tiers that a configuration has by default.

    Args:
        has_reranker: whether the top-level `reranker` is set.
    """
    return {
        name: tier for name, tier in BUILT_IN_TIERS.items() if has_reranker or name != RERANK_TIER
    }


AUTO_TIER = "auto"
"""Name that stands for the best tier that fits a request's time budget."""


_NUMBERS = frozenset({int, float})


def _kinds(annotation: Any) -> frozenset[Any]:
    """The types that a setting may have, out of a union."""
    members = (
        get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    )
    return frozenset(members)


class Section(BaseModel):
    """A table of settings. An unknown key is an error that lists the keys of the section.

    To add a section, derive a class and add a field of it to `Config`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    @model_validator(mode="wrap")
    @classmethod
    def _check_values(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        values, problems = cls._prepare(values)
        section = None
        try:
            section = handler(values)
        except ValidationError as error:
            problems += setting_errors(error, cls.model_fields)
        if section is None or problems:
            raise ValidationError.from_exception_data(cls.__name__, problems)
        return section

    @field_validator("*", mode="before")
    @classmethod
    def _check_kind(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse what would silently become a number or a truth value."""
        kinds = _kinds(cls.model_fields[info.field_name or ""].annotation)
        if isinstance(value, str) and kinds & _NUMBERS and str not in kinds:
            raise ValueError(f"a number, not the text {value!r:.80}")
        if isinstance(value, bool) and kinds & _NUMBERS and bool not in kinds:
            raise ValueError(f"a number, not {value}")
        if not isinstance(value, bool) and kinds <= {bool, NoneType} and value is not None:
            raise ValueError(f"true or false, not {value!r:.80}")
        return value

    @classmethod
    def _prepare(cls, values: Any) -> tuple[Any, list[InitErrorDetails]]:
        return values, []


class PartSection(Section):
    """A section that chooses a registered part; its other keys are the settings of that part.

    Every setting of the part is an attribute of the section, defaults included.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    #: Kind of the part in the registry, and the field that names it.
    part_kind: ClassVar[str]
    name_field: ClassVar[str]

    def part_arguments(self) -> dict[str, Any]:
        """Settings of the part, as keyword arguments."""
        return dict(self.model_extra or {})

    def saved_form(self) -> dict[str, Any]:
        """JSON form of what a saved index depends on: the part and its settings."""
        model = registry.settings_model(self.part_kind, getattr(self, self.name_field))
        search_only: frozenset[str] = getattr(model, "search_only", frozenset())
        return self.model_dump(mode="json", exclude=set(search_only))

    @classmethod
    def _prepare(cls, values: Any) -> tuple[Any, list[InitErrorDetails]]:
        if not isinstance(values, Mapping):
            return values, []
        section_values = {key: value for key, value in values.items() if key in cls.model_fields}
        part_values = {
            str(key): value for key, value in values.items() if key not in section_values
        }
        # A spec is a registered name; for encoders and rerankers also `NAME:MODEL`, see `registry`.
        spec = section_values.get(cls.name_field, cls.model_fields[cls.name_field].default)
        if not isinstance(spec, str):
            return section_values, []
        try:
            settings = part_arguments(
                cls.part_kind, spec, part_values, section_keys=cls.model_fields
            )
        except ConfigError as error:
            return section_values, [setting_error((cls.name_field,), str(error))]
        except ValidationError as error:
            return section_values, setting_errors(error, ())
        if clash := set(settings) & set(cls.model_fields):
            message = (
                f"{cls.part_kind} {spec!r}: every section has the keys {', '.join(sorted(clash))}"
            )
            return section_values, [
                setting_error((cls.name_field,), f"{message}; its settings need other names")
            ]
        # A setting in the spec itself, such as its model, becomes a key only if the table has that
        # key. The key then takes precedence.
        spec_settings = registry.resolve(cls.part_kind, spec).settings
        part_settings = {
            key: value
            for key, value in settings.items()
            if key in part_values or key not in spec_settings
        }
        return {**section_values, **part_settings}, []


class ModelSection(PartSection):
    """An encoder or a reranker with settings.

    Args:
        name: spec of the model, see `registry`; every other key is a setting of it.
    """

    name_field = "name"
    name: str

    def __str__(self) -> str:
        settings = self.model_dump(mode="json", exclude={"name"}, exclude_none=True)
        return f"{self.name} {json.dumps(settings, sort_keys=True)}" if settings else self.name


class EncoderConfig(ModelSection):
    """An encoder with settings, see `ModelSection`."""

    part_kind = "encoder"


class RerankerConfig(ModelSection):
    """A reranker with settings, see `ModelSection`."""

    part_kind = "reranker"


COMMAND_RERANKER = "command"
"""Name of the reranker that runs a shell command. No saved index may choose it."""

OBJECT_KEY = "object"
"""Key of the JSON form of a setting that is an object: `{"object": name}`."""


def object_name(value: object) -> str:
    """The name of an object that is a setting: its `name`, else that of its class."""
    name = getattr(value, "name", None)
    return name if isinstance(name, str) else type(value).__name__


def model_name(choice: object) -> str:
    """The name of an encoder or reranker in reports: its spec and settings, or its object's."""
    return str(choice) if isinstance(choice, str | ModelSection) else object_name(choice)


def _dump_object(value: Any, handler: SerializerFunctionWrapHandler) -> Any:
    is_plain = value is None or isinstance(value, str | BaseModel)
    if isinstance(value, RerankerConfig) and value.name == COMMAND_RERANKER:
        is_plain = False
    return handler(value) if is_plain else {OBJECT_KEY: object_name(value)}


#: Writes an object as `{"object": name}`, and every other setting as pydantic does.
AS_JSON_NAME = WrapSerializer(_dump_object)


def checked_model(section: type[ModelSection], protocol: type, value: Any) -> Any:
    """A checked model setting: a spec or an object unchanged, a table as a section.

    Args:
        section: section of a table.
        protocol: what an object must have.
        value: the setting.

    Raises:
        ValidationError: there is no such setting, or its value is wrong.
        ValueError: `value` is neither text nor a table nor such an object.
    """
    if isinstance(value, protocol) and not isinstance(value, type):
        return value
    if value == DEFAULT_RERANKER and section is RerankerConfig:
        return value
    if isinstance(value, str):
        section.model_validate({"name": value})
        return value
    if isinstance(value, Mapping | section):
        return section.model_validate(value)
    raise ValueError(
        f"a name, a table of `name` and settings, or an object ({protocol.__name__}.of makes one "
        f"from a function), not {type(value).__name__}"
    )


class LexicalConfig(PartSection):
    """The lexical stage.

    Args:
        backend: name of a lexical index; every other key is a setting of it (`tantivy`: boosts).
    """

    part_kind = "lexical"
    name_field = "backend"
    backend: str = "tantivy"


class DenseConfig(PartSection):
    """The dense stage.

    Args:
        backend: name of a dense index: `exact`, `hnswlib`, or `auto`, which chooses by catalog
            size; every other key is a setting of it (`hnswlib`: links, build_ef, search_ef).
    """

    part_kind = "dense"
    name_field = "backend"
    backend: str = "exact"


class FusionConfig(PartSection):
    """The fusion of several retrievers.

    Args:
        method: name of a fusion; every other key is a setting of it (`linear`: weights;
            `rrf`: k, weights).
    """

    part_kind = "fusion"
    name_field = "method"
    method: str = "linear"
