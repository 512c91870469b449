"""Files are written in one step: a full disk leaves the old file, and nothing beside it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from shortlist import Tool
from shortlist.catalog.text_file import make_private_folder, replace_file, replace_text_file
from shortlist.errors import ConfigError, PinsError
from shortlist.gateway.clients.config_file import ConfigFile
from shortlist.gateway.connections.server_process import RunningProcesses
from shortlist.gateway.connections.server_spec import ServerSpec
from shortlist.gateway.upstream.server_lists import Listing
from shortlist.gateway.upstream.start_cache import ListingCache, SavedIndex
from shortlist.retrieval.store.vectors import Vectors
from shortlist.trust import Pins

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no limits and modes of files")
LONG = "x" * 10_000
TOOL = Tool("add", "math", LONG)


@contextmanager
def small_files() -> Iterator[None]:
    """No file may grow beyond 1,000 bytes: writing fails as on a full disk."""
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def write_manifest(folder: Path) -> None:
    ListingCache(folder).write(
        ServerSpec(name="one", transport="stdio", command="x"), Listing((), LONG, "1")
    )


def write_vectors(folder: Path) -> None:
    Vectors(np.ones((100, 100), np.float32), (b"k" * 16,) * 100, "m").append(folder)


def new_file(path: Path) -> ConfigFile:
    return ConfigFile.read(path, may_be_missing=True)


WRITERS: dict[str, tuple[Callable[[Path], object], type[Exception]]] = {
    "manifest": (write_manifest, OSError),
    "pins": (lambda folder: Pins().pin([TOOL]).save(folder / "pins.json"), PinsError),
    "text": (lambda folder: replace_text_file(folder / "a", [LONG]), OSError),
    "client": (
        lambda folder: new_file(folder / "a").replace(LONG.encode()),
        ConfigError,
    ),
    "backup": (
        lambda folder: ConfigFile.read(folder / "present").replace(b""),
        ConfigError,
    ),
    "vectors": (write_vectors, OSError),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, name: str) -> None:
    write, error = WRITERS[name]
    if name == "backup":
        (tmp_path / "present").write_text(f'{{"a": "{LONG}"}}')
    before = [path for path in tmp_path.rglob("*") if path.is_file()]
    with small_files(), pytest.raises(error):
        write(tmp_path)
    after = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in after if path.stat().st_size] == before
    assert len(after) <= len(before) + (name == "client")  # the empty backup of a new file


def test_what_the_gateway_keeps_is_for_its_owner_only(tmp_path: Path) -> None:
    for name in ("manifests", "running"):
        (tmp_path / name).mkdir(mode=0o755)  # as earlier versions created it
    write_manifest(tmp_path / "manifests")
    RunningProcesses(tmp_path / "running").record_start(1)
    Pins().pin([TOOL]).save(tmp_path / "pins" / "of" / "one.json")
    saved = SavedIndex(tmp_path / "index", ["math"], {"tiers": ["lexical"]})
    saved.save(saved.engine([TOOL]))
    paths = list(tmp_path.rglob("*"))
    assert any(path.name == "manifest.json" for path in paths)
    assert {path for path in paths if path.stat().st_mode & 0o077} == set()


def test_a_file_that_others_may_read_stays_so(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    replace_text_file(path, ["1"])
    present = tmp_path / "b"
    present.touch()
    assert path.stat().st_mode == present.stat().st_mode
    replace_file(path, [b"2"], mode=0o640)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("2", 0o640)


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_a_link_beside_the_file_is_not_written_through(
    tmp_path: Path, link: Callable[[Path, Path], None]
) -> None:
    other, path = tmp_path / "profile", tmp_path / "mcp.json"
    other.write_text("mine")
    link(tmp_path / ".mcp.json.partial", other)
    new_file(path).replace(b"{}", backup=False)
    assert (other.read_text(), path.read_text()) == ("mine", "{}")
    assert not path.is_symlink()
    assert {path.name for path in tmp_path.iterdir()} == {"profile", "mcp.json"}


def test_only_new_folders_are_private(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o755)
    make_private_folder(tmp_path / "a" / "b" / "c")
    make_private_folder(tmp_path / "a")
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b", "a/b/c")]
    assert modes == [0o755, 0o700, 0o700]
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="exists"):
        make_private_folder(tmp_path / "file")
