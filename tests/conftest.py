"""Fixtures every part of the suite shares, and what keeps it quick."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from shortlist import registry
from shortlist.models.onnx_models import OnnxEncoder

from .postgres import PostgresServer, running_server

if TYPE_CHECKING:
    from shortlist.tests.providers.checking_server import CheckingServer, Conversation

# Times are tested where they are the subject; a busy machine makes any example slow.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

#: Fingerprint of an encoder and text, to the text's vector.
_VECTORS: dict[tuple[str, str], Any] = {}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run files with few tests first; measure coverage in the first case of a test only.

    The few are the long ones, which start processes: last, one of them would keep one worker busy
    while the others have nothing left. Measuring coverage doubles the time of a test, and further
    cases and Hypothesis's examples reach few lines more.
    """
    counts = Counter(item.path for item in items)
    items.sort(key=lambda item: counts[item.path])
    seen: set[str] = set()
    for item in items:
        test = item.nodeid.partition("[")[0]
        if test in seen or "hypothesis" in item.keywords:
            item.add_marker(pytest.mark.no_cover)
        seen.add(test)


def pytest_collection_finish() -> None:
    """What was imported and collected stays; the garbage collector need not look at it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _texts_encoded_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """Encode a text once in a test process, except where the encoders are the subject.

    A text has one vector, whatever it is encoded with; most of the time of an engine goes there.
    """
    if Path(request.path).parent.name == "models":
        yield
        return
    encode = OnnxEncoder._embed

    def encode_once(encoder: OnnxEncoder, text: str) -> Any:
        key = encoder.fingerprint, text
        if key not in _VECTORS:
            _VECTORS[key] = encode(encoder, text)
        return _VECTORS[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OnnxEncoder, "_embed", encode_once)
        yield


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str, str], None]]:
    """Registers entry points as if other packages were installed: kind, name, `module:name`."""
    points: dict[str, list[EntryPoint]] = {}
    monkeypatch.setattr(registry, "entry_points", lambda *, group: points.get(group, []))
    registry._registered.cache_clear()

    def register(kind: str, name: str, value: str) -> None:
        group = f"shortlist.{kind}"
        points.setdefault(group, []).append(EntryPoint(name, value, group))
        registry._registered.cache_clear()

    yield register
    monkeypatch.undo()
    registry._registered.cache_clear()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The evaluation and training data that lies beside a checkout, where there is one."""
    path = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not path.is_dir():
        pytest.skip("no shared data beside this checkout")
    return path


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A PostgreSQL server of this test process."""
    with running_server(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture
def postgres_dsn(postgres_server: PostgresServer) -> str:
    """Connection string of a new database with the schema."""
    return postgres_server.new_database()


@pytest.fixture(scope="session")
def checking_server() -> Iterator[CheckingServer]:
    """The server that stands for Anthropic and OpenAI, of this test process."""
    # The SDKs take a second to import.
    from shortlist.tests.providers.checking_server import CheckingServer

    with CheckingServer() as server:
        yield server


@pytest.fixture
def provider(checking_server: CheckingServer) -> Conversation:
    """A new conversation with a scripted model behind the APIs of Anthropic and OpenAI."""
    return checking_server.conversation()
