"""Every backend, fusion, strategy, reranker, encoder and predicate, found by kind and name.

To add a part, write one file with a class and add one entry: here, in `BUILT_IN`, or from another
package through an entry point of the group `shortlist.KIND`. For instance a dense index::

    # my_package/index.py
    from pydantic import Field
    from shortlist.settings import PartSettings

    class UsearchSettings(PartSettings):
        links: int = Field(default=16, ge=2)

    class UsearchIndex:
        Settings = UsearchSettings

        @classmethod
        def build(cls, vectors, *, links): ...

    # pyproject.toml of my_package
    [project.entry-points."shortlist.dense"]
    usearch = "my_package.index:UsearchIndex"

    # the user's configuration
    [dense]
    backend = "usearch"
    links = 32

A class without `Settings` takes no settings. Reading a configuration imports the chosen class, so
its file should import heavy libraries only where it uses them. `PartSettings` says how settings
reach the class.

Encoders and rerankers are named by a spec:

- a registered name, such as `bundled` or `static`;
- `NAME:MODEL`, a registered name and its setting `model`, such as `sentence-transformers:NAME`;
- anything else is a model for ONNX Runtime: the name of a bundled model, a folder, or `org/name` on
  the Hugging Face hub. It means the part `onnx` with that `model`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from .errors import ConfigError


class Part(NamedTuple):
    """A built-in part.

    Attributes:
        target: `module:name` of the class or factory.
        settings: `module:name` of its settings model, where importing the class is slow; otherwise
            the class has an attribute `Settings`.
    """

    target: str
    settings: str | None = None


class ResolvedSpec(NamedTuple):
    """What a spec names.

    Attributes:
        name: registered name of the part, which may be unknown.
        settings: the settings in the spec itself: `model`, or none.
    """

    name: str
    settings: dict[str, str]


class NoSettings(BaseModel):
    """The settings model of a part without settings."""

    model_config = ConfigDict(extra="forbid", frozen=True)


_NO_SETTINGS = "shortlist.registry:NoSettings"
_MODEL_SETTINGS = "shortlist.models.model_settings:NamedModelSettings"

BUILT_IN: Mapping[str, Mapping[str, Part]] = {
    "lexical": {
        "tantivy": Part(
            "shortlist.retrieval.backends.tantivy:TantivyIndex",
            "shortlist.retrieval.backends.tantivy_settings:TantivySettings",
        )
    },
    "dense": {
        "exact": Part("shortlist.retrieval.backends.exact:ExactIndex", _NO_SETTINGS),
        "hnswlib": Part("shortlist.retrieval.backends.hnsw:HnswIndex"),
        "auto": Part("shortlist.retrieval.backends.auto:AutoIndex", _NO_SETTINGS),
    },
    "fusion": {
        "linear": Part("shortlist.retrieval.search.fusion:LinearFusion"),
        "rrf": Part("shortlist.retrieval.search.fusion:ReciprocalRankFusion"),
    },
    # The keys that every tier has are fields of TierConfig.
    "strategy": {
        "pipeline": Part("shortlist.retrieval.search.strategy:Pipeline", _NO_SETTINGS),
        "model": Part("shortlist.retrieval.search.strategy:ModelPick"),
    },
    "reranker": {
        "onnx": Part("shortlist.models.loading:onnx_reranker", _MODEL_SETTINGS),
        "sentence-transformers": Part(
            "shortlist.models.sentence_transformers:SentenceTransformersReranker", _MODEL_SETTINGS
        ),
        "command": Part("shortlist.models.picking_reranker:CommandReranker"),
    },
    "encoder": {
        "bundled": Part(
            "shortlist.models.loading:bundled_encoder",
            "shortlist.models.model_settings:ThreadSettings",
        ),
        "multilingual": Part(
            "shortlist.models.loading:multilingual_encoder",
            "shortlist.models.model_settings:ThreadSettings",
        ),
        "static": Part("shortlist.models.loading:static_encoder", _NO_SETTINGS),
        "onnx": Part("shortlist.models.loading:onnx_encoder", _MODEL_SETTINGS),
        "sentence-transformers": Part(
            "shortlist.models.sentence_transformers:SentenceTransformersEncoder", _MODEL_SETTINGS
        ),
    },
    # Functions of a State that rules of the gate may name; none is built in.
    "predicate": {},
}
#: Kinds whose parts are named by a spec.
MODEL_KINDS = ("encoder", "reranker")
_ANY_MODEL = "onnx"


@cache
def _registered(kind: str) -> Mapping[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"shortlist.{kind}")}


def names(kind: str) -> tuple[str, ...]:
    """Names that `load` knows for a kind, built in first."""
    return tuple(dict.fromkeys([*BUILT_IN[kind], *sorted(_registered(kind))]))


def load(kind: str, name: str) -> Any:
    """The class or factory registered under a name.

    Args:
        kind: a key of `BUILT_IN`.
        name: as written in the configuration.

    Raises:
        ConfigError: there is no part of that name, or it cannot be imported.
        MissingExtraError: it needs an optional dependency.
    """
    if name in BUILT_IN[kind]:
        return _imported(BUILT_IN[kind][name].target)
    point = _registered(kind).get(name)
    if point is None:
        raise ConfigError(
            f"no {kind} backend {name!r}; use one of: {', '.join(names(kind))}. "
            f"Packages add others through the entry point group 'shortlist.{kind}'"
        )
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"{kind} backend {name!r} is registered as {point.value!r} but cannot be loaded: "
            f"{error}"
        ) from error


def settings_model(kind: str, name: str) -> type[BaseModel]:
    """The settings model of a part; `NoSettings` for a part that declares none.

    Raises:
        ConfigError: as for `load`, or the part's `Settings` is not a pydantic model.
    """
    part = BUILT_IN[kind].get(name)
    if part is not None and part.settings is not None:
        model = _imported(part.settings)
    else:
        model = getattr(load(kind, name), "Settings", NoSettings)
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise ConfigError(f"{kind} backend {name!r}: its Settings is no pydantic model: {model!r}")
    return model


def resolve(kind: str, spec: str) -> ResolvedSpec:
    """The registered name of a spec, and the settings in the spec itself.

    For kinds without specs, the name itself, which may be unknown.
    """
    if kind not in MODEL_KINDS or (spec != _ANY_MODEL and _is_known(kind, spec)):
        return ResolvedSpec(spec, {})
    head, colon, model = spec.partition(":")
    if colon and _is_known(kind, head):
        return ResolvedSpec(head, {"model": model})
    return ResolvedSpec(_ANY_MODEL, {"model": spec})


def _is_known(kind: str, name: str) -> bool:
    # Built-in names first: entry points are looked up only when needed.
    return name in BUILT_IN[kind] or name in _registered(kind)


def _imported(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)
