"""A way to run the command line, and an index of the demo's tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import shortlist
from shortlist.cli.app import app
from shortlist.models import load_encoder

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def _plain_output(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session", autouse=True)
def _encoder_loaded_once() -> Iterator[None]:
    """A process of its own would load it for each command, and a hundred commands are run here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shortlist.indexing.stage_models.load_encoder", cache(load_encoder))
        yield


@pytest.fixture(scope="session")
def run() -> Run:
    """Runs the command line with arguments and checks its exit code."""
    runner = CliRunner()

    def run_command(*arguments: object, code: int = 0) -> Result:
        result = runner.invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == code, result.output
        return result

    return run_command


@pytest.fixture(scope="session")
def run_json(run: Run) -> Callable[..., Any]:
    """Runs a command with `--json`; its standard output has to be JSON and nothing else."""

    def run_command(*arguments: object, code: int = 0) -> Any:
        return json.loads(run(*arguments, "--json", code=code).stdout)

    return run_command


@pytest.fixture(scope="session")
def servers() -> Path:
    """The folder of the demo's server files."""
    return Path(shortlist.__file__).parent / "demo" / "catalog"


@pytest.fixture(scope="session")
def index(run: Run, servers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of the demo's 120 tools."""
    folder = tmp_path_factory.mktemp("index") / "demo"
    run("index", servers, "--out", folder)
    return folder


@pytest.fixture
def reranking(tmp_path: Path) -> Path:
    """A configuration that names a small random cross-encoder."""
    model = Path(__file__).parents[1] / "models" / "tiny_reranker"
    path = tmp_path / "reranking.json"
    path.write_text(json.dumps({"reranker": str(model)}), encoding="utf-8")
    return path


@pytest.fixture
def tools_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes tool definitions into a file of lines."""

    def write(*rows: object, name: str = "tools.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    return write
