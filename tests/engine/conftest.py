"""Engines on models that cost nothing, and one on the bundled encoder."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from shortlist import Engine
from shortlist.errors import ModelError
from shortlist.indexing import stage_models
from shortlist.models import load_encoder

from .fakes import BagEncoder, OverlapReranker, make_tools
from .held_encoder import HeldEncoder

TIERS = ("lexical", "fast", "embed", "hybrid", "rerank")


class Models:
    """What `load_encoder` and `load_reranker` give, by spec."""

    def __init__(self) -> None:
        self.encoders = {"bundled": BagEncoder(), "other": BagEncoder("other")}
        self.rerankers: dict[str, Any] = {"overlap": OverlapReranker()}
        self.loaded: list[str] = []

    def load_encoder(self, spec: str, *, threads: int | None = None) -> BagEncoder:
        self.loaded.append(spec)
        return self.encoders[spec]

    def load_reranker(self, spec: str, *, threads: int | None = None) -> Any:
        self.loaded.append(spec)
        if spec not in self.rerankers:
            raise ModelError(f"no reranker {spec!r} here")
        return self.rerankers[spec]

    def check_model(self, kind: str, spec: str, **settings: Any) -> bool:
        if spec not in (*self.rerankers, *self.encoders):
            raise ModelError(f"no {kind} {spec!r} here")
        return True

    @property
    def encoder(self) -> BagEncoder:
        return self.encoders["bundled"]


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Models:
    """The cheap models, in place of the real ones."""
    known = Models()
    monkeypatch.setattr(stage_models, "load_encoder", known.load_encoder)
    monkeypatch.setattr(stage_models, "load_reranker", known.load_reranker)
    monkeypatch.setattr(stage_models, "check_model", known.check_model)
    return known


@pytest.fixture
def make_engine(models: Models) -> Callable[..., Engine]:
    """Builds an engine on cheap models; tools and settings as `Engine.from_tools`."""

    def make(tools: Any = None, **settings: Any) -> Engine:
        given = make_tools() if tools is None else tools
        return Engine.from_tools(given, **{"reranker": "overlap", **settings})

    return make


@contextmanager
def cheap_models() -> Iterator[Models]:
    """The cheap models, for tests that cannot use the fixture."""
    known = Models()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage_models, "load_encoder", known.load_encoder)
        patch.setattr(stage_models, "load_reranker", known.load_reranker)
        patch.setattr(stage_models, "check_model", known.check_model)
        yield known


def cheap_engine(tools: Any) -> Engine:
    """An engine on cheap models that outlives the patching of a single test."""
    with cheap_models():
        engine = Engine.from_tools(tools, reranker="overlap")
        engine.search("load the reranker", tier="rerank")
    return engine


@pytest.fixture(scope="session")
def engine() -> Engine:
    """A hundred tools on cheap models, not to be changed."""
    return cheap_engine(make_tools())


@pytest.fixture(params=TIERS)
def tier(request: pytest.FixtureRequest) -> str:
    """Each built-in tier."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def bundled_engine() -> Engine:
    """The bundled encoder over tools in many languages."""
    from .languages import TOOLS

    return Engine.from_tools(TOOLS)


@pytest.fixture(scope="session")
def saved_once(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "index"
    engine.save(folder)
    return folder


@pytest.fixture
def saved(saved_once: Path, models: Models, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved_once, tmp_path / "index"))


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldEncoder]:
    """The bundled encoder; it reads no definition before a test lets it."""
    encoder = HeldEncoder(load_encoder())
    monkeypatch.setattr(stage_models, "load_encoder", lambda *_, **__: encoder)
    yield encoder
    encoder.let.set()


@pytest.fixture
def other(models: Models) -> Iterator[HeldEncoder]:
    """An encoder of another vector space; it reads no definition before a test lets it."""
    encoder = HeldEncoder(BagEncoder("held"))
    models.encoders["other"] = encoder  # type: ignore[assignment]
    yield encoder
    encoder.let.set()
