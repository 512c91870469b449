"""Settings of registered parts: pydantic models, and errors that list what exists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from reprlib import Repr
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from .catalog.pattern import Pattern
from .errors import ConfigError

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


class NoSettings(PartSettings):
    """The settings model of a part without settings."""


def read_settings(
    model: type[BaseModel],
    values: Mapping[str, Any],
    *,
    part: str,
    section_keys: Iterable[str] = (),
) -> dict[str, Any]:
    """The validated value of every setting, defaults included.

    Args:
        model: the part's settings model.
        values: the given settings.
        part: registered name of the part, for messages.
        section_keys: further keys that the section permits, to list in messages.

    Raises:
        ValidationError: a key is unknown or a value is wrong. Its messages are complete.
    """
    fields = list(model.model_fields)
    unknown = set(values) - set(fields) if model.model_config.get("extra") != "allow" else set()
    problems = [
        setting_error((key,), _unknown([*fields, *section_keys], part))
        for key in values
        if key in unknown
    ]
    try:
        validated = model.model_validate(
            {key: value for key, value in values.items() if key not in unknown}
        )
    except ValidationError as error:
        problems += setting_errors(error, [*fields, *section_keys], part)
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
