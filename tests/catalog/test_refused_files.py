"""Files that cannot or should not be read: refused by kind and size, each for itself."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from shortlist.catalog import Catalog, read_tools
from shortlist.config import Config
from shortlist.decision.decider import Decider
from shortlist.errors import CatalogError, ShortlistError
from shortlist.evals.dataset import read_queries
from shortlist.loaders.summaries import Summaries
from shortlist.session.recorder import read_events

MCP = {"name": "forecast", "title": "Forecast", "description": "Weather", "inputSchema": {}}


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe.json"
    os.mkfifo(path)
    return path


def _readers_of_files() -> dict[str, Callable[[Path], object]]:
    return {
        "tools": read_tools,
        "config": Config.read,
        "summaries": Summaries.read,
        "calibration": Decider.load,
        "event log": lambda path: list(read_events(path)),
        "queries": lambda path: read_queries([path], Catalog()),
    }


@pytest.mark.parametrize("reader", _readers_of_files())
@pytest.mark.parametrize("kind", ["pipe", "zero", "random", "folder", "missing"])
def test_only_regular_files_are_read(reader: str, kind: str, pipe: Path) -> None:
    """None of these is opened: reading from the pipe would wait, from a device never end."""
    folder = pipe.parent / "folder.json"
    (folder / "empty").mkdir(parents=True)
    path = {
        "pipe": pipe,
        "zero": Path("/dev/zero"),
        "random": Path("/dev/urandom"),
        "folder": folder,
        "missing": folder / "missing.json",
    }[kind]
    with pytest.raises(ShortlistError, match=r"pipe|device|folder|No such file"):
        _readers_of_files()[reader](path)


def test_a_pipe_in_a_folder_costs_only_itself(pipe: Path) -> None:
    (pipe.parent / "a.json").write_text(json.dumps({"tools": [MCP]}))
    read = read_tools(pipe.parent, strict=False)
    assert [tool.id for tool in read.tools] == ["a/forecast"]
    (rejected,) = read.rejected
    assert (rejected.where, rejected.field) == (str(pipe), "file")
    assert "it is a pipe" in rejected.reason


def test_a_file_is_refused_by_its_size_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    for read in (read_tools, Config.read, Summaries.read):
        with pytest.raises(ShortlistError, match=r"1,099,511,627,776 bytes, more than [\d,]+"):
            read(path)


@pytest.mark.parametrize("name", ["bad.json", "bad.jsonl", "bad.yaml"])
@pytest.mark.parametrize("content", ["9" * 5_000, '{"tools": [{"name": "x", "big": 9', "[[[[", "7"])
def test_one_bad_file_never_takes_the_folder_down(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    (tmp_path / "good.json").write_text(json.dumps({"tools": [MCP]}))
    read = read_tools(tmp_path, strict=False)
    assert [tool.id for tool in read.tools] == ["good/forecast"]
    assert read.rejected
    assert all(name in one.where for one in read.rejected)
    with pytest.raises(CatalogError, match="bad"):
        read_tools(tmp_path)


@pytest.mark.parametrize("name", ["a.json", "a.yaml"])
def test_a_number_of_5000_digits_costs_only_its_definition(tmp_path: Path, name: str) -> None:
    digits = "9" * 5_000
    bad = f'{{"name": "bad", "inputSchema": {{"maximum": {digits}}}}}'
    (tmp_path / name).write_text(f'{{"tools": [{bad}, {json.dumps(MCP)}]}}')
    read = read_tools(tmp_path, strict=False)
    assert [tool.id for tool in read.tools] == ["a/forecast"]
    assert "1024 bits" in read.rejected[0].reason
