"""Loads encoders and rerankers by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from .. import registry
from ..errors import ConfigError
from ..settings import part_arguments, validation_text
from .hub import WEIGHTS_FOLDER, find_model_files
from .model_protocols import Encoder, Reranker

if TYPE_CHECKING:
    from .static_encoder import StaticEncoder

DEFAULT_ENCODER = "shortlist-embed"
"""The bundled encoder that ``bundled`` means."""

STATIC_TABLES = "shortlist-static"
"""Folder of the tables of `static_encoder`."""


def load_encoder(spec: str = "bundled", *, threads: int | None = None, **settings: Any) -> Encoder:
    """Load an encoder by name.

    Args:
        spec: ``bundled``; ``multilingual`` for the same with a second model for queries in other
            languages; ``static`` for tables of token vectors, without ONNX Runtime; the name of a
            bundled model; a local folder; ``org/name`` on the Hugging Face hub;
            ``sentence-transformers:NAME`` for any model that library loads; or the name of an entry
            point in the group ``shortlist.encoder``.
        threads: CPU threads for one call, if the encoder has that setting; by default two, or one
            on a single-core machine.
        settings: further settings of the encoder.

    Raises:
        ConfigError: a setting is unknown or wrong.
        ModelError: there is no such model, or it cannot be downloaded or run.
        MissingExtraError: the spec needs an optional dependency that is not installed.
    """
    encoder: Encoder = _load("encoder", spec, threads, settings)
    return encoder


def load_reranker(spec: str, *, threads: int | None = None, **settings: Any) -> Reranker:
    """Load a reranker by name.

    Args:
        spec: the name of a bundled cross-encoder; a local folder; ``org/name`` on the Hugging Face
            hub; ``sentence-transformers:NAME`` for any cross-encoder that library loads; or the
            name of an entry point in the group ``shortlist.reranker``.
        threads: CPU threads for one call, if the reranker has that setting; by default two, or one
            on a single-core machine.
        settings: further settings of the reranker.

    Raises:
        ConfigError: a setting is unknown or wrong.
        ModelError: there is no such model, or it cannot be downloaded or run.
        MissingExtraError: the spec needs an optional dependency that is not installed.
    """
    reranker: Reranker = _load("reranker", spec, threads, settings)
    return reranker


def check_model(kind: str, spec: str, **settings: Any) -> bool:
    """Find a model's files without loading it.

    Args:
        kind: `encoder` or `reranker`.
        spec: as for `load_encoder`. Files of a hub model are downloaded if they are not cached.
        settings: settings of the model.

    Returns:
        Whether the files exist; False if only loading the model can tell.

    Raises:
        ModelError: there is no such model, or it cannot be downloaded.
        MissingExtraError: the spec needs an optional dependency that is not installed.
    """
    resolved = registry.resolve(kind, spec)
    model = {**resolved.settings, **settings}.get("model")
    if resolved.name != "onnx" or model is None:
        return False
    find_model_files(model, kind)
    return True


def bundled_encoder(threads: int | None = None) -> Encoder:
    """The encoder that ships with the package."""
    return onnx_encoder(DEFAULT_ENCODER, threads)


def multilingual_encoder(threads: int | None = None) -> Encoder:
    """The bundled encoder with a second model for queries in other languages.

    Raises:
        MissingExtraError: the extra `multilingual` is not installed.
    """
    from .multilingual import MultilingualEncoder

    return MultilingualEncoder(bundled_encoder(threads))


@cache
def static_encoder() -> StaticEncoder:
    """The tables of token vectors that ship with the package; one for the whole process.

    Raises:
        ModelError: a file is missing or damaged.
    """
    from .static_encoder import StaticEncoder

    return StaticEncoder(WEIGHTS_FOLDER / STATIC_TABLES, WEIGHTS_FOLDER / DEFAULT_ENCODER)


def onnx_encoder(model: str, threads: int | None = None) -> Encoder:
    """An encoder on ONNX Runtime: a bundled name, a folder, or ``org/name`` on the hub."""
    from .onnx_models import OnnxEncoder

    return OnnxEncoder(find_model_files(model, "encoder"), threads=threads)


def onnx_reranker(model: str, threads: int | None = None) -> Reranker:
    """A reranker on ONNX Runtime: a bundled name, a folder, or ``org/name`` on the hub."""
    from .onnx_models import OnnxReranker

    return OnnxReranker(find_model_files(model, "reranker"), threads=threads)


def _load(kind: str, spec: str, threads: int | None, values: Mapping[str, Any]) -> Any:
    """The encoder or reranker of a spec; `load_encoder` says what is raised."""
    name = registry.resolve(kind, spec).name
    try:
        settings = part_arguments(kind, spec, values)
    except ValidationError as error:
        raise ConfigError(f"{kind} {spec!r}: {validation_text(error)}") from error
    if "threads" in settings and settings["threads"] is None:
        settings["threads"] = threads
    try:
        return registry.load(kind, name)(**settings)
    except TypeError as error:
        raise ConfigError(f"{kind} {spec!r}: cannot be made of its settings: {error}") from error
