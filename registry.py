"""Named parts: the ones built in, and the ones other packages register.

A package adds a part through an entry point of the group `shortlist.KIND`, for instance::

    [project.entry-points."shortlist.dense"]
    usearch = "my_package.index:UsearchIndex"
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from .errors import ConfigError

BUILT_IN: Mapping[str, Mapping[str, str]] = {
    "lexical": {"tantivy": "shortlist.retrieval.lexical:TantivyIndex"},
    "dense": {
        "exact": "shortlist.retrieval.exact:ExactIndex",
        "hnswlib": "shortlist.retrieval.hnsw:HnswIndex",
        "auto": "shortlist.retrieval.auto:AutoIndex",
    },
    "fusion": {
        "linear": "shortlist.retrieval.fusion:LinearFusion",
        "rrf": "shortlist.retrieval.fusion:ReciprocalRankFusion",
    },
    "strategy": {"pipeline": "shortlist.retrieval.strategy:Pipeline"},
    # Functions of a State that rules of the gate may name; none is built in.
    "predicate": {},
}


@cache
def _registered(kind: str) -> Mapping[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"shortlist.{kind}")}


def names(kind: str) -> tuple[str, ...]:
    """Names that `load` knows for a kind, built in first."""
    return tuple(dict.fromkeys([*BUILT_IN[kind], *sorted(_registered(kind))]))


def load(kind: str, name: str) -> Any:
    """The class or factory registered under a name.

    Args:
        kind: `lexical`, `dense`, `fusion`, `strategy` or `predicate`.
        name: as written in the configuration.

    Raises:
        ConfigError: nothing of that name, or what is registered cannot be imported.
        MissingExtraError: it needs an optional dependency.
    """
    if name in BUILT_IN[kind]:
        module, _, attribute = BUILT_IN[kind][name].partition(":")
        return getattr(import_module(module), attribute)
    point = _registered(kind).get(name)
    if point is None:
        raise ConfigError(
            f"no {kind} backend {name!r}; there are: {', '.join(names(kind))}. "
            f"Packages add others through the entry point group 'shortlist.{kind}'"
        )
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"{kind} backend {name!r} is registered as {point.value!r} but cannot be loaded: "
            f"{error}"
        ) from error
