"""Importing what is not part of the core install."""

from __future__ import annotations

from pathlib import Path

import pytest

from shortlist.errors import MissingExtraError
from shortlist.lab.peers.libraries import library


def test_a_library_that_is_there_is_returned() -> None:
    assert library("json.decoder", "any").JSONDecoder


@pytest.mark.parametrize("module", ["no_such_library", "no_such_library.part", "json.no_such"])
def test_an_absent_one_names_peer_and_extra(module: str) -> None:
    with pytest.raises(MissingExtraError, match=r"peer 'p' .*\[lab\]"):
        library(module, "p")


def test_a_broken_one_is_not_called_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_library.py").write_text("import what_it_forgot_to_require\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="what_it_forgot_to_require"):
        library("broken_library", "p")
